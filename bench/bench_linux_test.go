package main

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ackproxy/ackproxy/bench/internal/report"
)

func TestChoose(t *testing.T) {
	all, idle, err := choose("")
	if err != nil || !idle || len(all) != len(workloads()) {
		t.Errorf("%d, %v, %v", len(all), idle, err)
	}
	some, idle, err := choose("fetch-4,ack-1*,ack-16")
	var names []string
	for _, w := range some {
		names = append(names, w.name)
	}
	if err != nil || idle || strings.Join(names, " ") != "ack-1 ack-16 ack-1x32 ack-16x32 fetch-4" {
		t.Errorf("%v, %v, %v", names, idle, err)
	}
	if _, idle, err = choose("idle"); err != nil || !idle {
		t.Errorf("%v, %v", idle, err)
	}
	if _, _, err = choose("ack-3"); err == nil {
		t.Error("an unknown workload is taken")
	}
}

// TestBudgetsNameWhatThereIs: every budget is of a workload and of contenders that a run has.
func TestBudgetsNameWhatThereIs(t *testing.T) {
	known := map[string]bool{idleName: true}
	for _, w := range workloads() {
		known[w.name] = true
		if d := w.describe(); len(d.Show) == 0 || d.RequestBytes == 0 {
			t.Errorf("%+v", d)
		}
	}
	for _, p := range peerNames {
		known[p] = true
	}
	for _, b := range report.Budgets("ackproxy", "ackproxy-metrics", "ackproxy-audit") {
		for _, name := range append([]string{b.Workload, b.Peer}, b.Against...) {
			if !known[name] {
				t.Errorf("%s: %q is not measured", b.What, name)
			}
		}
	}
}

func TestVariants(t *testing.T) {
	var v variants
	if err := v.Set("one=env GOMAXPROCS=1 bin/ackproxy"); err != nil || v[0] != [2]string{"one", "env GOMAXPROCS=1 bin/ackproxy"} {
		t.Errorf("%v, %v", v, err)
	}
	for _, bad := range []string{"", "=x", "x=", "a b=x", "x"} {
		if v.Set(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestParseMetrics(t *testing.T) {
	m, err := parseMetrics(strings.NewReader("# HELP a b\nackproxy_audit_queue_bytes{stream=\"main\"} 7\nackproxy_audit_queue_bytes{stream=\"x\"} 2\n" +
		"ackproxy_audit_events_total{result=\"written\",stream=\"main\"} 1e3\nackproxy_audit_events_total{result=\"dropped\",stream=\"main\"} 5\ngo_goroutines 12\n"))
	if err != nil || m["ackproxy_audit_queue_bytes"] != 9 || m["written"] != 1000 || m["dropped"] != 5 || m["go_goroutines"] != 12 {
		t.Errorf("%v, %v", m, err)
	}
	if _, err := parseMetrics(strings.NewReader("a b\n")); err == nil {
		t.Error("no number is no error")
	}
}

func TestTrend(t *testing.T) {
	rss := func(x sample) float64 { return x.RSS }
	r := rand.New(rand.NewPCG(1, 1))
	series := func(perHour float64) (all []sample) {
		for i := range 1800 {
			grown := 20 * min(1, float64(i)/100) // to its size
			all = append(all, sample{Seconds: float64(i), RSS: 10 + grown + r.NormFloat64() + perHour*float64(i)/3600})
		}
		return all
	}
	if flat, err := trendOf("x", series(0), rss); err != nil || !flat.Flat() || math.Abs(flat.Median-30) > .5 {
		t.Errorf("%v, %v", flat, err)
	}
	if rising, err := trendOf("x", series(6), rss); err != nil || rising.Flat() || math.Abs(rising.Slope-6) > rising.Error*2 {
		t.Errorf("%v, %v", rising, err)
	}
	if _, err := trendOf("x", series(0)[:40], rss); err == nil {
		t.Error("40 samples are enough")
	}
}

// TestPlot: the plot of a report has a bar for each figure that it names.
func TestPlot(t *testing.T) {
	r := &report.Report{Rounds: 1, Peers: []report.Peer{{Name: "haproxy"}, {Name: "ackproxy"}}}
	for _, w := range workloads() {
		for _, p := range r.Peers {
			r.Cell(p.Name, w.name).Add(map[report.Metric]float64{report.Requests: 1000, report.CPURequest: 12, report.P50: 50, report.P99: 90,
				report.Bandwidth: 2000})
		}
	}
	r.Cell("ackproxy", idleName).Add(map[report.Metric]float64{report.PerConn: 10})
	path := filepath.Join(t.TempDir(), "x.svg")
	if err := plotFile(r, path); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const bars = 2*(4+4+4+4+3) + 1
	if n := bytes.Count(b, []byte("<title>")); n != bars {
		t.Errorf("%d bars, not %d", n, bars)
	}
}

// TestReportIsJSON: what a failed contender leaves can be written too.
func TestReportIsJSON(t *testing.T) {
	r := &report.Report{Format: report.Format}
	r.Cell("haproxy", "ack-1").Errors = []string{"gone"}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}
