package policy

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/ackproxy/ackproxy/codec"
)

// as is a piece that nobody touched.
func as(first, last int64, t int8) Piece {
	return Piece{First: first, Last: last, Asked: t, Forwarded: t}
}

func TestAskedPieces(t *testing.T) {
	for _, tc := range []struct {
		name    string
		batches []codec.AckBatch
		want    []Piece
	}{
		{"one type for a range", []codec.AckBatch{batch(3, 9, Accept)}, []Piece{as(3, 9, Accept)}},
		{"one type for each offset", []codec.AckBatch{batch(0, 4, 1, 1, 3, 3, 2)}, []Piece{as(0, 1, 1), as(2, 3, 3), as(4, 4, 2)}},
		{"the longest range", []codec.AckBatch{batch(0, math.MaxInt64-1, Accept)}, []Piece{as(0, math.MaxInt64-1, Accept)}},
		{"the last offset", []codec.AckBatch{batch(5, math.MaxInt64, Gap)}, []Piece{as(5, math.MaxInt64, Gap)}},
		{"batches of one type that touch are one piece", []codec.AckBatch{batch(0, 4, 1), batch(5, 6, 1, 2)}, []Piece{as(0, 5, 1), as(6, 6, 2)}},
		{"batches with a gap", []codec.AckBatch{batch(0, 4, 1), batch(6, 6, 1)}, []Piece{as(0, 4, 1), as(6, 6, 1)}},
		{"a shared offset is the later batch's", []codec.AckBatch{batch(0, 5, 1), batch(5, 7, 3)}, []Piece{as(0, 4, 1), as(5, 7, 3)}},
		{"a shared offset, one type", []codec.AckBatch{batch(0, 5, 1), batch(5, 7, 1)}, []Piece{as(0, 7, 1)}},
		{"a batch of a shared offset alone", []codec.AckBatch{batch(0, 4, 2), batch(5, 5, 1), batch(5, 7, 2)}, []Piece{as(0, 7, 2)}},
		{"from -1", []codec.AckBatch{batch(-1, 5, 1)}, []Piece{as(-1, 5, 1)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Asked(request(t, false, entry{orders, 3, tc.batches}))
			if err != nil || len(got) != 1 || got[0].Malformed || got[0].TopicID != orders || got[0].Index != 3 {
				t.Fatal(got, err)
			}
			if !slices.Equal(got[0].Pieces, tc.want) {
				t.Errorf("got  %v\nwant %v", got[0].Pieces, tc.want)
			}
		})
	}
}

func TestAskedMalformed(t *testing.T) {
	good := batch(0, 4, Accept)
	for _, tc := range []struct {
		name    string
		renew   bool
		version int16
		carrier Carrier
		batches []codec.AckBatch
		want    bool
	}{
		{"first after last", false, 2, ShareAcknowledge, []codec.AckBatch{good, batch(9, 8, 1)}, true},
		{"negative", false, 2, ShareAcknowledge, []codec.AckBatch{batch(-5, -1, 1)}, true},
		{"all there is", false, 2, ShareAcknowledge, []codec.AckBatch{batch(math.MinInt64, math.MaxInt64, 1)}, true},
		{"overlap", false, 2, ShareAcknowledge, []codec.AckBatch{good, batch(3, 6, 1)}, true},
		{"descending", false, 2, ShareAcknowledge, []codec.AckBatch{batch(7, 8, 1), good}, true},
		{"no types", false, 2, ShareAcknowledge, []codec.AckBatch{good, batch(5, 6)}, true},
		{"too few types", false, 2, ShareAcknowledge, []codec.AckBatch{batch(0, 2, 1, 1)}, true},
		{"too many types", false, 2, ShareAcknowledge, []codec.AckBatch{batch(0, 0, 1, 1)}, true},
		{"two types for the longest range", false, 2, ShareAcknowledge, []codec.AckBatch{batch(0, math.MaxInt64-1, 1, 1)}, true},
		{"type below 0", false, 2, ShareAcknowledge, []codec.AckBatch{batch(0, 1, 1, -1)}, true},
		{"type above 4", true, 2, ShareAcknowledge, []codec.AckBatch{batch(0, 1, 1, 5)}, true},
		{"Renew without the flag", false, 2, ShareAcknowledge, []codec.AckBatch{batch(0, 0, Renew)}, true},
		{"Renew below version 2", true, 1, ShareFetch, []codec.AckBatch{batch(0, 0, Renew)}, true},
		{"Renew in a transaction", true, 2, TxnShareAcknowledge, []codec.AckBatch{batch(0, 0, Renew)}, true},
		{"Renew", true, 2, ShareFetch, []codec.AckBatch{batch(0, 0, Renew)}, false},
		{"the lowest and the highest type", false, 1, ShareFetch, []codec.AckBatch{batch(0, 1, Gap, Reject)}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := request(t, tc.renew, entry{orders, 0, tc.batches}, entry{orders, 1, []codec.AckBatch{good}})
			r.APIVersion, r.Carrier = tc.version, tc.carrier
			got, err := Asked(r)
			if err != nil || len(got) != 2 || got[0].Malformed != tc.want || tc.want != (len(got[0].Pieces) == 0) {
				t.Fatalf("%+v, %v; malformed should be %v", got, err, tc.want)
			}
			if !slices.Equal(got[1].Pieces, []Piece{as(0, 4, Accept)}) {
				t.Errorf("the neighbour has %v", got[1].Pieces)
			}
		})
	}
}

