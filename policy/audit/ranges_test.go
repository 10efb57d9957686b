package audit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// TestRanges is the table of how batches are shown.
func TestRanges(t *testing.T) {
	long := make([]int8, 100)
	for _, c := range []struct {
		name    string
		batches []codec.AckBatch
		want    string // as in the line
		records string
	}{
		{"one type", []codec.AckBatch{batch(0, 14, 1)}, `{"first":0,"last":14,"type":"accept"}`, "15"},
		{"one offset", []codec.AckBatch{batch(7, 7, 0)}, `{"first":7,"last":7,"type":"gap"}`, "1"},
		{"all offsets there are", []codec.AckBatch{batch(0, math.MaxInt64-1, 3)}, `{"first":0,"last":"9223372036854775806","type":"reject"}`, `"9223372036854775807"`},
		{"sums stop", []codec.AckBatch{batch(0, math.MaxInt64-1, 3), batch(0, 9, 1)},
			`{"first":0,"last":"9223372036854775806","type":"reject"},{"first":0,"last":9,"type":"accept"}`, `"9223372036854775807"`},
		{"below zero", []codec.AckBatch{batch(math.MinInt64, math.MaxInt64, 2)},
			`{"first":"-9223372036854775808","last":"9223372036854775807","type":"release"}`, `"9223372036854775807"`},
		{"the last number", []codec.AckBatch{batch(1<<53, 1<<53, 4)}, `{"first":9007199254740992,"last":9007199254740992,"type":"renew"}`, "1"},
		{"the first string", []codec.AckBatch{batch(1<<53+1, 1<<53+1, 4)}, `{"first":"9007199254740993","last":"9007199254740993","type":"renew"}`, "1"},
		{"runs", []codec.AckBatch{batch(55, 63, 3, 3, 3, 1, 1, 0, 1, 1, 1)}, `{"first":55,"last":57,"type":"reject"},{"first":58,"last":59,"type":"accept"},` +
			`{"first":60,"last":60,"type":"gap"},{"first":61,"last":63,"type":"accept"}`, "9"},
		{"batches are not joined", []codec.AckBatch{batch(0, 1, 1), batch(2, 3, 1)}, `{"first":0,"last":1,"type":"accept"},{"first":2,"last":3,"type":"accept"}`, "4"},
		{"other types", []codec.AckBatch{batch(0, 1, 5, -128)}, `{"first":0,"last":0,"type":"other(5)"},{"first":1,"last":1,"type":"other(-128)"}`, "2"},
		{"inverted", []codec.AckBatch{batch(9, 3, 1)}, `{"first":9,"last":3,"types":["accept"],"types_count":1}`, "0"},
		{"no types", []codec.AckBatch{batch(3, 9)}, `{"first":3,"last":9,"type":null}`, "0"},
		{"too few types", []codec.AckBatch{batch(0, 2, 1, 3)}, `{"first":0,"last":2,"types":["accept","reject"],"types_count":2}`, "0"},
		{"too many types", []codec.AckBatch{batch(0, 98, long...)}, `{"first":0,"last":98,"types":[` + strings.Repeat(`"gap",`, 63) + `"gap"],"types_count":100}`, "0"},
		{"a wrap that fits", []codec.AckBatch{batch(math.MaxInt64, math.MinInt64, 1, 1)},
			`{"first":"9223372036854775807","last":"-9223372036854775808","types":["accept","accept"],"types_count":2}`, "0"},
		{"good beside bad", []codec.AckBatch{batch(9, 3, 1), batch(0, 1, 1)},
			`{"first":9,"last":3,"types":["accept"],"types_count":1},{"first":0,"last":1,"type":"accept"}`, "2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines, _ := audit(t, answered(share(t, orders(4, c.batches...)), row(ordersID, 4, 42)))
			want := `"asked":[` + c.want + `],"forwarded":"same","records":` + c.records + `,`
			if !strings.Contains(lines[0], want) {
				t.Errorf("%s\nlacks %s", lines[0], want)
			}
		})
	}
}

