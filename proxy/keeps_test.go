package proxy

import (
	"bytes"
	"context"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/policy"
)

// typedAck is a ShareAcknowledge v1 of so many offsets, which have one type each: of 1 and 2 in turn, or all 1.
func typedAck(id int32, n int, turns bool) []byte {
	types := bytes.Repeat([]byte{1}, n)
	for i := range types {
		if turns {
			types[i] += byte(i % 2)
		}
	}
	r := kmsg.NewPtrShareAcknowledgeRequest()
	group, member := "g", "m"
	r.GroupID, r.MemberID, r.ShareSessionEpoch = &group, &member, 1
	b := kmsg.NewShareAcknowledgeRequestTopicPartitionAcknowledgementBatch()
	b.LastOffset = int64(n - 1)
	for _, one := range types {
		b.AcknowledgeTypes = append(b.AcknowledgeTypes, int8(one))
	}
	part := kmsg.NewShareAcknowledgeRequestTopicPartition()
	part.AcknowledgementBatches = append(part.AcknowledgementBatches, b)
	topic := kmsg.NewShareAcknowledgeRequestTopic()
	topic.TopicID = [16]byte{1}
	topic.Partitions = append(topic.Partitions, part)
	r.Topics = append(r.Topics, topic)
	return request(r, 1, id)
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // also what pools held
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What unanswered requests keep is bounded by max_buffered: a client that pipelines large ones waits, and gets all its answers in the end.
// Others are served meanwhile.
func TestUnansweredRequestsAreBounded(t *testing.T) {
	const bound, n = 16 << 20, 40
	decides := chainOf(t, policy.FailForward, fixed{decide: func(context.Context, *policy.Request) (policy.Verdict, error) { return policy.Verdict{}, nil }})
	withholds := chainOf(t, policy.FailForward, fixed{decide: func(context.Context, *policy.Request) (policy.Verdict, error) {
		return edit(0, 10, policy.Withhold, 0), nil
	}})
	for name, c := range map[string]struct {
		chain *policy.Chain
		size  int
		turns bool
	}{
		"pieces":        {decides, 60_000, true},
		"edited pieces": {withholds, 60_000, true},
		"frames":        {nil, 2 << 20, false},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, src source) {
				answer := make(chan struct{})
				release := sync.OnceFunc(func() { close(answer) })
				defer release()
				s := start(t, Config{Upstream: []string{script(t, answering(func(f []byte) []byte {
					if idOf(f, false) < 1000 {
						<-answer
					}
					return shareAckReply(idOf(f, false), 0)
				}))}, Policies: c.chain, Observers: []policy.Observer{discard{}}, MaxBuffered: bound}, src)
				large := typedAck(0, c.size, c.turns)
				before := heapInUse()
				greedy, modest := dial(t, s), dial(t, s)
				go func() {
					for i := range byte(n) {
						large[11] = i
						if _, err := greedy.Write(large); err != nil {
							return
						}
					}
				}()
				eventually(t, "half of the room", func() bool { return s.limits.buffered.Load() > bound/2 })
				time.Sleep(200 * time.Millisecond)
				if now := heapInUse() - before; now > 2*bound {
					t.Errorf("%d MiB more on the heap", now>>20)
				}
				modest.Write(shareAck(1000, 1, 3))
				if f, err := readFrame(modest); err != nil || idOf(f, true) != 1000 {
					t.Fatal(err)
				}
				release()
				for i := range int32(n) {
					if f, err := readFrame(greedy); err != nil || idOf(f, true) != i {
						t.Fatal(i, err)
					}
				}
				eventually(t, "all given back", func() bool { return s.limits.buffered.Load() == 0 })
			})
		})
	}
}

// discard observes nothing.
type discard struct{}

func (discard) Observe(*policy.Outcome) {}

// Whatever ends a connection whose requests are unanswered, delayed, or wait for room, what they keep is given back.
func TestKeptIsGivenBack(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		for name, verdict := range map[string]policy.Verdict{"unanswered": {}, "delayed": {DelayForward: time.Hour}} {
			chain := chainOf(t, policy.FailForward, fixed{decide: func(context.Context, *policy.Request) (policy.Verdict, error) { return verdict, nil }})
			s := start(t, Config{Upstream: []string{script(t, func(c *net.TCPConn) { io.Copy(io.Discard, c) })}, Policies: chain, MaxBuffered: 16 << 20}, src)
			c := dial(t, s)
			go func() {
				for i := range int32(20) {
					if _, err := c.Write(typedAck(i, 60_000, true)); err != nil {
						return
					}
				}
			}()
			least := int64(3 << 20)
			if verdict.DelayForward == 0 {
				least = 8 << 20
			}
			eventually(t, name, func() bool { return s.limits.buffered.Load() > least })
			s.mu.Lock()
			for c := range s.conns {
				go c.fail(errClosed)
			}
			s.mu.Unlock()
			eventually(t, name+", given back", func() bool { return s.open() == 0 && s.limits.buffered.Load() == 0 })
		}
	})
}

// A request that would keep more than there is closes its connection, as one does that is held whole.
func TestNoRoomToKeep(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		chain := chainOf(t, policy.FailForward, fixed{decide: func(context.Context, *policy.Request) (policy.Verdict, error) { return policy.Verdict{}, nil }})
		s := start(t, Config{Upstream: []string{script(t, answering(echo))}, Policies: chain, MaxBuffered: 1 << 20}, src)
		c := dial(t, s)
		go c.Write(typedAck(1, 60_000, true))
		if p, err := closedBy(c); err != nil || len(p) > 0 {
			t.Fatal(len(p), err)
		}
		eventually(t, "counted", func() bool { return testutil.ToFloat64(s.metrics.ended.WithLabelValues("buffer_limit")) == 1 })
		eventually(t, "given back", func() bool { return s.limits.buffered.Load() == 0 })
	})
}
