package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/ackproxy/ackproxy/bench/internal/frames"
	"github.com/ackproxy/ackproxy/bench/internal/load"
	"github.com/ackproxy/ackproxy/bench/internal/peer"
	"github.com/ackproxy/ackproxy/bench/internal/proc"
	"github.com/ackproxy/ackproxy/bench/internal/report"
)

// spare is how many descriptors a proxy needs besides those of its connections.
const spare = 200

// settle is how long a process gets until its memory is taken as it is.
func (b *bench) settle() time.Duration {
	if b.short {
		return 2 * time.Second
	}
	return 5 * time.Second
}

// idle measures memory and descriptors with connections that have each had one answer and then nothing. Every contender is started anew:
// memory that an earlier load left behind would be taken for free.
func (b *bench) idle(ctx context.Context) {
	b.report.Workloads = append(b.report.Workloads, report.Workload{Name: idleName, Title: "Idle connections, each after one request",
		Connections: b.conns, Show: []report.Metric{report.Idle, report.PerConn, report.FDsConn, report.RSSIdle, report.RSS1000}})
	for round := range b.idleRounds {
		for i, p := range b.peers {
			cell := b.report.Cell(p.Name, idleName)
			if b.running[p.Name].PID == 0 || len(cell.Errors) > 0 || ctx.Err() != nil {
				continue
			}
			b.say.now("round %d of %d, idle connections: %s", round+1, b.idleRounds, p.Name)
			figures, err := b.idleOne(ctx, p, b.ports[i])
			if err != nil && ctx.Err() == nil {
				cell.Errors = append(cell.Errors, err.Error())
				b.say.loud("FAILED: %s with idle connections: %v", p.Name, err)
				continue
			}
			cell.Add(figures)
		}
	}
}

func (b *bench) idleOne(ctx context.Context, p *peer.Peer, port int) (figures map[report.Metric]float64, err error) {
	r, err := p.Start(ctx, b.dir, port)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	start, err := proc.Settle(r.PID, b.settle())
	if err != nil {
		return nil, err
	}
	const some = 1000 // from there on nothing but connections takes descriptors: event loops have theirs by then
	fds := 0
	most := min(b.conns, affordable(p.Descriptors))
	figures = map[report.Metric]float64{report.RSSIdle: start / 1024, report.Idle: float64(most)}
	spec := load.Spec{Addr: r.Addr, Kind: frames.Ack, ShareVersion: p.ShareVersion, Hold: []int{min(some, most), most}}
	_, err = generate(ctx, spec, func(word string) error {
		var n int
		if _, err := fmt.Sscanf(word, "held %d", &n); err != nil {
			return fmt.Errorf("%q: %w", word, err)
		}
		kib, err := proc.Settle(r.PID, b.settle())
		if err != nil {
			return err
		}
		now, err := proc.Descriptors(r.PID)
		if err != nil {
			return err
		}
		if n == some {
			figures[report.RSS1000], fds = kib/1024, now
		}
		if n > some {
			figures[report.FDsConn] = float64(now-fds) / float64(n-some)
		}
		figures[report.PerConn] = (kib - start) / float64(n)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, r.Logs())
	}
	return figures, nil
}

// affordable is how many connections a proxy can hold that needs so many descriptors for each.
func affordable(descriptors int) int {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 400
	}
	return (int(min(l.Cur, 1<<20)) - spare) / max(descriptors, 1)
}
