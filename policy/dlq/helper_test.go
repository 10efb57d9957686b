package dlq

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// rig is a policy before a fake cluster.
type rig struct {
	t       testing.TB
	cluster *kfake.Cluster
	policy  *Policy
	state   string
	config  map[string]any
	notices notices
	kept    records
	topic   codec.UUID
	limit   time.Duration // of a decision
	read    []kgo.Opt     // how to log in, for those who read letters
	ahead   atomic.Int64  // of the policy's clock, in nanoseconds
}

// notices are what the policy said.
type notices struct {
	mu  sync.Mutex
	all []string
}

func (n *notices) add(s string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, s)
}

func (n *notices) has(part string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Contains(strings.Join(n.all, "\n"), part)
}

// records are a policy.Records by offset.
type records map[int64]policy.Record

func (r records) Record(_ codec.UUID, _ int32, offset int64) (policy.Record, error) {
	if one, ok := r[offset]; ok {
		return one, nil
	}
	return policy.Record{}, policy.ErrNotKept
}

// newRig starts a cluster with a topic orders and a dead-letter topic, and no policy yet.
func newRig(t testing.TB, opts ...kfake.Opt) *rig {
	t.Helper()
	opts = append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(3, "orders", "dlq.orders")}, opts...)
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r := &rig{t: t, cluster: c, state: t.TempDir(), kept: records{}, limit: 10 * time.Second}
	r.topic = codec.UUID(c.TopicInfo("orders").TopicID)
	r.config = map[string]any{"cluster": r.address(), "budget": "500ms"}
	return r
}

func (r *rig) address() map[string]any { return map[string]any{"bootstrap": r.cluster.ListenAddrs()} }

// start makes the policy, with further keys of configuration.
func (r *rig) start(further map[string]any) {
	r.t.Helper()
	maps.Copy(r.config, further)
	text, err := json.Marshal(r.config)
	if err != nil {
		r.t.Fatal(err)
	}
	r.policy, err = New(r.t.Context(), "dlq", text, Deps{StateDir: r.state, Notify: r.notices.add, Now: r.now, Transactions: true,
		Deliveries: true})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { r.policy.Close() })
}

// now is the policy's time, which is ahead of others' once a test wants that.
func (r *rig) now() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }

// keep has n records pass by.
func (r *rig) keep(n int64) {
	for o := range n {
		r.kept[o] = policy.Record{Offset: o, Timestamp: 1_700_000_000_000 + o, Key: []byte("k"), Value: []byte{byte('a' + o)},
			Headers: []policy.RecordHeader{{Key: "h", Value: []byte("orig")}}}
	}
}

// request rejects and accepts offsets of partition 1, delivered count times each.
func (r *rig) request(count int16, ranges ...policy.Range) *policy.Request {
	p := policy.Partition{TopicID: r.topic, Topic: "orders", Index: 1, Ranges: ranges}
	if count > 0 {
		p.Acquired = []policy.Acquisition{{First: ranges[0].First, Last: ranges[len(ranges)-1].Last, DeliveryCount: count,
			Acquired: r.now(), LockUntil: r.now().Add(30 * time.Second)}}
	}
	return &policy.Request{Conn: &policy.Conn{ID: "c-1"}, CorrelationID: 7, Principal: policy.Principal{Name: "User:alice"},
		GroupID: []byte("g1"), MemberID: []byte("m1"), ClientID: []byte("app"), Carrier: policy.ShareAcknowledge,
		Partitions: []policy.Partition{p}, Records: r.kept}
}

func reject(first, last int64) policy.Range {
	return policy.Range{First: first, Last: last, Type: policy.Reject}
}
func accept(first, last int64) policy.Range {
	return policy.Range{First: first, Last: last, Type: policy.Accept}
}
func release(first, last int64) policy.Range {
	return policy.Range{First: first, Last: last, Type: policy.Release}
}

func (r *rig) decide(q *policy.Request) policy.Verdict {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), r.limit)
	defer cancel()
	v, err := r.policy.Decide(ctx, q)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

// consume reads a topic from its beginning until enough is there, which it is told of all that has come; it fails when that never is.
func (r *rig) consume(topic string, enough func([]*kgo.Record) bool) []*kgo.Record {
	r.t.Helper()
	cl, err := kgo.NewClient(append(r.read, kgo.SeedBrokers(r.cluster.ListenAddrs()...), kgo.ConsumeTopics(topic),
		kgo.FetchMaxWait(100*time.Millisecond))...)
	if err != nil {
		r.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	var all []*kgo.Record
	for !enough(all) {
		all = append(all, cl.PollFetches(ctx).Records()...)
		if ctx.Err() != nil {
			r.t.Fatalf("%d dead letters in %s are not enough", len(all), topic)
		}
	}
	return all
}

// letters reads n dead letters; it fails when there are fewer, or more.
func (r *rig) letters(topic string, n int) []*kgo.Record {
	r.t.Helper()
	all := r.consume(topic, func(all []*kgo.Record) bool { return len(all) >= n })
	if len(all) > n {
		r.t.Fatalf("%d dead letters in %s instead of %d", len(all), topic, n)
	}
	return all
}

func header(r *kgo.Record, key string) string {
	value := "(none)"
	for _, h := range r.Headers {
		if h.Key == key {
			value = string(h.Value)
		}
	}
	return value
}

// until waits for something that another goroutine does.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

var codecZero codec.UUID

// distinct reads until n letters with different ids are there, and returns the ids in the order that each was seen first.
func (r *rig) distinct(topic string, n int) []string {
	r.t.Helper()
	var ids []string
	r.consume(topic, func(all []*kgo.Record) bool {
		ids = ids[:0]
		for _, l := range all {
			if id := header(l, "ackproxy.dlq.id"); !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		return len(ids) >= n
	})
	return ids
}

// incompressible are n bytes.
func incompressible(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}
