package report

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
)

func sample() *Report {
	r := &Report{Format: Format, Commit: "abc", Rounds: 4, Peers: []Peer{{Name: "haproxy", Title: "HAProxy"}, {Name: "ackproxy", Title: "us"}},
		Missing:   []Missing{{Name: "envoy", Why: "not fetched"}},
		Workloads: []Workload{{Name: "ack-16", Title: "16 connections", Show: []Metric{Requests, CPURequest}}},
		Findings:  []string{"the generator was idle"}}
	r.Machine.Processor = "some"
	for i := range 4 {
		r.Cell("haproxy", "ack-16").Add(map[Metric]float64{Requests: 50_000 + float64(i)*10, CPURequest: 15})
		r.Cell("ackproxy", "ack-16").Add(map[Metric]float64{Requests: 49_000 + float64(i)*10, CPURequest: 18})
	}
	r.Cell("haproxy", "ack-16").Errors = []string{"it fell over once"}
	return r
}

func contains(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestTableTellsAll(t *testing.T) {
	var b bytes.Buffer
	sample().Table(&b)
	contains(t, b.String(), "LEFT OUT: not fetched", "FAILED: haproxy: it fell over once", "50,015 ±0%", "the generator was idle", "CPU µs/req", "15.0 ±0%")
}

func TestSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	if err := sample().Save(path); err != nil {
		t.Fatal(err)
	}
	r, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	var a, b bytes.Buffer
	sample().Table(&a)
	if r.Table(&b); a.String() != b.String() {
		t.Errorf("loaded:\n%s\nsaved:\n%s", b.String(), a.String())
	}
	old := sample()
	old.Format = Format + 1
	if err := old.Save(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil {
		t.Error("another format is read")
	}
}

func TestCompare(t *testing.T) {
	a, b := sample(), sample()
	b.Cell("ackproxy", "ack-16").Figures[Requests] = []float64{58_000, 58_500, 59_000, 59_500}
	b.Cell("ackproxy", "ack-16").Figures[CPURequest] = []float64{19, 20, 21, 22}
	b.Machine.Processor = "another"
	var w bytes.Buffer
	Compare(&w, a, b, "")
	contains(t, w.String(), "NOT THE SAME MACHINE", "+19.9% better", "+13.9% worse", "~", "(p=0.029 n=4+4)")
	w.Reset()
	Compare(&w, a, b, "ackproxy")
	if strings.Contains(w.String(), "haproxy") {
		t.Errorf("not only ackproxy:\n%s", w.String())
	}
	for _, c := range a.Cells {
		c.Figures[Requests] = c.Figures[Requests][:3]
	}
	w.Reset()
	Compare(&w, a, a, "")
	contains(t, w.String(), "too few rounds")
}

func TestBudgets(t *testing.T) {
	r := sample()
	verdicts := map[string]string{}
	for _, b := range Budgets("ackproxy", "ackproxy-metrics", "ackproxy-audit") {
		ratios, met := b.Judge(r)
		if len(ratios) > 0 {
			verdicts[b.What] = map[bool]string{true: "met", false: "missed"}[met]
		}
	}
	if len(verdicts) != 2 || verdicts["requests/s against HAProxy, 16 connections"] != "met" ||
		verdicts["CPU a request against HAProxy, 16 connections"] != "missed" {
		t.Errorf("%v", verdicts)
	}
	var w bytes.Buffer
	r.BudgetTable(&w, Budgets("ackproxy", "ackproxy-metrics", "ackproxy-audit"))
	contains(t, w.String(), "17 more were not measured", "MISSED", "≥ 0.95")
}

func TestBetterOfTwoInverseAndNever(t *testing.T) {
	r := &Report{}
	for peer, v := range map[string]float64{"a": 10, "b": 20, "us": 15} {
		r.Cell(peer, "w").Add(map[Metric]float64{Bandwidth: v, CPURequest: v, AuditLost: 0})
	}
	for _, c := range []struct {
		b    Budget
		want float64
		met  bool
	}{
		{Budget{Metric: Bandwidth, Against: []string{"a", "b"}, AtLeast: 1}, .75, false},
		{Budget{Metric: CPURequest, Against: []string{"a", "b"}, AtMost: 1.6}, 1.5, true},
		{Budget{Metric: CPURequest, Against: []string{"b"}, AtLeast: 1.3, Inverse: true}, 20. / 15, true},
		{Budget{Metric: AuditLost, Never: true}, 0, true},
	} {
		c.b.Peer, c.b.Workload = "us", "w"
		if ratios, met := c.b.Judge(r); len(ratios) != 1 || math.Abs(ratios[0]-c.want) > 1e-9 || met != c.met {
			t.Errorf("%+v: %v, %v", c.b, ratios, met)
		}
	}
	r.Cell("us", "w").Add(map[Metric]float64{AuditLost: 0})
	r.Cell("us", "w").Add(map[Metric]float64{AuditLost: 1})
	if _, met := (Budget{Metric: AuditLost, Never: true, Peer: "us", Workload: "w"}).Judge(r); met {
		t.Error("lost in one round of three is met")
	}
}

func TestNumbers(t *testing.T) {
	for want, got := range map[string]string{"1,234,567": number(1234567, 0), "-1,234.5": number(-1234.5, 1), "0.12": number(.123, 2),
		"-": number(math.NaN(), 1), "999": number(999, 0), "0.0": number(-.01, 1)} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestBudgetOfDifference(t *testing.T) {
	r := &Report{}
	for _, us := range []float64{200, 220, 260} {
		r.Cell("plugin", "ack-1").Add(map[Metric]float64{P50: us})
		r.Cell("plain", "ack-1").Add(map[Metric]float64{P50: 100})
	}
	b := Budget{Workload: "ack-1", Metric: P50, Peer: "plugin", Against: []string{"plain"}, Added: true, AtMost: 150}
	if xs, met := b.Judge(r); fmt.Sprint(xs) != "[100 120 160]" || !met {
		t.Errorf("%v, %v", xs, met)
	}
	b.AtMost = 110
	if _, met := b.Judge(r); met {
		t.Error("120 is within 110")
	}
}
