package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ackproxy/ackproxy/bench/internal/frames"
	"github.com/ackproxy/ackproxy/bench/internal/report"
)

// workload is one kind of load.
type workload struct {
	name, title  string
	kind         frames.Kind
	conns, depth int
	rate         float64 // requests a second; 0: as many as get through
	count        bool    // its system calls are counted
}

// idleName is the workload that is none: connections that do nothing.
const idleName = "idle"

// workloads are those of a run, in its order.
func workloads() []workload {
	const ack = "ShareAcknowledge, 201 bytes answered by 65, "
	all := []workload{
		{name: "ack-1", title: ack + "1 connection", kind: frames.Ack, conns: 1, depth: 1, count: true},
		{name: "ack-16", title: ack + "16 connections", kind: frames.Ack, conns: 16, depth: 1, count: true},
		{name: "ack-256", title: ack + "256 connections", kind: frames.Ack, conns: 256, depth: 1, count: true},
		{name: "ack-2000", title: ack + "2,000 connections", kind: frames.Ack, conns: 2000, depth: 1, count: true},
	}
	for _, w := range all {
		w.name, w.title, w.depth = w.name+"x32", w.title+", 32 requests in flight on each", 32
		w.count = w.conns == 16
		all = append(all, w)
	}
	return append(all,
		workload{name: "ack-50k", title: ack + "16 connections, 50,000 requests/s if there are as many", kind: frames.Ack, conns: 16, depth: 32, rate: 50_000},
		workload{name: "sharefetch-16", title: "ShareFetch with acknowledgements, answered by 100 records of 1 KiB, 16 connections",
			kind: frames.ShareFetch, conns: 16, depth: 1, count: true},
		workload{name: "produce-4", title: "Produce of 1 MiB, 4 connections", kind: frames.Produce, conns: 4, depth: 1, count: true},
		workload{name: "fetch-4", title: "Fetch of 1 MiB, 4 connections", kind: frames.Fetch, conns: 4, depth: 1, count: true})
}

// large says whether bytes count rather than requests.
func (w workload) large() bool { return w.kind != frames.Ack }

// show is the columns of the workload's table.
func (w workload) show() []report.Metric {
	m := []report.Metric{report.Requests, report.P50, report.P99, report.P999, report.CPURequest}
	if w.large() {
		m = []report.Metric{report.Bandwidth, report.CPUMegabyte, report.P50, report.P99, report.P999}
	}
	if w.count {
		m = append(m, report.Syscalls)
	}
	if w.rate > 0 {
		m = append(m, report.AuditLost)
	}
	return append(m, report.CPUProxy, report.CPULoad, report.CPUBroker)
}

// describe is the workload as the report has it.
func (w workload) describe() report.Workload {
	p, err := frames.Build(w.kind, frames.ShareVersion)
	if err != nil {
		panic(err) // the table above names a kind that there is not
	}
	return report.Workload{Name: w.name, Title: w.title, Connections: w.conns, Depth: w.depth, RequestBytes: len(p.Request),
		ResponseBytes: len(p.Response), Show: w.show()}
}

// choose picks by name; a name may end in "*". No name picks all.
func choose(names string) (chosen []workload, idle bool, err error) {
	if names == "" {
		return workloads(), true, nil
	}
	patterns := strings.Split(names, ",")
	any := func(name string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
	}
	known := []string{idleName}
	for _, w := range workloads() {
		known = append(known, w.name)
		if any(w.name) {
			chosen = append(chosen, w)
		}
	}
	for _, p := range patterns {
		if !slices.ContainsFunc(known, func(name string) bool { return matches(p, name) }) {
			return nil, false, misuse{fmt.Errorf("no workload is called %q; there are %s", p, strings.Join(known, ", "))}
		}
	}
	return chosen, any(idleName), nil
}

func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}
