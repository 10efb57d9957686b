package e2e

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/e2e/kafka"
	"github.com/ackproxy/ackproxy/policy"
	inside "github.com/ackproxy/ackproxy/proxy"
)

// reader is a policy that notes what it finds of each offset that is acknowledged, by partition.
type reader struct {
	mu    sync.Mutex
	found map[string]string
	gaps  int // offsets that the client found no record at
}

func (r *reader) Name() string          { return "reader" }
func (r *reader) Traits() policy.Traits { return policy.Traits{Records: true} }

func (r *reader) Decide(_ context.Context, q *policy.Request) (policy.Verdict, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range q.Partitions {
		for _, a := range p.Acquired {
			for offset := a.First; offset <= a.Last; offset++ {
				record, err := q.Records.Record(p.TopicID, p.Index, offset)
				if left := a.LockUntil.Sub(q.Received); left < 0 || left > time.Minute || a.Acquired.After(q.Received) {
					err = errors.Join(err, fmt.Errorf("acquired %v, lock until %v, acknowledged %v", a.Acquired, a.LockUntil, q.Received))
				}
				if typeAt(p.Ranges, offset) == policy.Gap {
					if r.gaps++; !errors.Is(err, policy.ErrNotKept) { // its batch is a control batch
						r.found[fmt.Sprint("gap ", offset)] = fmt.Sprint(err)
					}
					continue
				}
				r.found[fmt.Sprintf("%s %d count %d", p.Topic, offset, a.DeliveryCount)] = strings.TrimSuffix(show(record)+fmt.Sprint(" ", err), " <nil>")
			}
		}
	}
	return policy.Verdict{}, nil
}

func typeAt(ranges []policy.Range, offset int64) int8 {
	for _, r := range ranges {
		if r.First <= offset && offset <= r.Last {
			return r.Type
		}
	}
	return -1
}

func show(r policy.Record) string {
	return fmt.Sprintf("%q=%q %q at %d, in a transaction %v", r.Key, r.Value, r.Headers, r.Timestamp, r.Transactional)
}

// TestPoliciesSeeRecords: what a policy finds of acknowledged records is what their producers wrote, in every compression, and what it knows of
// their deliveries is what the consumer was told.
func TestPoliciesSeeRecords(t *testing.T) {
	c := cluster(t, kafka.Versions[0], 1)
	topic := "records"
	if _, err := c.CreateTopic(t.Context(), topic, 1); err != nil {
		t.Fatal(err)
	}
	if err := c.ShareGroup(t.Context(), "readers", nil); err != nil {
		t.Fatal(err)
	}
	r := &reader{found: map[string]string{}}
	chain, err := policy.NewChain(policy.Member{Policy: r})
	if err != nil {
		t.Fatal(err)
	}
	s, err := inside.New(inside.Config{Bootstrap: "127.0.0.1:0", Advertise: "127.0.0.1", Upstream: strings.Split(c.Bootstrap(), ","), Policies: chain})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	defer func() {
		if err := errors.Join(s.Shutdown(ctx), <-served); err != nil {
			t.Error(err)
		}
	}()
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	for i, codec := range codecs {
		produce(ctx, t, s.Addr(), topic, codec, i%2 == 0)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addr()), kgo.ShareGroup("readers"), kgo.ConsumeTopics(topic), kgo.FetchMaxWait(200*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	want := map[string]string{}
	for settled := 0; settled < perCodec*len(codecs); {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d records were settled", settled)
		}
		for _, d := range fs.Records() {
			asProduced := policy.Record{Key: d.Key, Value: d.Value, Timestamp: d.Timestamp.UnixMilli(), Transactional: d.Attrs.IsTransactional()}
			for _, h := range d.Headers {
				asProduced.Headers = append(asProduced.Headers, policy.RecordHeader(h))
			}
			want[fmt.Sprintf("%s %d count %d", d.Topic, d.Offset, d.DeliveryCount())] = show(asProduced)
			if d.Offset%5 == 0 && d.DeliveryCount() == 1 {
				d.Ack(kgo.AckRelease)
				continue
			}
			settled++
			d.Ack(kgo.AckAccept)
		}
	}
	if err := cl.FlushAcks(ctx); err != nil {
		t.Fatal(err)
	}
	cl.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !reflect.DeepEqual(r.found, want) {
		for what := range r.found {
			if r.found[what] != want[what] {
				t.Errorf("%s: %.300s\nwant %.300s", what, r.found[what], want[what])
			}
		}
		t.Errorf("%d records found, want %d", len(r.found), len(want))
	}
	if r.gaps == 0 {
		t.Error("no gap: the transactions' control records were not delivered")
	}
}

const perCodec = 40

// produce writes records through a proxy, some of them in a transaction.
func produce(ctx context.Context, t *testing.T, addr, topic string, codec kgo.CompressionCodec, transaction bool) {
	t.Helper()
	opts := []kgo.Opt{
		kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(20 * time.Millisecond),
	}
	if transaction {
		opts = append(opts, kgo.TransactionalID("t"))
	}
	p, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if transaction {
		if err := p.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
	}
	var records []*kgo.Record
	for i := range perCodec {
		r := kgo.StringRecord(fmt.Sprint(i, strings.Repeat("text ", i*20)))
		if i%3 > 0 {
			r.Key = []byte{byte(i), 0xff}
			r.Headers = []kgo.RecordHeader{{Key: "h", Value: []byte{byte(i)}}, {Key: "null"}}
		}
		records = append(records, r)
	}
	if err := p.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if transaction {
		if err := p.EndTransaction(ctx, kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
	}
}
