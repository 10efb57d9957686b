package demo

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// maxUnsettled is how far the producer runs ahead of the members, in records. It bounds what brokers, members and tally hold.
const maxUnsettled = 20_000

// producer makes records, turn by turn for every partition of every topic.
type producer struct {
	cl      *kgo.Client
	topics  []topic
	limit   int64 // records to make; 0 is no limit
	rate    int64 // records a second; 0 is as many as maxUnsettled allows
	settled func() int64

	sent     int64
	produced atomic.Int64 // that the brokers took

	mu   sync.Mutex
	ends map[string]map[int32]int64 // one past the last offset
	err  error
}

// run produces until the limit is reached, stop ends, or a record fails; then it waits for what is under way.
func (p *producer) run(ctx context.Context, stop <-chan struct{}) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	for p.failure() == nil && (p.limit == 0 || p.sent < p.limit) {
		for n := p.due(time.Since(began)); n > 0; n-- {
			p.produce(ctx)
		}
		select {
		case <-tick.C:
			continue
		case <-stop:
		case <-ctx.Done():
		}
		break
	}
	if err := p.cl.Flush(ctx); err != nil {
		p.fail(err)
	}
}

// due is how many records to make now.
func (p *producer) due(since time.Duration) int64 {
	n := maxUnsettled - (p.sent - p.settled())
	if p.rate > 0 {
		n = min(n, int64(since.Seconds()*float64(p.rate))-p.sent)
	}
	if p.limit > 0 {
		n = min(n, p.limit-p.sent)
	}
	return n
}

func (p *producer) produce(ctx context.Context) {
	n := p.sent
	p.sent++
	t := p.topics[n%int64(len(p.topics))]
	r := &kgo.Record{
		Topic: t.name, Partition: int32(n / int64(len(p.topics)) % int64(t.partitions)),
		Key: fmt.Appendf(nil, "%08d", n), Value: fmt.Appendf(nil, `{"%s":%d}`, t.name, n),
	}
	p.cl.Produce(ctx, r, func(r *kgo.Record, err error) {
		if err != nil {
			p.fail(err)
			return
		}
		p.produced.Add(1)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.ends[r.Topic] == nil {
			p.ends[r.Topic] = map[int32]int64{}
		}
		p.ends[r.Topic][r.Partition] = max(p.ends[r.Topic][r.Partition], r.Offset+1)
	})
}

func (p *producer) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = fmt.Errorf("producing: %w", err)
	}
}

// failure is the first error.
func (p *producer) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// end is one past the last offset of a partition that has records; false when it has none.
func (p *producer) end(topic string, partition int32) (int64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	end, ok := p.ends[topic][partition]
	return end, ok
}
