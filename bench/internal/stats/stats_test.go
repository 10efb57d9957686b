package stats

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within || math.IsNaN(got) != math.IsNaN(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestMedianAndSpread(t *testing.T) {
	near(t, "odd", Median([]float64{9, 1, 5}), 5, 0)
	near(t, "even", Median([]float64{1, 2, 3, 10}), 2.5, 0)
	near(t, "none", Median(nil), math.NaN(), 0)
	near(t, "spread", Spread([]float64{90, 100, 120}), 15, 1e-9)
	near(t, "spread of one", Spread([]float64{1}), math.NaN(), 0)
	near(t, "ratio", Median(Ratios([]float64{2, 8, 7}, []float64{1, 2})), 3, 0)
}

// TestMannWhitneyExact counts by going through every way to choose which values are a's.
func TestMannWhitneyExact(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for m := 1; m <= 5; m++ {
			for chosen := range 1 << (n + m) {
				if bits.OnesCount(uint(chosen)) != n {
					continue
				}
				a, b := split(chosen, n+m)
				near(t, "p", MannWhitney(a, b), byHand(a, b), 1e-9)
			}
		}
	}
}

func split(chosen, total int) (a, b []float64) {
	for i := range total {
		if chosen>>i&1 == 1 {
			a = append(a, float64(i))
		} else {
			b = append(b, float64(i))
		}
	}
	return a, b
}

func byHand(a, b []float64) float64 {
	mean := float64(len(a)*len(b)) / 2
	u, _ := statistic(a, b)
	var as, all float64
	for chosen := range 1 << (len(a) + len(b)) {
		if bits.OnesCount(uint(chosen)) != len(a) {
			continue
		}
		x, y := split(chosen, len(a)+len(b))
		v, _ := statistic(x, y)
		all++
		if math.Abs(v-mean) >= math.Abs(u-mean) {
			as++
		}
	}
	return as / all
}

func TestMannWhitneyTies(t *testing.T) {
	same := []float64{1, 1, 1, 1}
	near(t, "all equal", MannWhitney(same, same), 1, 0)
	// Normal approximation: U = 1, mean 12.5, variance 25/12·(11 - 6/90), continuity ½.
	near(t, "one tie", MannWhitney([]float64{1, 2, 3, 4, 5.5}, []float64{5.5, 6, 7, 8, 9}), 0.0158, 0.001)
	near(t, "empty", MannWhitney(nil, same), 1, 0)
}

func TestLine(t *testing.T) {
	slope, e := Line([]float64{0, 1, 2, 3}, []float64{1, 3, 5, 7})
	near(t, "slope", slope, 2, 1e-12)
	near(t, "error", e, 0, 1e-12)
	slope, e = Line([]float64{0, 1, 2, 3}, []float64{0, 1, 0, 1})
	near(t, "slope", slope, .2, 1e-12)
	near(t, "error", e, math.Sqrt(.08), 1e-12)
}

// Where distances from a level line come in rows, the error of Trend covers the slope that is found about as often as it says, and that of Line does not.
func TestTrend(t *testing.T) {
	if slope, e := Trend([]float64{0, 1, 2, 3}, []float64{0, 1, 0, 1}); slope != .2 || math.Abs(e-math.Sqrt(.08)) > 1e-12 {
		t.Errorf("%v ± %v: neighbours that do not resemble each other change nothing", slope, e)
	}
	random := rand.New(rand.NewPCG(1, 2))
	const series, n, t95 = 2000, 20, 2.1
	var line, trend float64
	for range series {
		x, y, off := make([]float64, n), make([]float64, n), 0.0
		for i := range n {
			off = .5*off + random.NormFloat64()
			x[i], y[i] = float64(i), off
		}
		if slope, e := Line(x, y); math.Abs(slope) <= t95*e {
			line += 100. / series
		}
		if slope, e := Trend(x, y); math.Abs(slope) <= t95*e {
			trend += 100. / series
		}
	}
	if trend < 85 || trend > 97 || line > 80 {
		t.Errorf("the 95 %% interval covers %.0f %% of the slopes, and that of Line %.0f %%", trend, line)
	}
}
