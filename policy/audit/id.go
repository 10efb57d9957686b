package audit

import (
	"encoding/binary"
	"time"
)

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// ids makes event ids: 48 bits of milliseconds, then 80 bits that start at random and go up by one with each id (the layout and the text
// of a ULID). Ids of one process sort in the order of its events, also when the clock steps back.
type ids struct {
	ms, hi uint64 // hi: the upper 16 of the 80 bits
	lo     uint64
}

// newIDs starts from 80 random bits. Half of their range is left, so that counting up does not wrap.
func newIDs(seed [10]byte) ids {
	return ids{hi: uint64(binary.BigEndian.Uint16(seed[:2])) >> 1, lo: binary.BigEndian.Uint64(seed[2:])}
}

// next moves on to the id of an event at t.
func (g *ids) next(t time.Time) {
	g.ms = max(g.ms, uint64(max(t.UnixMilli(), 0))&(1<<48-1))
	if g.lo++; g.lo == 0 {
		g.hi++
	}
}

// append appends the 26 characters of the current id.
func (g *ids) append(dst []byte) []byte {
	for shift := 45; shift >= 0; shift -= 5 {
		dst = append(dst, crockford[g.ms>>shift&31])
	}
	// 80 bits are 16 groups of 5; the fourth spans both words.
	dst = append(dst, crockford[g.hi>>11&31], crockford[g.hi>>6&31], crockford[g.hi>>1&31], crockford[(g.hi&1)<<4|g.lo>>60])
	for shift := 55; shift >= 0; shift -= 5 {
		dst = append(dst, crockford[g.lo>>shift&31])
	}
	return dst
}
