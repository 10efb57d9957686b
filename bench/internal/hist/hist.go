// Package hist counts durations in buckets whose width grows with the value, so that quantiles are right within 1.6 % from a
// nanosecond to minutes, at a fixed size and without allocation.
package hist

import (
	"math/bits"
	"time"
)

const (
	fine    = 6 // bits of a value that are kept: 64 buckets for each power of two
	octaves = 40 - fine
	size    = (octaves + 1) << fine
)

// H is a histogram. The zero value is empty and ready. It is not safe for concurrent use.
type H struct {
	counts [size]uint64
	n      uint64
	sum    uint64
	max    time.Duration
}

// Add counts one duration; a negative one counts as 0, and one above 18 minutes in the last bucket.
func (h *H) Add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucket(uint64(d))]++
	h.n++
	h.sum += uint64(d)
	h.max = max(h.max, d)
}

// N is how many durations were added.
func (h *H) N() uint64 { return h.n }

// Max is the longest one, exact.
func (h *H) Max() time.Duration { return h.max }

// Mean is exact, 0 when empty.
func (h *H) Mean() time.Duration {
	if h.n == 0 {
		return 0
	}
	return time.Duration(h.sum / h.n)
}

// Quantile is a duration that a share q of all does not exceed, within the width of a bucket; 0 when empty.
func (h *H) Quantile(q float64) time.Duration {
	want := uint64(q * float64(h.n))
	if want >= h.n {
		return h.max
	}
	var seen uint64
	for i, c := range h.counts {
		if seen += c; seen > want {
			return min(middle(i), h.max)
		}
	}
	return h.max
}

// bucket: values below 64 have one each; above, the octave and the next six bits choose.
func bucket(v uint64) int {
	if v < 1<<fine {
		return int(v)
	}
	octave := bits.Len64(v) - fine // 1 for 64 to 127
	if octave > octaves {
		return size - 1
	}
	return octave<<fine | int(v>>(octave-1))&(1<<fine-1)
}

// middle is the value in the middle of a bucket.
func middle(i int) time.Duration {
	if i < 1<<fine {
		return time.Duration(i)
	}
	octave := i >> fine
	low := (uint64(i&(1<<fine-1)) | 1<<fine) << (octave - 1)
	return time.Duration(low + uint64(1)<<(octave-1)/2)
}
