package report

import (
	"fmt"
	"io"
	"slices"

	"github.com/ackproxy/ackproxy/bench/internal/stats"
)

// Budget is one promise: a ratio of two contenders' figures in the same run.
type Budget struct {
	What     string
	Workload string
	Metric   Metric
	Peer     string   // whose figure is the numerator
	Against  []string // the better one is the denominator; none: the figure itself is judged
	AtLeast  float64  // 0: not judged
	AtMost   float64  // 0: not judged
	Inverse  bool     // Metric is a cost: the ratio is of what one unit of it buys
	Never    bool     // the figure must be 0 in every round
	Added    bool     // not the ratio is judged but the difference, in Metric's unit
}

// Budgets are what ackproxy promises (docs/performance.md): peer is it with nothing that looks at acknowledgements, metered with metrics,
// audited with metrics and an audit log.
func Budgets(peer, metered, audited string) []Budget {
	hap, relay := []string{"haproxy"}, []string{"relay"}
	return []Budget{
		{What: "requests/s against HAProxy, 16 connections", Workload: "ack-16", Metric: Requests, Peer: peer, Against: hap, AtLeast: .95},
		{What: "requests/s against HAProxy, 256 connections", Workload: "ack-256", Metric: Requests, Peer: peer, Against: hap, AtLeast: .95},
		{What: "CPU a request against HAProxy, 16 connections", Workload: "ack-16", Metric: CPURequest, Peer: peer, Against: hap, AtMost: 1.15},
		{What: "CPU a request against HAProxy, 256 connections", Workload: "ack-256", Metric: CPURequest, Peer: peer, Against: hap, AtMost: 1.15},
		{What: "median latency against io.Copy, 1 connection", Workload: "ack-1", Metric: P50, Peer: peer, Against: relay, AtMost: .9},
		{What: "median latency against HAProxy, 1 connection", Workload: "ack-1", Metric: P50, Peer: peer, Against: hap, AtMost: 1.35},
		{What: "MB/s of 1 MiB produce against the better of HAProxy and io.Copy", Workload: "produce-4", Metric: Bandwidth, Peer: peer,
			Against: []string{"haproxy", "relay"}, AtLeast: 1},
		{What: "MB/s of 1 MiB fetch against the better of HAProxy and io.Copy", Workload: "fetch-4", Metric: Bandwidth, Peer: peer,
			Against: []string{"haproxy", "relay"}, AtLeast: 1},
		{What: "requests a CPU second against Envoy, 256 connections", Workload: "ack-256", Metric: CPURequest, Peer: peer,
			Against: []string{"envoy"}, AtLeast: 1.2, Inverse: true},
		{What: "requests a CPU second against Kroxylicious, 256 connections", Workload: "ack-256", Metric: CPURequest, Peer: peer,
			Against: []string{"kroxylicious"}, AtLeast: 1.3, Inverse: true},
		{What: "resident memory at 1,000 connections against Kroxylicious", Workload: "idle", Metric: RSS1000, Peer: peer,
			Against: []string{"kroxylicious"}, AtMost: 1. / 6},
		{What: "requests/s, audit on against off, 16 connections", Workload: "ack-16", Metric: Requests, Peer: audited, Against: []string{metered}, AtLeast: .9},
		{What: "requests/s, audit on against off, 256 connections", Workload: "ack-256", Metric: Requests, Peer: audited, Against: []string{metered}, AtLeast: .9},
		{What: "requests/s, metrics and audit on against both off, 16 connections", Workload: "ack-16", Metric: Requests, Peer: audited,
			Against: []string{peer}, AtLeast: .9},
		{What: "requests/s, metrics and audit on against both off, 256 connections", Workload: "ack-256", Metric: Requests, Peer: audited,
			Against: []string{peer}, AtLeast: .9},
		{What: "audit events dropped at 50,000 requests/s", Workload: "ack-50k", Metric: AuditLost, Peer: audited, Never: true},
		{What: "µs that a plugin's decision adds to the median, 1 connection", Workload: "ack-1", Metric: P50, Peer: "ackproxy-plugin",
			Against: []string{"ackproxy-metrics"}, Added: true, AtMost: 150},
		{What: "KiB resident, idle connection", Workload: "idle", Metric: PerConn, Peer: peer, AtMost: 10},
		{What: "descriptors, idle connection", Workload: "idle", Metric: FDsConn, Peer: peer, AtMost: 2},
	}
}

