// Package stats says what a few repetitions of a measurement are worth: medians, spread, and whether two sets differ.
package stats

import (
	"math"
	"slices"
)

// Median is the middle of xs, NaN when there is none.
func Median(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(xs))
	m := len(s) / 2
	if len(s)%2 == 1 {
		return s[m]
	}
	return (s[m-1] + s[m]) / 2
}

// Spread is half of the range of xs in per cent of the median: the "±" of the tables. NaN for fewer than two values.
func Spread(xs []float64) float64 {
	if len(xs) < 2 {
		return math.NaN()
	}
	m := Median(xs)
	if m == 0 {
		return 0
	}
	return (slices.Max(xs) - slices.Min(xs)) / 2 / math.Abs(m) * 100
}

// Ratios divides a by b, round by round, as far as both go.
func Ratios(a, b []float64) []float64 {
	var r []float64
	for i := range min(len(a), len(b)) {
		if b[i] != 0 {
			r = append(r, a[i]/b[i])
		}
	}
	return r
}

// MannWhitney is the two-sided p-value of the Mann-Whitney U test: how likely sets that differ as much as a and b are when both come
// from the same distribution. It is exact without ties and up to 50 values in all, the normal approximation with its corrections
// otherwise, and 1 when a set is empty.
func MannWhitney(a, b []float64) float64 {
	n, m := len(a), len(b)
	if n == 0 || m == 0 {
		return 1
	}
	u, ties := statistic(a, b)
	if ties == 0 && n+m <= 50 {
		return exact(u, n, m)
	}
	total := float64(n + m)
	mean := float64(n*m) / 2
	variance := float64(n*m) / 12 * (total + 1 - ties/(total*(total-1)))
	if variance <= 0 {
		return 1
	}
	z := max(math.Abs(u-mean)-.5, 0) / math.Sqrt(variance)
	return math.Erfc(z / math.Sqrt2)
}

// statistic is the number of pairs in which a's value is the greater one, ties counting half, and the sum of t³-t over groups of ties.
func statistic(a, b []float64) (u, ties float64) {
	for _, x := range a {
		for _, y := range b {
			switch {
			case x > y:
				u++
			case x == y:
				u += .5
			}
		}
	}
	s := slices.Sorted(slices.Values(slices.Concat(a, b)))
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && s[j] == s[i] {
			j++
		}
		t := float64(j - i)
		ties += t*t*t - t
		i = j
	}
	return u, ties
}

// exact counts, among all ways to mix n and m values, those whose statistic is at least as far from the middle as u.
func exact(u float64, n, m int) float64 {
	// ways[i][s]: orders of i values of a among the b's seen so far with statistic s. Each further b adds one to every a above it.
	ways := make([][]float64, n+1)
	for i := range ways {
		ways[i] = make([]float64, n*m+1)
	}
	for i := range ways {
		ways[i][0] = 1 // no b yet
	}
	for range m {
		for i := 1; i <= n; i++ {
			for s := n * m; s >= 0; s-- {
				v := 0.0
				if s >= i {
					v = ways[i][s-i]
				}
				ways[i][s] = v
			}
			for s := 0; s <= n*m; s++ {
				ways[i][s] += ways[i-1][s]
			}
		}
	}
	low := int(min(u, float64(n*m)-u))
	var tail, all float64
	for s, w := range ways[n] {
		all += w
		if s <= low {
			tail += w
		}
	}
	return min(2*tail/all, 1)
}

// Line fits y = a + b·x by least squares and returns b and its standard error; both are 0 for fewer than three points.
func Line(x, y []float64) (slope, stderr float64) {
	n := float64(len(x))
	if len(x) < 3 || len(x) != len(y) {
		return 0, 0
	}
	mx, my := sum(x)/n, sum(y)/n
	var sxx, sxy, res float64
	for i := range x {
		sxx += (x[i] - mx) * (x[i] - mx)
		sxy += (x[i] - mx) * (y[i] - my)
	}
	if sxx == 0 {
		return 0, 0
	}
	slope = sxy / sxx
	for i := range x {
		d := y[i] - my - slope*(x[i]-mx)
		res += d * d
	}
	return slope, math.Sqrt(res / (n - 2) / sxx)
}

// Trend is Line for points that follow each other in time at equal distances. What is off the line is often off it for some points in a row; then there is
// less to go by than there are points, and the standard error is greater by √((1+r)/(1−r)), r being the correlation of neighbours' distances from
// the line, if that is positive (a first-order autoregression).
func Trend(x, y []float64) (slope, stderr float64) {
	slope, stderr = Line(x, y)
	if stderr == 0 {
		return slope, 0
	}
	n := float64(len(x))
	mx, my := sum(x)/n, sum(y)/n
	var before, same, next float64
	for i := range x {
		d := y[i] - my - slope*(x[i]-mx)
		same += d * d
		next += d * before
		before = d
	}
	r := max(next/same, 0) // below 1: the first and the last distance have no neighbour on one side
	return slope, stderr * math.Sqrt((1+r)/(1-r))
}

func sum(xs []float64) (s float64) {
	for _, x := range xs {
		s += x
	}
	return s
}

// Max is the greatest of xs, NaN when there is none.
func Max(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	return slices.Max(xs)
}
