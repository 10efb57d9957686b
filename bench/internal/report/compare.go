package report

import (
	"fmt"
	"io"
	"math"

	"github.com/ackproxy/ackproxy/bench/internal/stats"
)

// significant is the p-value below which a difference is shown.
const significant = .05

// Compare writes, for every figure that both reports have, the medians and how they differ. A difference that may well be chance
// (Mann-Whitney U test, p ≥ 0.05) is shown as "~". One contender is all that is compared when only is not empty.
func Compare(w io.Writer, a, b *Report, only string) {
	fmt.Fprintf(w, "A: commit %s, %s, %d rounds\nB: commit %s, %s, %d rounds\n", a.Commit, a.Started.Format("2006-01-02 15:04"), a.Rounds,
		b.Commit, b.Started.Format("2006-01-02 15:04"), b.Rounds)
	if a.Machine.Processor != b.Machine.Processor || a.Machine.Processors != b.Machine.Processors || a.Machine.Kernel != b.Machine.Kernel {
		fmt.Fprintln(w, "NOT THE SAME MACHINE: what follows does not compare the programs")
	}
	for _, load := range a.Workloads {
		rows := [][]string{{"", "", "A", "", "B", "", "B to A", ""}}
		for _, p := range a.Peers {
			if only != "" && p.Name != only {
				continue
			}
			for _, m := range load.Show {
				if m.Better() == 0 {
					continue
				}
				if row := compare(p.Name, m, a.Figures(p.Name, load.Name, m), b.Figures(p.Name, load.Name, m)); row != nil {
					rows = append(rows, row)
				}
			}
		}
		if len(rows) > 1 {
			fmt.Fprintf(w, "\n%s (%s)\n", load.Title, load.Name)
			write(w, rows)
		}
	}
}

// compare is one row, nil when a side has nothing.
func compare(peer string, m Metric, a, b []float64) []string {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	ma, mb := stats.Median(a), stats.Median(b)
	p := stats.MannWhitney(a, b)
	delta := "~"
	if p < significant && ma != 0 {
		delta = fmt.Sprintf("%+.1f%%", (mb/ma-1)*100)
		if better := float64(m.Better()) * (mb - ma); better != 0 {
			delta += map[bool]string{true: " better", false: " worse"}[better > 0]
		}
	}
	note := fmt.Sprintf("(p=%.3f n=%d+%d)", p, len(a), len(b))
	if need := leastRounds(len(a), len(b)); need != "" {
		note += need
	}
	return []string{peer, m.Head(), m.Text(ma), spread(a), m.Text(mb), spread(b), delta, note}
}

// leastRounds says so when there are too few rounds for any difference to be significant: the smallest p-value is 2 / (n+m choose n).
func leastRounds(n, m int) string {
	ways := math.Gamma(float64(n+m+1)) / math.Gamma(float64(n+1)) / math.Gamma(float64(m+1))
	if 2/ways < significant {
		return ""
	}
	return " too few rounds: 4 and 4 are the least"
}