// TestAskedOrder checks which entries count and where, below and above the number of partitions for which a map is used.
func TestAskedOrder(t *testing.T) {
	for _, others := range []int{1, 3 * fewPartitions} {
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			entries := []entry{
				{orders, 0, []codec.AckBatch{batch(0, 0, Accept)}},   // superseded
				{payments, 0, []codec.AckBatch{batch(1, 1, Accept)}}, // same index, another topic
				{orders, 9, nil}, // only lists the partition
				{payments, 7, []codec.AckBatch{batch(5, 5, Accept)}},
				{payments, 8, []codec.AckBatch{batch(9, 8, Accept)}}, // malformed
			}
			for i := range others {
				entries = append(entries, entry{orders, int32(100 + i), []codec.AckBatch{batch(2, 2, Accept)}})
			}
			entries = append(entries, entry{payments, 7, nil}, entry{payments, 8, nil}, // brokers take nothing of these
				entry{payments, 0, nil}, entry{payments, 0, []codec.AckBatch{batch(1, 2, Release)}},
				entry{orders, 0, nil}, entry{orders, 0, []codec.AckBatch{batch(0, 3, Reject)}})
			got, err := Asked(request(t, false, entries...))
			if err != nil || len(got) != others+2 {
				t.Fatalf("%d partitions, %v", len(got), err)
			}
			before, last := got[len(got)-2], got[len(got)-1]
			if before.TopicID != payments || before.Index != 0 || !slices.Equal(before.Pieces, []Piece{as(1, 2, Release)}) ||
				last.TopicID != orders || last.Index != 0 || !slices.Equal(last.Pieces, []Piece{as(0, 3, Reject)}) {
				t.Errorf("the last but one %+v, the last %+v", before, last)
			}
		})
	}
}

func TestAskedBound(t *testing.T) {
	types := make([]int8, MaxPieces+1)
	for i := range types {
		types[i] = int8(1 + i%2)
	}
	of := func(n int) *Request {
		return request(t, false, entry{orders, 0, []codec.AckBatch{batch(0, int64(n-1), types[:n]...)}})
	}
	if got, err := Asked(of(MaxPieces)); err != nil || len(got[0].Pieces) != MaxPieces {
		t.Errorf("at the bound: %v", err)
	}
	var many *TooManyPiecesError
	if _, err := Asked(of(MaxPieces + 1)); !errors.As(err, &many) || many.Pieces != MaxPieces+1 {
		t.Errorf("above the bound: %v", err)
	}
}

// What a later entry supersedes, or is malformed, costs nothing once Asked has returned.
func TestAskedKeepsLittle(t *testing.T) {
	many := batch(0, 99_999)
	for i := range 100_000 {
		many.Types = append(many.Types, byte(1+i%2))
	}
	bad := batch(-5, -1, Accept)
	few := []codec.AckBatch{batch(0, 0, Accept)}
	repeated := make([]entry, 5_000)
	for i := range repeated {
		repeated[i] = entry{orders, 0, few}
	}
	for name, entries := range map[string][]entry{
		"superseded":        {{orders, 0, []codec.AckBatch{many}}, {orders, 1, few}, {orders, 0, few}},
		"malformed":         {{orders, 0, []codec.AckBatch{many, bad}}, {orders, 1, few}},
		"one piece of many": {{orders, 0, touching(100_000)}},
		"named often":       repeated,
	} {
		r := request(t, false, entries...)
		var kept [20][]Decided
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range kept {
			var err error
			if kept[i], err = Asked(r); err != nil {
				t.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if n := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / int64(len(kept)); n > 16<<10 {
			t.Errorf("%s: %d KiB each", name, n>>10)
		}
		runtime.KeepAlive(kept)
	}
}

// touching are batches of single offsets that make one piece.
func touching(n int64) (all []codec.AckBatch) {
	for i := range n {
		all = append(all, batch(i, i, Accept))
	}
	return all
}
