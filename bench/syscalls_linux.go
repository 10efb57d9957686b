package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/ackproxy/ackproxy/bench/internal/peer"
	"github.com/ackproxy/ackproxy/bench/internal/proc"
	"github.com/ackproxy/ackproxy/bench/internal/report"
)

// syscalls counts system calls in a pass of its own, since counting costs time: their number by the kernel's tracepoint where that can be
// had, else by strace; and their names by strace.
func (b *bench) syscalls(ctx context.Context, chosen []workload) {
	_, err := exec.LookPath("strace")
	strace := err == nil
	named := strace && !b.short
	how := "system calls are counted by a tracepoint of the kernel in a separate pass"
	for _, w := range chosen {
		for _, p := range b.peers {
			r := b.running[p.Name]
			cell := b.report.Cell(p.Name, w.name)
			if !w.count || r.PID == 0 || len(cell.Errors) > 0 || ctx.Err() != nil {
				continue
			}
			b.say.now("counting system calls: %s, %s", w.name, p.Name)
			each, err := b.traced(ctx, r, w)
			if err == nil {
				cell.Figures[report.Syscalls] = []float64{each}
			}
			if named || strace && err != nil {
				if names, straceErr := b.straced(ctx, r, w); straceErr == nil {
					cell.Syscalls = names
				}
			}
			if err != nil && cell.Syscalls != nil {
				how = fmt.Sprintf("system calls are counted by strace in a separate pass, which slows proxies down (%s)",
					strings.ReplaceAll(err.Error(), "\n", "; "))
				cell.Figures[report.Syscalls] = []float64{total(cell.Syscalls)}
			} else if err != nil {
				b.say.loud("system calls of %s with %s were not counted: %v", p.Name, w.name, err)
				how = "system calls could not be counted"
			}
		}
	}
	if named {
		how += "; their names (in the JSON report) by strace, which slows proxies down"
	}
	b.report.Findings = append(b.report.Findings, how)
}

// counted runs a workload and calls begin and end around its measurement; end is told the number of requests.
func (b *bench) counted(ctx context.Context, r *peer.Running, w workload, begin func() error, end func(requests float64) error) error {
	s := b.spec(r, w)
	s.Gate, s.Run = true, time.Duration(b.sysMilli)*time.Millisecond
	_, err := generate(ctx, s, func(word string) error {
		if word == "warm" {
			return begin()
		}
		var n float64
		if _, err := fmt.Sscanf(word, "done %f", &n); err != nil || n == 0 {
			return fmt.Errorf("%q: no requests", word)
		}
		return end(n)
	})
	return err
}

func (b *bench) traced(ctx context.Context, r *peer.Running, w workload) (each float64, err error) {
	var c *proc.Counter
	err = b.counted(ctx, r, w, func() (err error) {
		c, err = proc.NewCounter(r.PID)
		return err
	}, func(requests float64) error {
		n, err := c.Count()
		each = float64(n) / requests
		return err
	})
	if c != nil {
		c.Close()
	}
	return each, err
}

func (b *bench) straced(ctx context.Context, r *peer.Running, w workload) (names map[string]float64, err error) {
	var t *proc.Tracer
	err = b.counted(ctx, r, w, func() (err error) {
		t, err = proc.Trace(r.PID)
		return err
	}, func(requests float64) error {
		calls, err := t.Stop()
		t, names = nil, map[string]float64{}
		for name, n := range calls {
			names[strings.TrimSpace(name)] = float64(n) / requests
		}
		return err
	})
	if t != nil {
		_, _ = t.Stop()
	}
	return names, err
}

func total(names map[string]float64) (sum float64) {
	for _, n := range names {
		sum += n
	}
	return sum
}
