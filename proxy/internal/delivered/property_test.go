package delivered

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// model is the plain way to know what was delivered: offset by offset.
type model map[int64]fact

type fact struct {
	count           int16
	acquired, until time.Time
	broker          string
}

const modelOffsets = 40

// deliver is what spansOf and overlay come to: of the ranges that begin first, the first one in the answer counts for an offset.
func (m model) deliver(a *Answer) {
	added := model{}
	for first := int64(0); first < modelOffsets; first++ {
		for _, r := range a.Partitions[0].Ranges {
			if r.First != first {
				continue
			}
			for o := r.First; o <= r.Last; o++ {
				if _, twice := added[o]; !twice {
					added[o] = fact{r.Count, a.At, a.At.Add(a.Lock), a.Broker}
				}
			}
		}
	}
	for o, f := range added {
		m[o] = f
	}
}

func (m model) settle(o *policy.Outcome) {
	if o.Reply.ErrorCode != 0 || o.Reply.Partitions[0].ErrorCode != 0 {
		return
	}
	for _, p := range o.Decision.Partitions[0].Pieces {
		for at := p.First; at <= p.Last && !p.Withheld; at++ {
			f, ok := m[at]
			switch {
			case !ok || f.acquired.After(o.Request.Received):
			case p.Forwarded == policy.Renew:
				if until := o.Request.Received.Add(time.Duration(o.Reply.LockTimeoutMs) * time.Millisecond); until.After(f.until) {
					f.until = until
				}
				m[at] = f
			default:
				delete(m, at)
			}
		}
	}
}

func (m model) end(broker string, before time.Time) {
	for o, f := range m {
		if f.broker == broker && !f.acquired.After(before) {
			delete(m, o)
		}
	}
}

// TestStoreAgainstModel does the same things to a store and to the model, and compares all that they know after each.
func TestStoreAgainstModel(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		now := time.Now()
		s := New(0)
		s.now = func() time.Time { return now }
		m, naive := s.Member([]byte("g"), []byte("m")), model{}
		brokers := []string{"a", "b"}
		for step := range 60 {
			now = now.Add(time.Millisecond)
			broker := brokers[rnd.IntN(2)]
			switch rnd.IntN(8) {
			case 0, 1, 2:
				a := &Answer{Broker: broker, At: now, Lock: 30 * time.Second, Partitions: []Delivery{{Partition: at, Ranges: ranges(rnd)}}}
				m.Deliver(a)
				naive.deliver(a)
			case 3, 4, 5:
				o := outcome(rnd, now.Add(-time.Duration(rnd.IntN(3))*time.Millisecond))
				m.Settle(o, broker)
				naive.settle(o)
			case 6:
				o := &policy.Outcome{Request: policy.Request{Carrier: policy.ShareAcknowledge, SessionEpoch: -1, Received: now.Add(-time.Millisecond)}}
				m.Settle(o, broker)
				naive.end(broker, o.Request.Received)
			case 7:
				m.Opened(broker, "c-1")
				m.Disconnected(broker, "c-2") // one that opened nothing
				if rnd.IntN(2) == 0 {
					m.Disconnected(broker, "c-1")
					naive.end(broker, now)
				}
			}
			m = s.Member([]byte("g"), []byte("m"))
			compare(t, m, naive)
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
		s.mu.Lock()
		sum := 0
		for _, h := range s.partitions.Keys() {
			sum += len(h.spans)
		}
		if sum != s.spans {
			t.Fatalf("seed %d: %d spans counted, there are %d", seed, s.spans, sum)
		}
		s.mu.Unlock()
	}
}

var at = Partition{codec.UUID{1}, 3}

func ranges(rnd *rand.Rand) (all []Range) {
	for range rnd.IntN(5) {
		first := int64(rnd.IntN(modelOffsets))
		all = append(all, Range{first, min(modelOffsets-1, first+int64(rnd.IntN(10))-1), int16(1 + rnd.IntN(2))})
	}
	return all
}

// outcome acknowledges runs that ascend, in all ways that there are.
func outcome(rnd *rand.Rand, received time.Time) *policy.Outcome {
	o := &policy.Outcome{
		Request:  policy.Request{Carrier: policy.ShareAcknowledge, SessionEpoch: 5, Received: received},
		Reply:    policy.Reply{LockTimeoutMs: 60_000, Partitions: []policy.PartitionResult{{TopicID: at.Topic, Partition: at.Index}}},
		Decision: &policy.Decision{Partitions: []policy.Decided{{TopicID: at.Topic, Index: at.Index}}},
	}
	switch rnd.IntN(6) {
	case 0:
		o.Reply.ErrorCode = 123
	case 1:
		o.Reply.Partitions[0].ErrorCode = 121
	}
	for first := int64(rnd.IntN(10)); first < modelOffsets; {
		p := policy.Piece{First: first, Last: first + int64(rnd.IntN(8)), Forwarded: int8(rnd.IntN(5)), Withheld: rnd.IntN(4) == 0}
		o.Decision.Partitions[0].Pieces = append(o.Decision.Partitions[0].Pieces, p)
		first = p.Last + 1 + int64(rnd.IntN(4))
	}
	return o
}

func compare(t *testing.T, m *Member, want model) {
	t.Helper()
	got := model{}
	last := int64(-1)
	for _, a := range m.Acquired(nil, at.Topic, at.Index, 0, modelOffsets) {
		if a.First <= last || a.First > a.Last {
			t.Errorf("%d to %d after %d", a.First, a.Last, last)
		}
		last = a.Last
		for o := a.First; o <= a.Last; o++ {
			got[o] = fact{a.DeliveryCount, a.Acquired, a.LockUntil, want[o].broker} // of brokers nobody is told
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("known: %v\nwant: %v", got, want)
	}
}