// TestRangesCover: whatever is asked, read back from the lines and unfolded, is what was asked, offset by offset and in order. Each
// round also has more ranges than a line holds, now and then.
func TestRangesCover(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		batches := randomBatches(rnd, 1+rnd.IntN(60))
		lines, events := audit(t, answered(share(t, orders(4, batches...)), row(ordersID, 4, 0)))
		var got, want []string
		records := int64(0)
		for i, e := range events {
			got = append(got, unfold(e.Ack.Asked)...)
			records += int64(e.Ack.Records)
			if e.ID != events[0].ID || len(events) > 1 && (e.Stream.Part != i+1 || e.Stream.Parts != len(events)) {
				t.Fatalf("part %d of %d has id %s and says %d of %d", i+1, len(events), e.ID, e.Stream.Part, e.Stream.Parts)
			}
		}
		for _, b := range batches {
			for i := range b.LastOffset - b.FirstOffset + 1 {
				typ := b.Types[0]
				if len(b.Types) > 1 {
					typ = b.Types[i]
				}
				want = append(want, fmt.Sprint(b.FirstOffset+i, TypeName(int8(typ))))
			}
		}
		if !slices.Equal(got, want) || records != int64(len(want)) {
			t.Fatalf("round %d: %d lines hold %d offsets and count %d, want %d", round, len(lines), len(got), records, len(want))
		}
	}
}

func randomBatches(rnd *rand.Rand, n int) (batches []codec.AckBatch) {
	at := int64(0)
	for range n {
		size := 1 + rnd.IntN(64)
		b := codec.AckBatch{FirstOffset: at, LastOffset: at + int64(size) - 1}
		for range size {
			b.Types = append(b.Types, byte(rnd.IntN(6)))
		}
		if rnd.IntN(2) == 0 {
			b.Types = b.Types[:1]
		}
		batches = append(batches, b)
		at += int64(size + rnd.IntN(3))
	}
	return batches
}

func unfold(asked []Range) (offsets []string) {
	for _, r := range asked {
		for o := r.First; o <= r.Last; o++ {
			offsets = append(offsets, fmt.Sprint(int64(o), r.Type))
		}
	}
	return offsets
}

// TestManyRanges: 5,000 ranges become parts of at most 8 KiB, and one verdict in each.
func TestManyRanges(t *testing.T) {
	var batches []codec.AckBatch
	for i := range int64(5000) {
		batches = append(batches, batch(10*i, 10*i+7, int8(i%5)))
	}
	o := answered(share(t, orders(4, batches...)), row(ordersID, 4, 121))
	o.Reply.Partitions[0].ErrorMessage = strings.Repeat("\x00", 2000)
	o.Request.ClientID = []byte(strings.Repeat("\x01", 2000))
	o.Note = strings.Repeat("é", 2000)
	after := answered(share(t, orders(4, batch(0, 0, 1))), row(ordersID, 4, 0))
	_, events := audit(t, o, after)
	n := len(events) - 1
	if n < 20 || events[0].Stream.Parts != n || events[n].Stream.Part != 0 || events[n].ID <= events[0].ID {
		t.Fatalf("%d lines for 5,000 ranges, %+v, then %+v", n, events[0].Stream, events[n].Stream)
	}
	ranges := 0
	for _, e := range events[:n] {
		ranges += len(e.Ack.Asked)
		if e.Verdict.State != "refused" {
			t.Errorf("part %d: %s", e.Stream.Part, e.Verdict.State)
		}
	}
	if ranges != 5000 {
		t.Errorf("%d ranges", ranges)
	}
}

// TestMostTypes: a type array as long as the codec takes them costs its lines and no more, well-formed or not.
func TestMostTypes(t *testing.T) {
	const n = 200_000
	types := make([]int8, n)
	for i := range types {
		types[i] = int8(i % 2)
	}
	good := answered(share(t, orders(4, batch(0, n-1, types...))), row(ordersID, 4, 0))
	bad := answered(share(t, orders(4, batch(0, n, types...))), row(ordersID, 4, 42))
	_, events := audit(t, good, bad)
	sum := Offset(0)
	for _, e := range events[:len(events)-1] {
		sum += e.Ack.Records
	}
	last := events[len(events)-1]
	if sum != n || last.Ack.Asked[0].TypesCount != n || last.Stream.Part != 0 {
		t.Errorf("%d records, then %+v", sum, last.Ack.Asked)
	}
}

// TestRecordsByType: totals of the metrics, by type, leave out what is superseded or malformed.
func TestRecordsByType(t *testing.T) {
	var j joiner
	o := share(t, orders(4, batch(0, 9, policy.Accept)), orders(4, batch(0, 4, 0, 1, 2, 3, 4), batch(9, 3, 1), batch(20, 29, 77)))
	j.load(&o.Request)
	if sum := j.each(&j.entries[0], func(asked) {}); sum != (totals{1, 1, 1, 1, 1, 10}) {
		t.Errorf("%v", sum)
	}
}
