package main

import (
	"fmt"
	"os"

	"github.com/ackproxy/ackproxy/bench/internal/chart"
	"github.com/ackproxy/ackproxy/bench/internal/report"
)

// bars is where the bars of one group come from.
type bars struct {
	name, workload string
	metric         report.Metric
}

// plotFile draws a report of the kind that peersCommand makes.
func plotFile(r *report.Report, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	closed := func(m report.Metric) []bars {
		return []bars{{"1 connection", "ack-1", m}, {"16", "ack-16", m}, {"256", "ack-256", m}, {"2,000", "ack-2000", m}}
	}
	panels := []chart.Panel{
		panel(r, "Requests a second", "ShareAcknowledge, one outstanding on each connection; more is better", closed(report.Requests)),
		panel(r, "CPU µs a request", "of the proxy alone; less is better", closed(report.CPURequest)),
		panel(r, "Requests a second, 32 in flight", "on each connection; more is better", []bars{{"1 connection", "ack-1x32", report.Requests},
			{"16", "ack-16x32", report.Requests}, {"256", "ack-256x32", report.Requests}, {"2,000", "ack-2000x32", report.Requests}}),
		panel(r, "Latency µs", "less is better", []bars{{"p50, 1 conn.", "ack-1", report.P50}, {"p99, 1 conn.", "ack-1", report.P99},
			{"p50, 16", "ack-16", report.P50}, {"p99, 16", "ack-16", report.P99}}),
		panel(r, "MB a second", "frames of both directions; more is better", []bars{{"Produce 1 MiB", "produce-4", report.Bandwidth},
			{"Fetch 1 MiB", "fetch-4", report.Bandwidth}, {"ShareFetch 100 KiB", "sharefetch-16", report.Bandwidth}}),
		panel(r, "Resident KiB a connection", "idle, after one request; less is better", []bars{{"idle", idleName, report.PerConn}}),
	}
	m := r.Machine
	return chart.Bars(f, "ackproxy beside other proxies", fmt.Sprintf("%d × %s, Linux %s, loopback; commit %s, %s\n"+
		"medians of %d interleaved rounds, whiskers from the least to the most", m.Processors, m.Processor, m.Kernel, r.Commit,
		r.Started.Format("2006-01-02"), r.Rounds), panels)
}

func panel(r *report.Report, title, note string, groups []bars) chart.Panel {
	p := chart.Panel{Title: title, Note: note}
	for _, g := range groups {
		p.Groups = append(p.Groups, g.name)
	}
	for _, who := range r.Peers {
		s := chart.Series{Name: who.Name}
		for _, g := range groups {
			s.Values = append(s.Values, r.Figures(who.Name, g.workload, g.metric))
		}
		p.Series = append(p.Series, s)
	}
	return p
}
