package hist

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestQuantilesAgainstSorted(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h H
	var all []time.Duration
	for range 50_000 {
		d := time.Duration(math.Exp(r.NormFloat64()*2 + 10)) // around 22 µs, from ns to seconds
		h.Add(d)
		all = append(all, d)
	}
	slices.Sort(all)
	for _, q := range []float64{0, .01, .5, .9, .99, .999} {
		want := all[int(q*float64(len(all)))]
		if got := h.Quantile(q); math.Abs(float64(got-want)) > float64(want)*.016 {
			t.Errorf("quantile %v: %v, sorted says %v", q, got, want)
		}
	}
	if h.N() != 50_000 || h.Max() != all[len(all)-1] || h.Quantile(1) != h.Max() {
		t.Errorf("n %d, max %v, q1 %v", h.N(), h.Max(), h.Quantile(1))
	}
}

func TestEveryBucketHoldsItsMiddle(t *testing.T) {
	for i := range size {
		if got := bucket(uint64(middle(i))); got != i {
			t.Fatalf("the middle of bucket %d, %d, is in bucket %d", i, middle(i), got)
		}
	}
}

func TestEnds(t *testing.T) {
	var h H
	if h.Quantile(.5) != 0 || h.Mean() != 0 {
		t.Error("an empty histogram has values")
	}
	h.Add(-5)
	h.Add(24 * time.Hour)
	if h.Quantile(0) != 0 || h.Max() != 24*time.Hour || h.Mean() != 12*time.Hour {
		t.Errorf("q0 %v, max %v, mean %v", h.Quantile(0), h.Max(), h.Mean())
	}
}
