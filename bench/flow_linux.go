package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/bench/internal/hist"
	"github.com/ackproxy/ackproxy/bench/internal/proc"
	"github.com/ackproxy/ackproxy/bench/internal/report"
)

const (
	recordBytes = 1 << 10
	ahead       = 10_000 // records that may be produced and not yet consumed
	flowWarm    = 2 * time.Second
)

// flow is records on their way from a producer through a broker to a member of a share group, in one process, so that one clock
// times both ends.
type flow struct {
	seeds, topic string
	rate         float64 // records a second; 0: as many as get through
	window       time.Duration
	pid          int // of the proxy, 0 without one

	base      time.Time
	consumed  atomic.Int64
	failed    atomic.Pointer[error]
	measuring bool // the consumer's alone, as is what follows
	begin     time.Time
	counted   int64
	seconds   float64
	cpu       time.Duration
	times     hist.H
}

// run ends when the window has been measured.
func (f *flow) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, f.window+flowWarm+time.Minute)
	defer cancel()
	f.base = time.Now()
	// Relays do not rewrite the addresses that brokers tell: all connections go to the contender, whatever the client wants.
	through := kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, f.seeds)
	})
	producer, err := kgo.NewClient(kgo.SeedBrokers(f.seeds), through, kgo.DefaultProduceTopic(f.topic), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.MaxBufferedRecords(ahead))
	if err != nil {
		return err
	}
	defer producer.Close()
	member, err := kgo.NewClient(kgo.SeedBrokers(f.seeds), through, kgo.ConsumeTopics(f.topic), kgo.ShareGroup(f.topic))
	if err != nil {
		return err
	}
	defer member.Close()
	var wg sync.WaitGroup
	produceCtx, stop := context.WithCancel(ctx)
	wg.Go(func() { f.produce(produceCtx, producer) })
	err = f.consume(ctx, member)
	stop()
	wg.Wait()
	if p := f.failed.Load(); p != nil {
		err = errors.Join(err, fmt.Errorf("produce: %w", *p))
	}
	return err
}

// produce sends records until ctx ends, at the rate if there is one, and never far ahead of the consumer.
func (f *flow) produce(ctx context.Context, cl *kgo.Client) {
	filler := make([]byte, recordBytes)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(filler)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for sent := int64(0); ctx.Err() == nil; sent++ {
		for ctx.Err() == nil && (f.rate > 0 && float64(sent) >= time.Since(f.base).Seconds()*f.rate || sent-f.consumed.Load() >= ahead) {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		value := make([]byte, recordBytes)
		copy(value, filler)
		binary.BigEndian.PutUint64(value, uint64(time.Since(f.base)))
		cl.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil && ctx.Err() == nil {
				f.failed.CompareAndSwap(nil, &err)
			}
		})
	}
}

// consume polls, which accepts what the poll before returned, and measures a window that begins flowWarm after the first record.
func (f *flow) consume(ctx context.Context, cl *kgo.Client) error {
	var first time.Time
	for {
		fetches := cl.PollFetches(ctx)
		now := time.Now()
		if err := errors.Join(ctx.Err(), fetches.Err()); err != nil {
			return err
		}
		if first.IsZero() && fetches.NumRecords() > 0 {
			first = now
		}
		if !f.measuring && !first.IsZero() && now.Sub(first) >= flowWarm {
			f.measuring, f.begin, f.cpu = true, now, f.proxyCPU()
			f.consumed.Add(int64(fetches.NumRecords()))
			continue // these came before
		}
		for r := range fetches.RecordsAll() {
			f.consumed.Add(1)
			if f.measuring {
				f.counted++
				f.times.Add(now.Sub(f.base) - time.Duration(binary.BigEndian.Uint64(r.Value)))
			}
		}
		if f.measuring && now.Sub(f.begin) >= f.window {
			f.seconds, f.cpu = now.Sub(f.begin).Seconds(), f.proxyCPU()-f.cpu
			return cl.FlushAcks(ctx)
		}
	}
}

func (f *flow) proxyCPU() time.Duration {
	if f.pid == 0 {
		return 0
	}
	d, _ := proc.CPU(f.pid)
	return d
}

func (f *flow) figures() map[report.Metric]float64 {
	us := func(q float64) float64 { return float64(f.times.Quantile(q)) / 1e3 }
	perSecond := float64(f.counted) / f.seconds
	m := map[report.Metric]float64{report.Records: perSecond, report.Bandwidth: perSecond * recordBytes / 1e6, report.P50: us(.5), report.P99: us(.99),
		report.P999: us(.999)}
	if f.pid != 0 {
		m[report.CPURecord] = float64(f.cpu) / 1e3 / float64(f.counted)
	}
	return m
}
