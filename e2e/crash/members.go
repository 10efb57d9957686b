package crash

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// members are consumers that reject all they get.
type members struct {
	clients []*kgo.Client
	stop    context.CancelFunc
	running sync.WaitGroup
}

// join lets two members join the group through the proxy: one whose Rejects ride on fetches, one that sends them by themselves.
func join(proxy string) (*members, error) {
	ctx, cancel := context.WithCancel(context.Background())
	m := &members{stop: cancel}
	for _, flush := range []bool{false, true} {
		cl, err := kgo.NewClient(kgo.SeedBrokers(proxy), kgo.ConsumeTopics(source), kgo.ShareGroup(group), kgo.ShareMaxRecords(25),
			kgo.ShareMaxRecordsStrict(), kgo.FetchMaxWait(100*time.Millisecond), kgo.MaxConcurrentFetches(brokers), kgo.ClientID("crash"),
			kgo.MetadataMinAge(10*time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
			kgo.RequestRetries(1<<20))
		if err != nil {
			m.leave()
			return nil, err
		}
		m.clients = append(m.clients, cl)
		m.running.Go(func() { reject(ctx, cl, flush) })
	}
	return m, nil
}

func reject(ctx context.Context, cl *kgo.Client, flush bool) {
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		fetches.EachRecord(func(r *kgo.Record) { r.Ack(kgo.AckReject) })
		if flush && fetches.NumRecords() > 0 {
			one, cancel := context.WithTimeout(ctx, time.Second) // what fails is delivered again
			_ = cl.FlushAcks(one)
			cancel()
		}
	}
}

func (m *members) leave() {
	m.stop()
	m.running.Wait()
	for _, cl := range m.clients {
		cl.Close()
	}
}

// producer keeps the source topic filled, past the proxy.
type producer struct {
	client *kgo.Client
	ledger *ledger
	rng    *rand.Rand
	made   int
}

// fill produces until enough records wait.
func (p *producer) fill(ctx context.Context) error {
	var records []*kgo.Record
	for n := backlog - p.ledger.open(); n > 0; n-- {
		records = append(records, p.record())
	}
	if len(records) == 0 {
		return nil
	}
	if err := p.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}
	p.ledger.produced(records)
	return nil
}

// record makes one that is unlike the others: of any size up to some KiB, with and without key, value and headers.
func (p *producer) record() *kgo.Record {
	p.made++
	r := &kgo.Record{Topic: source, Partition: int32(p.made % partitions), Timestamp: time.UnixMilli(1_700_000_000_000 + int64(p.made))}
	switch p.rng.IntN(4) {
	case 0: // null
	case 1:
		r.Key = []byte{}
	default:
		r.Key = p.bytes(p.rng.IntN(40))
	}
	switch p.rng.IntN(8) {
	case 0:
	case 1:
		r.Value = []byte{}
	case 2:
		r.Value = p.bytes(p.rng.IntN(4000))
	default:
		r.Value = p.bytes(p.rng.IntN(300))
	}
	for range p.rng.IntN(4) {
		h := kgo.RecordHeader{Key: string('a' + rune(p.rng.IntN(3)))}
		if p.rng.IntN(3) > 0 {
			h.Value = p.bytes(p.rng.IntN(20))
		}
		r.Headers = append(r.Headers, h)
	}
	return r
}

func (p *producer) bytes(n int) []byte {
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.BigEndian.AppendUint64(b, p.rng.Uint64())
	}
	return b[:n:n]
}
