package proxy

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// loadOn produces to "orders", consumes it with a plain consumer, and takes it with two share consumers, until stop is called or ctx
// ends. settled counts the records that share consumers acknowledged.
func loadOn(ctx context.Context, t *testing.T, common []kgo.Opt, settled *atomic.Int64) (work *sync.WaitGroup, stop context.CancelFunc) {
	t.Helper()
	ctx, stop = context.WithCancel(ctx)
	work = new(sync.WaitGroup)
	with := func(opts ...kgo.Opt) *kgo.Client {
		return client(t, append(append([]kgo.Opt(nil), common...), opts...)...)
	}
	p := with(kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.MaxBufferedRecords(200))
	earliest(ctx, t, p, "movers")
	work.Go(func() {
		for ctx.Err() == nil {
			p.Produce(ctx, kgo.StringRecord("record"), nil)
		}
	})
	plain := with(kgo.ConsumeTopics("orders"), kgo.FetchMaxWait(50*time.Millisecond))
	work.Go(func() {
		for ctx.Err() == nil {
			plain.PollFetches(ctx)
		}
	})
	for range 2 {
		c := with(kgo.ConsumeTopics("orders"), kgo.ShareGroup("movers"), kgo.ShareMaxRecords(50), kgo.ShareMaxRecordsStrict(), kgo.FetchMaxWait(50*time.Millisecond))
		work.Go(func() {
			for polls := 0; ctx.Err() == nil; polls++ {
				for _, r := range c.PollFetches(ctx).Records() {
					r.Ack(kgo.AckAccept)
					settled.Add(1)
				}
				if polls%2 == 0 {
					flush, cancel := context.WithTimeout(ctx, time.Second)
					c.FlushAcks(flush)
					cancel()
				}
			}
			c.Close()
		})
	}
	return work, stop
}
