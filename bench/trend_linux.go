package main

import (
	"errors"
	"fmt"

	"github.com/ackproxy/ackproxy/bench/internal/stats"
)

// unwatched is the part of the time, the first tenth, that a trend leaves out: memory grows to its size.
const unwatched = 10

// trend is where an amount of memory went.
type trend struct {
	Of     string  `json:"of"`
	Median float64 `json:"median_mib"`
	Least  float64 `json:"least_mib"`
	Most   float64 `json:"most_mib"`
	Slope  float64 `json:"slope_mib_hour"`
	Error  float64 `json:"slope_error_mib_hour"` // half of its 95 % interval
	Drift  float64 `json:"drift_percent"`        // what the slope makes of the time that was watched, of the median
}

// blocks is how many means a slope is fitted to: neighbouring samples say the same, means over a twentieth of the time much less so.
const blocks = 20

func trendOf(name string, samples []sample, mib func(sample) float64) (t trend, err error) {
	kept := samples[len(samples)/unwatched:]
	if len(kept) < 2*blocks {
		return t, errors.New("too few samples: at least 45 seconds are needed")
	}
	var all, x, y []float64
	for i := range blocks {
		part := kept[i*len(kept)/blocks : (i+1)*len(kept)/blocks]
		var seconds, mean float64
		for _, s := range part {
			seconds += s.Seconds / float64(len(part))
			mean += mib(s) / float64(len(part))
			all = append(all, mib(s))
		}
		x, y = append(x, seconds/3600), append(y, mean)
	}
	slope, deviation := stats.Trend(x, y)
	const t95 = 2.1 // Student's t for 18 degrees of freedom
	t = trend{Of: name, Median: stats.Median(all), Least: -stats.Max(negated(all)), Most: stats.Max(all), Slope: slope, Error: deviation * t95}
	t.Drift = slope * (x[blocks-1] - x[0]) / t.Median * 100
	return t, nil
}

func negated(xs []float64) []float64 {
	var n []float64
	for _, x := range xs {
		n = append(n, -x)
	}
	return n
}

// Flat says that it does not rise: not by more than the slope's error, or by less than a hundredth over the time that was watched.
func (t trend) Flat() bool { return t.Slope <= t.Error || t.Drift < 1 }

func (t trend) String() string {
	verdict := "RISING"
	if t.Flat() {
		verdict = "flat"
	}
	return fmt.Sprintf("%s: %.1f MiB at the median, %.1f to %.1f; slope %+.2f ± %.2f MiB/hour, %+.1f %% over the time watched: %s",
		t.Of, t.Median, t.Least, t.Most, t.Slope, t.Error, t.Drift, verdict)
}
