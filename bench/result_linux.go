package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/ackproxy/ackproxy/bench/internal/report"
	"github.com/ackproxy/ackproxy/bench/internal/stats"
)

// busiest is where one of the benchmark's own ends used most of a processor.
type busiest struct {
	percent        float64
	peer, workload string
}

func (m busiest) String() string {
	return fmt.Sprintf("%.0f %% (%s, %s)", m.percent, m.workload, m.peer)
}

// finding says whether the figures can be trusted: whether the load generator or the broker held a proxy up, and what else ran.
func (b *bench) finding(chosen []workload) {
	say := func(format string, args ...any) {
		b.report.Findings = append(b.report.Findings, fmt.Sprintf(format, args...))
	}
	for _, end := range []struct {
		name string
		m    report.Metric
	}{{"load generator", report.CPULoad}, {"broker stand-in", report.CPUBroker}} {
		most := b.busiest(end.m)
		if most.workload == "" {
			continue
		}
		say("the %s, one thread, used at most %v of a processor beside a proxy", end.name, most)
		if most.percent > 95 {
			say("WARNING: the %s may have held %s up with %s", end.name, most.peer, most.workload)
		}
	}
	if low, high, ok := b.headroom(chosen); ok {
		say("without a proxy the two did %.1f to %.1f times what the fastest proxy did", low, high)
	}
	if len(b.others) > 0 {
		say("other processes used %.2f processors at the median, %.2f at most", stats.Median(b.others), stats.Max(b.others))
		if stats.Median(b.others) > .2 {
			say("WARNING: the machine was not quiet; trust no figure by itself, and ratios little")
		}
	}
	if text, err := os.ReadFile(complaints(b.dir)); err == nil && len(text) > 0 {
		first, _, _ := strings.Cut(string(text), "\n")
		say("WARNING: the broker stand-in ended connections: %s", first)
	}
}

// busiest is the highest median of a metric over all cells with a proxy.
func (b *bench) busiest(m report.Metric) (most busiest) {
	for _, c := range b.report.Cells {
		if v := stats.Median(c.Figures[m]); c.Peer != "direct" && v > most.percent {
			most = busiest{v, c.Peer, c.Workload}
		}
	}
	return most
}

// headroom is the least and the greatest ratio of direct to the fastest proxy, over the workloads without a given rate.
func (b *bench) headroom(chosen []workload) (low, high float64, ok bool) {
	low = math.Inf(1)
	for _, w := range chosen {
		direct, fastest := b.report.Median("direct", w.name, report.Requests), 0.0
		for _, p := range b.peers {
			if v := b.report.Median(p.Name, w.name, report.Requests); p.Name != "direct" && v > fastest {
				fastest = v
			}
		}
		if w.rate == 0 && fastest > 0 && !math.IsNaN(direct) {
			low, high, ok = min(low, direct/fastest), max(high, direct/fastest), true
		}
	}
	return low, high, ok
}

// print writes the report to where it is wanted, the table first: a file that cannot be written must not cost the run.
func (b *bench) print() error {
	var errs []error
	if b.format == "json" {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", " ")
		errs = append(errs, e.Encode(b.report))
	} else {
		b.report.Table(os.Stdout)
		b.budgets("ackproxy")
		for _, v := range b.variants {
			b.budgets(v[0])
		}
	}
	if b.jsonFile != "" {
		errs = append(errs, b.report.Save(b.jsonFile))
	}
	if b.svgFile != "" {
		errs = append(errs, plotFile(b.report, b.svgFile))
	}
	return errors.Join(errs...)
}

func (b *bench) budgets(name string) {
	if _, ok := b.running[name]; ok {
		fmt.Printf("\n%s\n", name)
		b.report.BudgetTable(os.Stdout, report.Budgets(name, name+"-metrics", name+"-audit"))
	}
}

const compareUsage = `Compare two reports, figure by figure. A difference that may be chance (Mann-Whitney U test, p ≥ 0.05) is shown as "~".

  go run ./bench -json before.json
  go run ./bench -json after.json
  go run ./bench compare -peer ackproxy before.json after.json`

func compareReports(args []string) error {
	f := newFlags(compareUsage)
	only := f.String("peer", "", "compare this contender alone")
	if err := parse(f, args, 2); err != nil {
		return err
	}
	a, err := report.Load(f.Arg(0))
	if err != nil {
		return err
	}
	c, err := report.Load(f.Arg(1))
	if err != nil {
		return err
	}
	report.Compare(os.Stdout, a, c, *only)
	return nil
}
