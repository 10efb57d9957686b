package audit

import (
	"math"

	"github.com/ackproxy/ackproxy/policy"
)

// span is a range of offsets of one type.
type span struct {
	first, last int64
	kind        int8
}

// records is the number of offsets in a span, at most MaxInt64.
func (s span) records() int64 {
	if n := uint64(s.last) - uint64(s.first); n < math.MaxInt64 {
		return int64(n) + 1
	}
	return math.MaxInt64
}

// add sums counts of records and stops at MaxInt64.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// wellFormed says whether a batch keeps the array rule of KIP-932: one type for the whole range, or one for each offset.
func wellFormed(first, last int64, types []byte) bool {
	if first > last || len(types) == 0 {
		return false
	}
	return len(types) == 1 || uint64(last)-uint64(first) == uint64(len(types)-1)
}

// run is the first run of one type in a well-formed batch from its n-th type on, and where the next begins: len(types) at the end. It costs
// what the type array holds, whatever the range.
func run(first, last int64, types []byte, n int) (span, int) {
	if len(types) == 1 {
		return span{first, last, int8(types[0])}, 1
	}
	end := n + 1
	for end < len(types) && types[end] == types[n] {
		end++
	}
	return span{first + int64(n), first + int64(end-1), int8(types[n])}, end
}

// kindIndex folds a type onto an index of the metrics: the five known ones, then all others.
func kindIndex(t int8) int {
	if t < policy.Gap || t > policy.Renew {
		return len(typeNames)
	}
	return int(t)
}
