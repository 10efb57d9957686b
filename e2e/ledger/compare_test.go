package ledger

import (
	"slices"
	"testing"
)

func TestCompare(t *testing.T) {
	k := Key{"c", 0, 7}
	ok, failed, silent := Claim{"accept", true, ""}, Claim{"accept", true, "no"}, Claim{"accept", false, ""}
	released := Claim{"release", true, ""}
	in := func(kind, state string) Entry { return Entry{Type: kind, State: state} }
	for _, c := range []struct {
		name   string
		claims []Claim
		audit  []Entry
		calm   finding
		stormy finding
	}{
		{"same", []Claim{released, ok}, []Entry{in("release", "accepted"), in("accept", "accepted")}, agree, agree},
		{"nothing audited", []Claim{ok}, nil, unaudited, unaudited},
		{"nothing acknowledged", nil, []Entry{in("accept", "accepted")}, invented, invented},
		{"one of two audited", []Claim{released, ok}, []Entry{in("release", "accepted")}, unaudited, unaudited},
		{"twice audited", []Claim{ok}, []Entry{in("accept", "accepted"), in("accept", "accepted")}, invented, agree},
		{"other type", []Claim{ok}, []Entry{in("reject", "accepted")}, invented, invented},
		{"other order", []Claim{released, ok}, []Entry{in("accept", "accepted"), in("release", "accepted")}, invented, invented},
		{"success audited as refused", []Claim{ok}, []Entry{in("accept", "refused")}, disagree, disagree},
		{"success audited as unknown", []Claim{ok}, []Entry{in("accept", "unknown")}, disagree, disagree},
		{"failed and refused", []Claim{failed}, []Entry{in("accept", "refused")}, disagree, agree},
		{"failed and not sent", []Claim{failed, ok}, []Entry{in("accept", "accepted")}, unaudited, agree},
		{"no result and unknown", []Claim{silent}, []Entry{in("accept", "unknown")}, disagree, agree},
		{"sent again", []Claim{ok}, []Entry{in("accept", "refused"), in("accept", "accepted")}, invented, agree},
		{"sent again, then refused", []Claim{ok}, []Entry{in("accept", "accepted"), in("accept", "refused")}, invented, disagree},
	} {
		t.Run(c.name, func(t *testing.T) {
			for calm, want := range map[bool]finding{true: c.calm, false: c.stormy} {
				r := Compare(map[Key][]Claim{k: c.claims}, map[Key][]Entry{k: c.audit}, calm)
				got := map[finding]int{unaudited: len(r.Unaudited), invented: len(r.Invented), disagree: len(r.Disagree)}
				for f, n := range got {
					if (n == 1) != (f == want) {
						t.Errorf("calm %v: finding %d: %d times; want %d\n%s", calm, f, n, want, r)
					}
				}
			}
		})
	}
}

func TestUnsure(t *testing.T) {
	accept := func(answered bool, err string) []Claim { return []Claim{{"accept", answered, err}} }
	claims := map[Key][]Claim{
		{"c", 0, 1}: accept(true, ""),
		{"c", 0, 2}: accept(true, "lost"),
		{"c", 0, 3}: accept(true, "not here"),
		{"c", 0, 4}: accept(true, "not written"),
		{"c", 0, 5}: {{"release", true, ""}},
		{"c", 0, 6}: accept(true, "not here"),
		{"d", 0, 6}: accept(true, ""), // another member had it after that
	}
	entries := map[Key][]Entry{
		{"c", 0, 1}: {{"accept", "accepted", "", 0}},
		{"c", 0, 2}: {{"accept", "unknown", "", -1}},
		{"c", 0, 3}: {{"accept", "refused", "", 3}},
		{"c", 0, 4}: {{"accept", "refused", "", 6}},
		{"c", 0, 5}: {{"release", "accepted", "", 0}},
		{"c", 0, 6}: {{"accept", "refused", "", 3}},
	}
	unsure, open := Unsure(claims, entries)
	offsets := func(ks []Key) (all []int64) {
		for _, k := range ks {
			all = append(all, k.Offset)
		}
		slices.Sort(all)
		return all
	}
	if got, want := offsets(unsure), []int64{2, 3, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("unsure %v; want %v", got, want)
	}
	if got, want := offsets(open), []int64{3, 5}; !slices.Equal(got, want) {
		t.Errorf("open %v; want %v", got, want)
	}
}
