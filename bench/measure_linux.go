package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/ackproxy/ackproxy/bench/internal/frames"
	"github.com/ackproxy/ackproxy/bench/internal/load"
	"github.com/ackproxy/ackproxy/bench/internal/peer"
	"github.com/ackproxy/ackproxy/bench/internal/proc"
	"github.com/ackproxy/ackproxy/bench/internal/report"
)

// run measures everything.
func (b *bench) run(ctx context.Context, chosen []workload, idle bool) error {
	for _, w := range chosen {
		b.report.Workloads = append(b.report.Workloads, w.describe())
	}
	if err := b.warmUp(ctx); err != nil {
		return err
	}
	for round := range b.rounds {
		for i, w := range chosen {
			for _, at := range b.random.Perm(len(b.peers)) {
				r := b.running[b.peers[at].Name]
				b.say.now("round %d of %d, workload %d of %d: %s, %s", round+1, b.rounds, i+1, len(chosen), w.name, r.Name)
				if err := b.measure(ctx, r, w); err != nil {
					return err
				}
			}
		}
	}
	b.syscalls(ctx, chosen)
	if idle {
		b.idle(ctx)
	}
	b.finding(chosen)
	b.report.Seconds = time.Since(b.report.Started).Seconds()
	b.say.done()
	return ctx.Err()
}

// spec is the load of a workload on a contender.
func (b *bench) spec(r *peer.Running, w workload) load.Spec {
	s := load.Spec{Addr: r.Addr, Kind: w.kind, ShareVersion: r.ShareVersion, Conns: w.conns, Depth: w.depth, Rate: w.rate, Warm: b.warm,
		Run: b.window, AtLeast: 10, Watch: map[string]int{"broker": b.broker.PID()}}
	if r.PID != 0 {
		s.Watch["proxy"] = r.PID
	}
	return s
}

// measure adds one measurement to the report. A contender that fails once with a workload is left alone with it from then on; only
// the end of ctx is an error.
func (b *bench) measure(ctx context.Context, r *peer.Running, w workload) error {
	cell := b.report.Cell(r.Name, w.name)
	if len(cell.Errors) > 0 {
		return ctx.Err()
	}
	lostBefore, err := auditEvents(ctx, r)
	busyBefore, oursBefore := proc.Busy(), b.ours(r)
	start := time.Now()
	var got load.Result
	if err == nil {
		got, err = generate(ctx, b.spec(r, w), nil)
	}
	all := time.Since(start).Seconds()
	if err == nil && r.PID != 0 {
		b.others = append(b.others, max(0, (proc.Busy()-busyBefore-(b.ours(r)-oursBefore)).Seconds()/all))
	}
	figures := figuresOf(got, w, r.PID != 0)
	if err == nil && r.Audited {
		err = addAudit(ctx, r, lostBefore, figures)
	}
	if err == nil && r.PID != 0 {
		var kib float64
		kib, err = proc.RSS(r.PID)
		figures[report.RSS] = kib / 1024
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		cell.Errors = append(cell.Errors, err.Error())
		b.say.loud("FAILED: %s with %s: %v\n%s", r.Name, w.name, err, r.Logs())
		return nil
	}
	cell.Add(figures)
	return nil
}

// ours is the CPU time so far of the processes of a measurement but for the load generator, which has ended by then and counts as
// this program's child.
func (b *bench) ours(r *peer.Running) time.Duration {
	sum := proc.SelfAndChildren()
	for _, pid := range []int{b.broker.PID(), r.PID} {
		if pid != 0 {
			d, _ := proc.CPU(pid)
			sum += d
		}
	}
	return sum
}

func figuresOf(r load.Result, w workload, proxied bool) map[report.Metric]float64 {
	us := func(d time.Duration) float64 { return float64(d) / 1e3 }
	n, mb := float64(r.Requests), float64(r.BytesIn+r.BytesOut)/1e6
	f := map[report.Metric]float64{report.Requests: n / r.Seconds, report.P50: us(r.P50), report.P99: us(r.P99), report.P999: us(r.P999),
		report.Bandwidth: mb / r.Seconds, report.CPULoad: r.CPU[proc.Self] / r.Seconds * 100, report.CPUBroker: r.CPU["broker"] / r.Seconds * 100}
	if proxied {
		cpu := r.CPU["proxy"]
		f[report.CPUProxy], f[report.CPURequest], f[report.CPUMegabyte] = cpu/r.Seconds*100, cpu*1e6/n, cpu*1e3/mb
	}
	return f
}

// warmUp gives contenders that need it some load of every kind.
func (b *bench) warmUp(ctx context.Context) error {
	for _, p := range b.peers {
		if p.Warm == 0 {
			continue
		}
		d := min(p.Warm, b.peerWarm)
		if d < p.Warm {
			b.report.Findings = append(b.report.Findings, fmt.Sprintf("%s had %v of load before the first round; it gets better up to %v", p.Name, d, p.Warm))
		}
		for _, kind := range frames.Kinds {
			b.say.now("warming up %s, %v", p.Name, d)
			s := b.spec(b.running[p.Name], workload{kind: kind, conns: 16, depth: 1})
			s.Run = d / time.Duration(len(frames.Kinds))
			if _, err := generate(ctx, s, nil); ctx.Err() != nil {
				return err // what else fails here fails again in the rounds, and is reported there
			}
		}
	}
	return nil
}

// addAudit adds how many audit events were written and lost since before, and empties the audit log: a run would write gigabytes.
func addAudit(ctx context.Context, r *peer.Running, before [2]float64, figures map[report.Metric]float64) error {
	after, err := auditEvents(ctx, r)
	if err != nil {
		return err
	}
	figures[report.AuditLines], figures[report.AuditLost] = after[0]-before[0], after[1]-before[1]
	return os.Truncate(r.Audit, 0)
}

// auditEvents is how many audit events a contender has written and dropped so far, by its metrics, once its queue is empty; zeros
// without an audit log.
func auditEvents(ctx context.Context, r *peer.Running) (events [2]float64, err error) {
	if !r.Audited {
		return events, nil
	}
	for end := time.Now().Add(10 * time.Second); ; {
		m, err := metrics(ctx, r.Admin)
		if err != nil {
			return events, err
		}
		if m["ackproxy_audit_queue_bytes"] == 0 {
			return [2]float64{m["written"], m["dropped"]}, nil
		}
		if time.Now().After(end) {
			return events, fmt.Errorf("%v bytes wait in the audit queue", m["ackproxy_audit_queue_bytes"])
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// metrics reads what a /metrics page says of the audit: series by name, events by their result.
func metrics(ctx context.Context, admin string) (map[string]float64, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	defer p.Body.Close()
	return parseMetrics(p.Body)
}
