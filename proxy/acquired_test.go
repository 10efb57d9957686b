package proxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/policy"
)

// looker is a policy that looks up all that it is shown, and forwards.
type looker struct {
	records bool
	mu      sync.Mutex
	seen    map[string]string // what was found of each offset that was acknowledged
}

func (l *looker) Name() string          { return "looker" }
func (l *looker) Traits() policy.Traits { return policy.Traits{Records: l.records} }

func (l *looker) Decide(_ context.Context, r *policy.Request) (policy.Verdict, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range r.Partitions {
		for _, asked := range p.Ranges {
			for offset := asked.First; offset <= asked.Last; offset++ {
				l.look(r, &p, offset, asked.Type)
			}
		}
	}
	return policy.Verdict{}, nil
}

func (l *looker) look(r *policy.Request, p *policy.Partition, offset int64, typ int8) {
	found := "nothing"
	for _, a := range p.Acquired {
		if a.First <= offset && offset <= a.Last && a.LockUntil.After(a.Acquired) && !a.Acquired.After(r.Received) {
			found = fmt.Sprintf("count %d", a.DeliveryCount)
		}
	}
	if l.records {
		record, err := r.Records.Record(p.TopicID, p.Index, offset)
		if err != nil {
			found += " " + err.Error()
		} else {
			found += fmt.Sprintf(" %s=%s %v %d", record.Key, record.Value, record.Headers, record.Timestamp)
		}
	} else if r.Records != nil {
		found += " and records that nobody asked for"
	}
	l.seen[fmt.Sprintf("%d/%d as %d", p.Index, offset, typ)] = found
}

// deliveryBook notes the highest delivery count that it is told of each offset.
type deliveryBook struct {
	mu   sync.Mutex
	most map[string]int16
	odd  []string
}

func (*deliveryBook) Observe(*policy.Outcome) {}

func (b *deliveryBook) Delivered(d *policy.Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d.Group != "g" || d.Member == "" || d.Topic != "orders" || d.Records == nil {
		b.odd = append(b.odd, fmt.Sprintf("%+v", d))
	}
	for _, a := range d.Acquired {
		if a.LockUntil.Sub(a.Acquired) < time.Second || time.Since(a.Acquired) > time.Minute {
			b.odd = append(b.odd, fmt.Sprintf("%+v", a))
		}
		for o := a.First; o <= a.Last; o++ {
			at := fmt.Sprintf("%d/%d", d.Partition, o)
			b.most[at] = max(b.most[at], a.DeliveryCount)
		}
	}
}

// TestDeliveries takes records to a share consumer, and compares what a policy finds of each acknowledged offset with what the consumer got.
func TestDeliveries(t *testing.T) {
	for name, src := range sources {
		for _, records := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " records ", records), func(t *testing.T) { deliveries(t, src, records) })
		}
	}
}