// KafkaBudgets are those that a real broker and real clients are measured for.
func KafkaBudgets() []Budget {
	var all []Budget
	for _, p := range []string{"ackproxy", "ackproxy-audit"} {
		all = append(all, Budget{What: "records/s through " + p + " against direct", Workload: "kafka-throughput", Metric: Records, Peer: p,
			Against: []string{"direct"}, AtLeast: .95},
			Budget{What: "records/s through " + p + " against the better of HAProxy and io.Copy", Workload: "kafka-throughput", Metric: Records, Peer: p,
				Against: []string{"haproxy", "relay"}, AtLeast: .95})
	}
	return all
}

// DLQBudgets are those of the dead-letter policy: peer has it, without has none.
func DLQBudgets(peer, without string) []Budget {
	return []Budget{{What: "records/s with dead letters against without a policy, 1 % rejected", Workload: "rejects-1", Metric: Records, Peer: peer,
		Against: []string{without}, AtLeast: .9}}
}

// Judge returns the ratios, one a round, and whether their median is within the budget; nil when one of the two was not measured.
func (b Budget) Judge(r *Report) (ratios []float64, met bool) {
	ratios = r.Figures(b.Peer, b.Workload, b.Metric)
	if b.Never && len(ratios) > 0 {
		return ratios, slices.Max(ratios) == 0
	}
	if len(b.Against) > 0 {
		against := b.best(r)
		if against == nil {
			return nil, false
		}
		switch {
		case b.Added:
			ratios = differences(ratios, against)
		case b.Inverse:
			ratios = stats.Ratios(against, ratios)
		default:
			ratios = stats.Ratios(ratios, against)
		}
	}
	m := stats.Median(ratios)
	return ratios, len(ratios) > 0 && (b.AtLeast == 0 || m >= b.AtLeast) && (b.AtMost == 0 || m <= b.AtMost)
}

// differences are a - b, round by round, as far as both go.
func differences(a, b []float64) (all []float64) {
	for i := range min(len(a), len(b)) {
		all = append(all, a[i]-b[i])
	}
	return all
}

// best is the figures of the contender to be measured against that has the better median.
func (b Budget) best(r *Report) (xs []float64) {
	for _, p := range b.Against {
		if ys := r.Figures(p, b.Workload, b.Metric); len(ys) > 0 &&
			(xs == nil || float64(b.Metric.Better())*(stats.Median(ys)-stats.Median(xs)) > 0) {
			xs = ys
		}
	}
	return xs
}

// BudgetTable writes how the run stands to the budgets, and how many of them it did not measure.
func (r *Report) BudgetTable(w io.Writer, all []Budget) {
	unmeasured := 0
	rows := [][]string{{"budget", "wanted", "", "measured", "", ""}}
	for _, b := range all {
		wanted := fmt.Sprintf("≥ %.2f", b.AtLeast)
		switch {
		case b.Never:
			wanted = "0, always"
		case b.AtMost != 0:
			wanted = fmt.Sprintf("≤ %.2f", b.AtMost)
		}
		ratios, met := b.Judge(r)
		if len(ratios) == 0 {
			unmeasured++
			continue
		}
		verdict := map[bool]string{true: "  met", false: "  MISSED"}[met]
		rows = append(rows, []string{b.What, wanted, "", number(stats.Median(ratios), 2), spread(ratios), verdict})
	}
	write(w, rows)
	if unmeasured > 0 {
		fmt.Fprintf(w, "  %d more were not measured\n", unmeasured)
	}
}
