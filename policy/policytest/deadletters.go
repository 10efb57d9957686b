package policytest

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// OpenDeadLetters makes a dead-letter policy of a configuration, as JSON, that has its state in a directory; empty is none.
type OpenDeadLetters func(t *testing.T, config, state string) (policy.Policy, io.Closer, error)

// DeadLetters tests the dead-letter policy.
func DeadLetters(t *testing.T, open OpenDeadLetters) {
	t.Run("letters", func(t *testing.T) { letters(t, open) })
	t.Run("failure", func(t *testing.T) { letterFailure(t, open) })
	t.Run("spool", func(t *testing.T) { letterSpool(t, open) })
	t.Run("mistakes", func(t *testing.T) { letterMistakes(t, open) })
}

// letterbox is a fake cluster with a topic orders and one for its dead letters.
type letterbox struct {
	t       *testing.T
	cluster *kfake.Cluster
	kept    shelf
}

// shelf has records by offset, those of partition 1 of orders.
type shelf map[int64]policy.Record

// Record finds a record of partition 1; the others have none.
func (s shelf) Record(_ codec.UUID, partition int32, offset int64) (policy.Record, error) {
	if r, ok := s[offset]; ok && partition == 1 {
		return r, nil
	}
	return policy.Record{}, policy.ErrNotKept
}

func newLetterbox(t *testing.T) *letterbox {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "orders", "dlq.orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	large := strings.Repeat("0123456789abcdef", 3<<16) // more than one chunk on its way to a plugin
	return &letterbox{t, c, shelf{
		0: {Offset: 0, Timestamp: 1_700_000_000_000, Key: []byte("k\xff"), Value: []byte("v"), Headers: []policy.RecordHeader{{Key: "h", Value: []byte{0}}, {Key: "n"}}},
		1: {Offset: 1, Timestamp: 1_700_000_000_001, Value: []byte{}},
		2: {Offset: 2, Timestamp: 7, Key: []byte{}},
		3: {Offset: 3, Timestamp: 8, Value: []byte(large)},
	}}
}

// down has the cluster refuse dead letters until up is called.
func (b *letterbox) down() (up func()) {
	return b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1}).Remove
}

// config is a configuration with more keys, as JSON.
func (b *letterbox) config(more string) string {
	at, err := json.Marshal(b.cluster.ListenAddrs())
	if err != nil {
		b.t.Fatal(err)
	}
	return fmt.Sprintf(`{"cluster": {"bootstrap": %s}, "timestamp": "original"%s}`, at, more)
}

// reject asks p about a rejection of the offsets 0 to last of partition 1, whose records were delivered count times.
func (b *letterbox) reject(p policy.Policy, last int64, count int16) (policy.Verdict, error) {
	now := time.Now()
	r := &policy.Request{Conn: &policy.Conn{ID: "c-1", Opened: now}, CorrelationID: 7, Principal: policy.Principal{Name: "User:alice"}, GroupID: []byte("billing"),
		MemberID: []byte("m1"), ClientID: []byte("app"), Carrier: policy.ShareAcknowledge, SessionEpoch: 3, Records: b.kept, Received: now}
	r.Partitions = []policy.Partition{{TopicID: b.cluster.TopicInfo("orders").TopicID, Topic: "orders", Index: 1,
		Ranges:   []policy.Range{{First: 0, Last: last, Type: policy.Reject}},
		Acquired: []policy.Acquisition{{First: 0, Last: last, DeliveryCount: count, Acquired: now, LockUntil: now.Add(time.Minute)}}}}
	return p.Decide(within(b.t), r)
}

// read reads n dead letters. One that was produced late and from the spool as well is there twice, with the same id, and counts once.
func (b *letterbox) read(n int) (all []*kgo.Record) {
	b.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.cluster.ListenAddrs()...), kgo.ConsumeTopics("dlq.orders"), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		b.t.Fatal(err)
	}
	defer cl.Close()
	ctx := within(b.t)
	for len(all) < n {
		for _, r := range cl.PollFetches(ctx).Records() {
			if !slices.ContainsFunc(all, func(l *kgo.Record) bool { return id(l) == id(r) }) {
				all = append(all, r)
			}
		}
		if ctx.Err() != nil {
			b.t.Fatalf("%d of %d dead letters", len(all), n)
		}
	}
	return all
}

func id(r *kgo.Record) string {
	for _, h := range r.Headers {
		if h.Key == "ackproxy.dlq.id" {
			return string(h.Value)
		}
	}
	return ""
}