func deliveries(t *testing.T, src source, withRecords bool) {
	const records = 300
	k := cluster(t, 2, "orders")
	l := &looker{records: withRecords, seen: map[string]string{}}
	chain, err := policy.NewChain(policy.Member{Policy: l})
	if err != nil {
		t.Fatal(err)
	}
	w := &deliveryBook{most: map[string]int16{}}
	s := start(t, Config{Upstream: k.ListenAddrs(), Policies: chain, Observers: []policy.Observer{w}}, src)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	p := client(t, kgo.SeedBrokers(s.Addr()), kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	for i := range records {
		r := kgo.StringRecord(fmt.Sprint(i, strings.Repeat("x", i*10))) // answers below and above 64 KiB
		r.Key, r.Headers = []byte("k"), []kgo.RecordHeader{{Key: "h", Value: []byte{byte(i)}}}
		if err := p.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	earliest(ctx, t, p, "g")
	c := client(t, kgo.SeedBrokers(s.Addr()), kgo.ConsumeTopics("orders"), kgo.ShareGroup("g"), kgo.FetchMaxWait(50*time.Millisecond))
	want := map[string]string{}
	for settled := 0; settled < records; {
		fs := c.PollFetches(ctx)
		if err := fs.Err0(); err != nil {
			t.Fatal(err, settled)
		}
		for _, r := range fs.Records() {
			typ, how := policy.Accept, kgo.AckAccept
			switch {
			case r.Offset%5 == 1 && r.DeliveryCount() == 1:
				typ, how = policy.Release, kgo.AckRelease
				settled--
			case r.Offset%7 == 0:
				typ, how = policy.Reject, kgo.AckReject
			}
			settled++
			w.mu.Lock()
			if told := w.most[fmt.Sprintf("%d/%d", r.Partition, r.Offset)]; told < int16(r.DeliveryCount()) || len(w.odd) > 0 {
				t.Errorf("delivery %d of %d/%d: the observer was told of %d; %v", r.DeliveryCount(), r.Partition, r.Offset, told, w.odd)
			}
			w.mu.Unlock()
			r.Ack(how)
			found := fmt.Sprintf("count %d", r.DeliveryCount())
			if withRecords {
				found += fmt.Sprintf(" %s=%s [{h %v}] %d", r.Key, r.Value, r.Headers[0].Value, r.Timestamp.UnixMilli())
			}
			want[fmt.Sprintf("%d/%d as %d", r.Partition, r.Offset, typ)] = found
		}
	}
	if err := c.FlushAcks(ctx); err != nil {
		t.Fatal(err)
	}
	c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for what, found := range want {
		if l.seen[what] != found {
			t.Errorf("%s: found %.200q, want %.200q", what, l.seen[what], found)
		}
	}
	if spans, bytes := s.delivered.Size(); spans != 0 || bytes != 0 {
		t.Errorf("%d spans and %d bytes are kept of what was settled", spans, bytes)
	}
}

// TestHostileDeliveries: whatever an answer claims to deliver, it passes as it came, and little of it is kept.
func TestHostileDeliveries(t *testing.T) {
	const ranges = 1 << 20
	r := kmsg.NewPtrShareFetchResponse()
	r.SetVersion(2)
	r.AcquisitionLockTimeoutMillis = math.MinInt32
	part := kmsg.NewShareFetchResponseTopicPartition()
	part.Records = bytes.Repeat([]byte{0xff}, 1000)
	for i := range int64(ranges) {
		a := kmsg.NewShareFetchResponseTopicPartitionAcquiredRecord()
		a.FirstOffset, a.LastOffset = (i*7919)%ranges-5, (i*104729)%ranges*i // in no order, many inverted
		part.AcquiredRecords = append(part.AcquiredRecords, a)
	}
	topic := kmsg.NewShareFetchResponseTopic()
	topic.Partitions = append(topic.Partitions, part, part)
	r.Topics = append(r.Topics, topic)
	want := reply(r, 7)
	for name, keep := range map[string]int64{"held": 1 << 30, "streamed": -1} {
		t.Run(name, func(t *testing.T) {
			chain, err := policy.NewChain(policy.Member{Policy: &looker{records: true}})
			if err != nil {
				t.Fatal(err)
			}
			s := start(t, Config{Upstream: []string{script(t, answering(func([]byte) []byte { return want }))}, Policies: chain, KeepRecords: keep}, nil)
			c := dial(t, s)
			if _, err := c.Write(shareFetch(7, 0)); err != nil {
				t.Fatal(err)
			}
			if got, err := readFrame(c); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes of %d, %v", len(got), len(want), err)
			}
			if spans, _ := s.delivered.Size(); spans == 0 || spans > 1<<13 {
				t.Errorf("%d spans", spans)
			}
		})
	}
}

// TestKeptAnswersShareRoom: answers that are held for their records never ask for more room than there is. Those that find none stream, and all arrive.
func TestKeptAnswersShareRoom(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		const n = 6
		r := kmsg.NewPtrShareFetchResponse()
		r.SetVersion(2)
		part := kmsg.NewShareFetchResponseTopicPartition()
		part.Records = bytes.Repeat([]byte{0xff}, 1<<20)
		topic := kmsg.NewShareFetchResponseTopic()
		topic.Partitions = append(topic.Partitions, part)
		r.Topics = append(r.Topics, topic)
		want := reply(r, 7)
		var begun sync.WaitGroup // all answers, before any goes on
		begun.Add(n)
		broker := script(t, func(c *net.TCPConn) {
			if _, err := readFrame(c); err != nil {
				return
			}
			_, _ = c.Write(want[:80<<10])
			begun.Done()
			begun.Wait()
			_, _ = c.Write(want[80<<10 : 1<<20])
			time.Sleep(100 * time.Millisecond) // for those that hold their answer to have most of it
			_, _ = c.Write(want[1<<20:])
			_, _ = io.Copy(io.Discard, c)
		})
		chain, err := policy.NewChain(policy.Member{Policy: &looker{records: true}})
		if err != nil {
			t.Fatal(err)
		}
		s := start(t, Config{Upstream: []string{broker}, Policies: chain, KeepRecords: 8 << 20, MaxBuffered: 5 << 20}, src)
		var clients sync.WaitGroup
		for range n {
			c := dial(t, s)
			if _, err := c.Write(shareFetch(7, 0)); err != nil {
				t.Fatal(err)
			}
			clients.Go(func() {
				if got, err := readFrame(c); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
				}
			})
		}
		clients.Wait()
		eventually(t, "held bytes given back", func() bool { return s.limits.buffered.Load() == 0 })
	})
}

