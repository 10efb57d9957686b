// Package report is what a run of the benchmark leaves: figures by contender and workload, one a round, with what they were measured on.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/ackproxy/ackproxy/bench/internal/proc"
	"github.com/ackproxy/ackproxy/bench/internal/stats"
)

// Format is the version of the JSON form.
const Format = 1

// Report is one run.
type Report struct {
	Format    int          `json:"format"`
	Mode      string       `json:"mode"` // "peers" or "kafka"
	Started   time.Time    `json:"started"`
	Seconds   float64      `json:"seconds"`
	Command   []string     `json:"command"`
	Commit    string       `json:"commit"` // with "-dirty" when files of the checkout were changed
	Go        string       `json:"go"`
	Machine   proc.Machine `json:"machine"`
	Namespace bool         `json:"network_namespace"` // all processes ran in a network namespace of the run's own
	Rounds    int          `json:"rounds"`
	Peers     []Peer       `json:"peers"`
	Missing   []Missing    `json:"missing"`
	Workloads []Workload   `json:"workloads"`
	Cells     []Cell       `json:"cells"`
	Findings  []string     `json:"findings"` // about the measurement itself: who was busy, what failed
}

// Peer is one contender that took part.
type Peer struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Version string `json:"version"`
	Note    string `json:"note,omitempty"`
}

// Missing is one contender that was left out.
type Missing struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Workload is one kind of load.
type Workload struct {
	Name          string   `json:"name"`
	Title         string   `json:"title"`
	Connections   int      `json:"connections"`
	Depth         int      `json:"depth"` // requests outstanding on each connection
	RequestBytes  int      `json:"request_bytes"`
	ResponseBytes int      `json:"response_bytes"`
	Show          []Metric `json:"show"` // the columns of its table
}

// Cell is what one contender did with one workload.
type Cell struct {
	Peer     string               `json:"peer"`
	Workload string               `json:"workload"`
	Figures  map[Metric][]float64 `json:"figures"`            // one a round, in the order of rounds
	Syscalls map[string]float64   `json:"syscalls,omitempty"` // a request, by name, with strace slowing the proxy down
	Errors   []string             `json:"errors,omitempty"`
}

// Metric is what a figure counts, and in which unit.
type Metric string

// The metrics.
const (
	Requests    Metric = "req_s"
	Records     Metric = "records_s"
	P50         Metric = "p50_us"
	P99         Metric = "p99_us"
	P999        Metric = "p99.9_us"
	CPURequest  Metric = "cpu_us_req" // of the proxy alone
	CPURecord   Metric = "cpu_us_record"
	BrokerRec   Metric = "broker_cpu_us_record"
	ClientRec   Metric = "clients_cpu_us_record"
	Bandwidth   Metric = "mb_s" // frames of both directions, 10⁶ bytes
	CPUMegabyte Metric = "cpu_ms_mb"
	Syscalls    Metric = "syscalls_req"
	RSS         Metric = "rss_mib" // at the end of the measurement
	RSSIdle     Metric = "rss_start_mib"
	RSS1000     Metric = "rss_1000_mib" // with 1,000 idle connections
	PerConn     Metric = "kib_conn"     // resident, of an idle connection
	FDsConn     Metric = "fds_conn"
	Idle        Metric = "idle_conns"
	CPUProxy    Metric = "proxy_cpu_pct" // of one processor
	CPULoad     Metric = "generator_cpu_pct"
	CPUBroker   Metric = "broker_cpu_pct"
	AuditLost   Metric = "audit_lost" // events dropped
	AuditLines  Metric = "audit_written"
)

// metricFacts: head and digits of a column, and whether more is better (1), worse (-1) or neither.
var metricFacts = map[Metric]struct {
	head   string
	digits int
	better int
}{
	Requests: {"req/s", 0, 1}, Records: {"records/s", 0, 1}, P50: {"p50 µs", 0, -1}, P99: {"p99 µs", 0, -1}, P999: {"p99.9 µs", 0, -1},
	CPURequest: {"CPU µs/req", 1, -1}, CPURecord: {"proxy CPU µs/record", 1, -1}, BrokerRec: {"broker CPU µs/record", 1, 0},
	ClientRec: {"clients' CPU µs/record", 1, 0}, Bandwidth: {"MB/s", 0, 1}, CPUMegabyte: {"CPU ms/MB", 3, -1}, Syscalls: {"syscalls/req", 2, -1},
	RSS: {"RSS MiB", 1, -1}, RSSIdle: {"RSS MiB at start", 1, -1}, RSS1000: {"RSS MiB, 1,000 conns", 1, -1}, PerConn: {"KiB/conn", 1, -1},
	FDsConn: {"fds/conn", 1, -1}, Idle: {"idle conns", 0, 0}, CPUProxy: {"proxy CPU %", 0, 0}, CPULoad: {"gen. CPU %", 0, 0},
	CPUBroker: {"broker CPU %", 0, 0}, AuditLost: {"audit lost", 0, -1}, AuditLines: {"audit written", 0, 0},
}

// Head is the metric's column head.
func (m Metric) Head() string { return metricFacts[m].head }

// Better is 1 when more is better, -1 when less is, 0 when neither.
func (m Metric) Better() int { return metricFacts[m].better }

// Text writes a figure of this metric.
func (m Metric) Text(v float64) string { return number(v, metricFacts[m].digits) }

// Cell finds the cell of a contender and a workload, and makes it when there is none.
func (r *Report) Cell(peer, workload string) *Cell {
	for i := range r.Cells {
		if r.Cells[i].Peer == peer && r.Cells[i].Workload == workload {
			return &r.Cells[i]
		}
	}
	r.Cells = append(r.Cells, Cell{Peer: peer, Workload: workload, Figures: map[Metric][]float64{}})
	return &r.Cells[len(r.Cells)-1]
}

// Figures are those of one cell and metric, nil when nothing was measured.
func (r *Report) Figures(peer, workload string, m Metric) []float64 {
	for _, c := range r.Cells {
		if c.Peer == peer && c.Workload == workload {
			return c.Figures[m]
		}
	}
	return nil
}

// Add adds a round's figures.
func (c *Cell) Add(figures map[Metric]float64) {
	for m, v := range figures {
		c.Figures[m] = append(c.Figures[m], v)
	}
}

// Median is that of one cell and metric, NaN when nothing was measured.
func (r *Report) Median(peer, workload string, m Metric) float64 {
	return stats.Median(r.Figures(peer, workload, m))
}

// Save writes the report as JSON.
func (r *Report) Save(path string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("the report: %w", err)
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// Load reads what Save wrote.
func Load(path string) (*Report, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &Report{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Format != Format {
		return nil, fmt.Errorf("%s: format %d, not %d", path, r.Format, Format)
	}
	return r, nil
}