// check wants the letters of the records on the shelf, as they were, and in order; the large one, which goes a way of its own, is the last on the shelf
// and comes at any time.
func (b *letterbox) check(all []*kgo.Record) {
	b.t.Helper()
	slices.SortStableFunc(all, func(a, b *kgo.Record) int { return len(a.Value)>>20 - len(b.Value)>>20 })
	for i, l := range all {
		want := b.kept[int64(i)]
		if l.Partition != 1 || !same(l.Key, want.Key) || !same(l.Value, want.Value) || l.Timestamp.UnixMilli() != want.Timestamp {
			b.t.Errorf("letter %d: partition %d, key %q, %d bytes of value, at %v", i, l.Partition, l.Key, len(l.Value), l.Timestamp)
		}
		for j, h := range want.Headers {
			if len(l.Headers) <= j || l.Headers[j].Key != h.Key || !same(l.Headers[j].Value, h.Value) {
				b.t.Errorf("letter %d: headers %v", i, l.Headers)
			}
		}
		for _, want := range []kgo.RecordHeader{
			{Key: "ackproxy.payload", Value: []byte("full")}, {Key: "ackproxy.dlq.reason", Value: []byte("client_reject")},
			{Key: "ackproxy.principal", Value: []byte("User:alice")}, {Key: "ackproxy.audit.ref", Value: []byte("c-1/7")},
			{Key: "__dlq.errors.offset", Value: fmt.Append(nil, i)}, {Key: "__dlq.errors.group", Value: []byte("billing")},
		} {
			if !slices.ContainsFunc(l.Headers, func(h kgo.RecordHeader) bool { return h.Key == want.Key && same(h.Value, want.Value) }) {
				b.t.Errorf("letter %d has no %s of %s: %v", i, want.Key, want.Value, l.Headers)
			}
		}
	}
}

// same tells null from empty.
func same(a, b []byte) bool { return string(a) == string(b) && (a == nil) == (b == nil) }

func letters(t *testing.T, open OpenDeadLetters) {
	b := newLetterbox(t)
	p, _, err := open(t, b.config(`, "max_record": "8MiB"`), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	v, err := b.reject(p, 3, 1)
	if err != nil || len(v.Edits) != 0 || v.Reason != "dead letters: 4 produced" {
		t.Fatalf("%+v, %v", v, err)
	}
	b.check(b.read(4))
}

// letterFailure has a row for each choice of on_failure that comes first where no letter can be written.
func letterFailure(t *testing.T, open OpenDeadLetters) {
	b := newLetterbox(t)
	b.down()
	topic := codec.UUID(b.cluster.TopicInfo("orders").TopicID)
	for _, c := range []struct {
		name, choices string
		count         int16
		want          policy.Verdict
	}{
		{"release", `["release", "withhold"]`, 1, policy.Verdict{Edits: []policy.Edit{{TopicID: topic, Partition: 1, Last: 2, Action: policy.Change, Type: policy.Release}}}},
		{"release of a last delivery", `["release", "withhold"]`, 5, policy.Verdict{Edits: []policy.Edit{{TopicID: topic, Partition: 1, Last: 2, Action: policy.Withhold, ErrorCode: 56}}}},
		{"forward", `["forward"]`, 1, policy.Verdict{}},
		{"close", `["close"]`, 1, policy.Verdict{Close: policy.CloseBefore}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, closer, err := open(t, b.config(`, "budget": "100ms", "on_failure": `+c.choices), "")
			if err != nil {
				t.Fatal(err)
			}
			got, err := b.reject(p, 2, c.count)
			for i := range got.Edits {
				got.Edits[i].Reason = ""
			}
			if err != nil || !slices.Equal(got.Edits, c.want.Edits) || got.Close != c.want.Close {
				t.Errorf("%+v, %v, want %+v", got, err, c.want)
			}
			if err := closer.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// letterSpool: what was spooled is delivered by whoever has the spool next.
func letterSpool(t *testing.T, open OpenDeadLetters) {
	b, state := newLetterbox(t), t.TempDir()
	up := b.down()
	p, closer, err := open(t, b.config(`, "budget": "100ms"`), state)
	if err != nil {
		t.Fatal(err)
	}
	v, err := b.reject(p, 2, 5)
	if err != nil || len(v.Edits) != 0 || !strings.HasPrefix(v.Reason, "dead letters: 3 spooled") {
		t.Fatalf("%+v, %v", v, err)
	}
	if err := closer.Close(); err != nil {
		t.Error(err)
	}
	up()
	if _, _, err = open(t, b.config(""), state); err != nil {
		t.Fatal(err)
	}
	b.check(b.read(3))
}

func letterMistakes(t *testing.T, open OpenDeadLetters) {
	const cluster = `"cluster": {"bootstrap": ["kafka:9092"]}`
	for config, want := range map[string][]string{
		``: {"cluster.bootstrap: is missing"},
		`{` + cluster + `, "topic": "{topic}", "budgte": "2s"}`: {"budgte: ", "topic: the target would be the source"},
		`{` + cluster + `}`: {"on_failure: a spool needs a state directory"},
		`{` + cluster + `, "on_failure": ["close"], "source": {"bootstrap": ["kafka:9092"], "tls": {"ca": "/nowhere/at/all"}}}`: {"source.tls.ca: ", "no such file"},
	} {
		_, c, err := open(t, config, "")
		if err == nil {
			t.Errorf("%s is accepted", config)
			c.Close()
			continue
		}
		for _, w := range want {
			if !strings.Contains(plain(err), w) {
				t.Errorf("%s: %v\nlacks %s", config, err, w)
			}
		}
	}
}