// shareFetch is a ShareFetch v2 of member m of group g that acknowledges nothing.
func shareFetch(id, epoch int32) []byte {
	r := kmsg.NewPtrShareFetchRequest()
	group, member := "g", "m"
	r.GroupID, r.MemberID, r.ShareSessionEpoch = &group, &member, epoch
	return request(r, 2, id)
}

// TestDeliveriesEndWithTheConnection: that of the one which opened the session, and no other.
func TestDeliveriesEndWithTheConnection(t *testing.T) {
	for name, src := range sources {
		t.Run(name, func(t *testing.T) {
			r := kmsg.NewPtrShareFetchResponse()
			r.SetVersion(2)
			part := kmsg.NewShareFetchResponseTopicPartition()
			part.AcquiredRecords = []kmsg.ShareFetchResponseTopicPartitionAcquiredRecord{{FirstOffset: 3, LastOffset: 9, DeliveryCount: 1}}
			topic := kmsg.NewShareFetchResponseTopic()
			topic.Partitions = append(topic.Partitions, part)
			r.Topics = append(r.Topics, topic)
			chain, err := policy.NewChain(policy.Member{Policy: &looker{}})
			if err != nil {
				t.Fatal(err)
			}
			broker := script(t, answering(func(f []byte) []byte { return reply(r, idOf(f, false)) }))
			s := start(t, Config{Upstream: []string{broker}, Policies: chain}, src)
			opener, other := dial(t, s), dial(t, s)
			for i, c := range []net.Conn{opener, other} {
				if _, err := c.Write(shareFetch(int32(i), int32(i))); err != nil {
					t.Fatal(err)
				}
				if _, err := readFrame(c); err != nil {
					t.Fatal(err)
				}
			}
			other.Close()
			eventually(t, "the other connection is gone", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.conns) == 1 })
			if spans, _ := s.delivered.Size(); spans != 1 {
				t.Errorf("%d spans after the end of a connection that opened nothing", spans)
			}
			opener.Close()
			eventually(t, "what was delivered is forgotten", func() bool { spans, _ := s.delivered.Size(); return spans == 0 })
		})
	}
}
