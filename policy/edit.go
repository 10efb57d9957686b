package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
)

// editor applies one verdict's edits to one partition after the other.
type editor struct {
	policy, reason string
	edits          []*Edit // of the partition at hand, in order
	cuts           []int64 // offsets at which an edit begins, or just behind which one ended
	room           int     // how many more pieces there may be
	touches        int
}

// apply returns the pieces as the edits leave them. The old ones stay as they are.
func (e *editor) apply(old []Piece) ([]Piece, error) {
	e.cuts = e.cuts[:0]
	for _, edit := range e.edits {
		e.cuts = append(e.cuts, edit.First)
		if edit.Last < math.MaxInt64 {
			e.cuts = append(e.cuts, edit.Last+1)
		}
	}
	slices.Sort(e.cuts)
	pieces, err := e.split(old)
	if err != nil {
		return nil, err
	}
	for _, edit := range e.edits {
		i := sort.Search(len(pieces), func(i int) bool { return pieces[i].First >= edit.First })
		for ; i < len(pieces) && pieces[i].Last <= edit.Last; i++ {
			if e.touches++; e.touches > maxTouches {
				return nil, fmt.Errorf("the edits change more than %d pieces", maxTouches)
			}
			e.touch(&pieces[i], edit)
		}
	}
	pieces = coalesce(pieces)
	e.room -= len(pieces) - len(old)
	return pieces, nil
}

// split cuts pieces so that each edit concerns whole ones.
func (e *editor) split(old []Piece) ([]Piece, error) {
	pieces := make([]Piece, 0, len(old)+min(len(e.cuts), e.room))
	cuts, added := e.cuts, 0
	for _, p := range old {
		i, _ := slices.BinarySearch(cuts, p.First)
		for cuts = cuts[i:]; len(cuts) > 0 && cuts[0] <= p.Last; cuts = cuts[1:] {
			if cuts[0] == p.First {
				continue
			}
			if added++; added > e.room {
				return nil, &TooManyPiecesError{MaxPieces - e.room + added}
			}
			left := p
			left.Last, p.First = cuts[0]-1, cuts[0]
			pieces = append(pieces, left)
		}
		pieces = append(pieces, p)
	}
	return pieces, nil
}

// coalesce joins neighbours that differ in their offsets only, in place: cuts that changed nothing leave no trace.
func coalesce(pieces []Piece) []Piece {
	kept := pieces[:0]
	for _, p := range pieces {
		if n := len(kept) - 1; n >= 0 && kept[n].Last+1 == p.First {
			last := kept[n]
			last.First, last.Last = p.First, p.Last
			if last == p {
				kept[n].Last = p.Last
				continue
			}
		}
		kept = append(kept, p)
	}
	return kept
}

// touch applies an edit to a piece that lies within it. What is withheld stays so.
func (e *editor) touch(p *Piece, edit *Edit) {
	switch {
	case p.Withheld || edit.Action == Change && p.Forwarded == edit.Type:
		return
	case edit.Action == Change:
		p.Forwarded = edit.Type
	default:
		p.Withheld, p.ErrorCode = true, cmp.Or(edit.ErrorCode, codeInvalidRecordState)
	}
	p.Policy, p.Reason = e.policy, cmp.Or(edit.Reason, e.reason)
}
