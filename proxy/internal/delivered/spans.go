package delivered

import (
	"cmp"
	"slices"
)

// offsets is a run of offsets, both ends included.
type offsets struct {
	first, last int64
	kind        int8 // the type they are acknowledged with, where they are
}

// carve appends spans to dst, with the parts that lie in pieces as edit leaves them, or without those of which it says that they do not stay.
// Both are ascending and disjoint. edit must not change the offsets.
func carve(dst, spans []span, pieces []offsets, edit func(*span, offsets) (stays bool)) []span {
	for _, s := range spans {
		for len(pieces) > 0 && pieces[0].last < s.first {
			pieces = pieces[1:]
		}
		for i := 0; i < len(pieces) && pieces[i].first <= s.last; i++ {
			p := pieces[i]
			if p.first > s.first { // what lies before
				before := s
				before.last = p.first - 1
				dst = append(dst, before)
			}
			in := s
			in.first, in.last = max(s.first, p.first), min(s.last, p.last)
			if edit(&in, p) {
				dst = append(dst, in)
			}
			if in.last == s.last {
				s.first, s.last = 1, 0 // nothing of it is left
				break
			}
			s.first = in.last + 1
		}
		if s.first <= s.last {
			dst = append(dst, s)
		}
	}
	return dst
}

// overlay appends old to dst, with added in place of what it had for their offsets. All are ascending and disjoint.
func overlay(dst, old, added []span) []span {
	cuts := make([]offsets, len(added))
	for i := range added {
		cuts[i] = offsets{first: added[i].first, last: added[i].last}
	}
	rest := carve(nil, old, cuts, func(*span, offsets) bool { return false })
	for len(rest) > 0 && len(added) > 0 {
		if rest[0].first < added[0].first {
			dst, rest = append(dst, rest[0]), rest[1:]
		} else {
			dst, added = append(dst, added[0]), added[1:]
		}
	}
	return append(append(dst, rest...), added...)
}

// spansOf makes spans of the ranges of an answer: ascending and disjoint, neighbours that are alike joined. Brokers send ranges that are
// inverted (a batch size of 0 makes them); those stand for nothing. An offset that comes twice counts for the range that begins first.
func spansOf(ranges []Range, like span) []span {
	spans := make([]span, 0, len(ranges))
	ascending := true
	for _, r := range ranges {
		if r.First < 0 || r.First > r.Last {
			continue
		}
		s := like
		s.first, s.last, s.count = r.First, r.Last, r.Count
		ascending = ascending && (len(spans) == 0 || spans[len(spans)-1].first <= s.first)
		spans = append(spans, s)
	}
	if !ascending {
		slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	}
	kept := spans[:0]
	for _, s := range spans {
		if n := len(kept) - 1; n >= 0 {
			if s.first <= kept[n].last {
				if s.last <= kept[n].last {
					continue
				}
				s.first = kept[n].last + 1
			}
			if s.first == kept[n].last+1 && s.count == kept[n].count {
				kept[n].last = s.last
				continue
			}
		}
		kept = append(kept, s)
	}
	return kept
}

// from is the place of the first span that does not end before an offset.
func from(spans []span, offset int64) int {
	i, _ := slices.BinarySearchFunc(spans, offset, func(s span, at int64) int {
		if s.last < at {
			return -1
		}
		return 1
	})
	return i
}
