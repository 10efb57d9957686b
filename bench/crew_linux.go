package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/bench/internal/proc"
	"github.com/ackproxy/ackproxy/bench/internal/report"
)

// crew is members of one share group, which has a topic's backlog to work off as fast as it can, and rejects some of it.
type crew struct {
	seeds, topic, group string
	members, rejects    int           // rejects: of a hundred records
	window              time.Duration // shorter where the backlog ends first
	warm                time.Duration // before it, from the first record on
	backlog             int
	work                time.Duration         // of a member, for what a poll returns
	pids                map[report.Metric]int // whose CPU time is told
	watch               func(float64)         // unless nil, told of the proxy's resident MiB now and then

	polled, rejected atomic.Int64
}

// pollRecords is how many records a poll returns, at most.
const pollRecords = 100

// run measures a window that begins some time after the first record. All that was polled is settled when it returns.
func (c *crew) run(ctx context.Context) (map[report.Metric]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, c.window+c.warm+2*time.Minute)
	defer cancel()
	polling, stop := context.WithCancel(ctx)
	errs := make([]error, c.members)
	var all sync.WaitGroup
	for i := range c.members {
		all.Go(func() {
			if errs[i] = c.member(ctx, polling); errs[i] != nil {
				stop()
			}
		})
	}
	figures, err := c.measure(polling)
	stop()
	all.Wait()
	return figures, errors.Join(append(errs, err)...)
}

// member polls, which accepts what the poll before returned and was not rejected, until polling ends.
func (c *crew) member(ctx, polling context.Context) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.seeds), kgo.ConsumeTopics(c.topic), kgo.ShareGroup(c.group), kgo.ShareMaxRecords(pollRecords))
	if err != nil {
		return err
	}
	defer cl.Close()
	for {
		fetches := cl.PollFetches(polling)
		if polling.Err() != nil {
			cl.MarkAcks(kgo.AckAccept)
			return cl.FlushAcks(ctx)
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		for r := range fetches.RecordsAll() {
			if rand.IntN(100) < c.rejects {
				r.Ack(kgo.AckReject)
				c.rejected.Add(1)
			}
		}
		c.polled.Add(int64(fetches.NumRecords()))
		if c.work > 0 {
			time.Sleep(c.work)
		}
	}
}

func (c *crew) measure(ctx context.Context) (map[report.Metric]float64, error) {
	for c.polled.Load() == 0 {
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return nil, err
		}
	}
	if err := pause(ctx, c.warm); err != nil {
		return nil, err
	}
	before, begin := c.polled.Load(), time.Now()
	cpu, err := c.cpu()
	if err != nil {
		return nil, err
	}
	for time.Since(begin) < c.window && c.polled.Load() < int64(c.backlog)*9/10 {
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
		if c.watch != nil {
			kib, err := proc.RSS(c.pids[report.CPURecord])
			if err != nil {
				return nil, err
			}
			c.watch(kib / 1024)
		}
	}
	took, n := time.Since(begin), float64(c.polled.Load()-before)
	if n == 0 {
		return nil, errors.New("the backlog is too small")
	}
	after, err := c.cpu()
	figures := map[report.Metric]float64{report.Records: n / took.Seconds()}
	for whose := range after {
		figures[whose] = float64(after[whose]-cpu[whose]) / 1e3 / n
	}
	return figures, err
}

// cpu is the CPU time that each process has used.
func (c *crew) cpu() (map[report.Metric]time.Duration, error) {
	times := make(map[report.Metric]time.Duration, len(c.pids))
	for whose, pid := range c.pids {
		var err error
		if times[whose], err = proc.CPU(pid); err != nil {
			return nil, err
		}
	}
	return times, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the members ended: %w", context.Cause(ctx))
	}
}
