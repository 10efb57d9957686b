package audit

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

var (
	noon     = time.Date(2026, 1, 15, 9, 21, 7, 114_392_000, time.UTC)
	ordersID = codec.UUID(bytes.Repeat([]byte{0x11}, 16))
	otherID  = codec.UUID(bytes.Repeat([]byte{0x22}, 16))
)

func topicName(id codec.UUID) (string, bool) {
	if id == ordersID {
		return "orders.v1", true
	}
	return "", false
}

// batch acknowledges first to last: one type for all, or one each.
func batch(first, last int64, types ...int8) codec.AckBatch {
	b := codec.AckBatch{FirstOffset: first, LastOffset: last}
	for _, t := range types {
		b.Types = append(b.Types, byte(t))
	}
	return b
}

// part is a partition entry.
type part struct {
	topic   codec.UUID
	index   int32
	batches []codec.AckBatch
}

// topics puts partition entries into a request, as it looks when it was decoded from a frame.
func topics(t testing.TB, parts ...part) codec.Array[codec.AckTopic] {
	t.Helper()
	m := codec.ShareAcknowledgeRequest{}
	for _, p := range parts {
		e := codec.AckPartition{PartitionIndex: p.index}
		for _, b := range p.batches {
			e.Batches.Append(b)
		}
		topic := codec.AckTopic{TopicID: p.topic}
		topic.Partitions.Append(e)
		m.Topics.Append(topic)
	}
	var read codec.ShareAcknowledgeRequest
	if o, p := read.Decode(m.Append(nil, 2), 0, 2); o != codec.Exact {
		t.Fatalf("the test's own request is %v: %v", o, p)
	}
	return read.Topics
}

func orders(index int32, batches ...codec.AckBatch) part { return part{ordersID, index, batches} }

func testConn() *policy.Conn {
	return &policy.Conn{ID: "c-17", Listener: "broker-2", BrokerID: 2, Client: "10.4.7.21:51544", Upstream: "kafka-2:9092", Opened: noon}
}

// share is an acknowledging request that was answered without an error.
func share(t testing.TB, parts ...part) *policy.Outcome {
	return &policy.Outcome{
		Request: policy.Request{
			Conn:      testConn(),
			Principal: policy.Principal{Name: "User:orders-svc", Source: "sasl:SCRAM-SHA-512", VerifiedBy: "broker"},
			Software:  "apache-kafka-java/4.4.0",
			APIKey:    79, APIVersion: 2, CorrelationID: 311, ClientID: []byte("orders-1"),
			Carrier: policy.ShareAcknowledge, Frame: []byte("frame"),
			GroupID: []byte("orders"), MemberID: []byte("m1"), SessionEpoch: 57,
			Topics: topics(t, parts...), Received: noon,
		},
		Reply: policy.Reply{Received: noon.Add(6624 * time.Microsecond), LockTimeoutMs: 30000},
	}
}

func answered(o *policy.Outcome, rows ...policy.PartitionResult) *policy.Outcome {
	o.Reply.Partitions = rows
	return o
}

func row(id codec.UUID, partition int32, code int16) policy.PartitionResult {
	return policy.PartitionResult{TopicID: id, Partition: partition, ErrorCode: code}
}

// buffer is a sink in memory.
type buffer struct {
	mu      sync.Mutex
	b       bytes.Buffer
	changed chan struct{} // closed by the next write, where somebody waits
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
	return b.b.Write(p)
}

// wait waits until the buffer holds n lines.
func (b *buffer) wait(t testing.TB, n int) {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		b.mu.Lock()
		have := bytes.Count(b.b.Bytes(), []byte("\n"))
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%d lines, still waiting for %d", have, n)
		}
	}
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// lines are the complete lines.
func (b *buffer) lines() []string {
	s := b.String()
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// fixed makes clock and ids those of the golden lines.
func fixed() seams {
	return seams{now: func() time.Time { return noon }, random: func(b []byte) {
		for i := range b {
			b[i] = byte(i + 1)
		}
	}}
}

func start(t testing.TB, cfg Config) *Auditor {
	t.Helper()
	if cfg.TopicName == nil {
		cfg.TopicName = topicName
	}
	if cfg.Instance == "" {
		cfg.Instance = "orders-7d9f"
	}
	cfg.Version = "1.4.0"
	return begin(t, cfg, fixed())
}

func begin(t testing.TB, cfg Config, s seams) *Auditor {
	t.Helper()
	a, err := build(cfg, s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func stop(t testing.TB, a *Auditor) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := a.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// settle waits until the queue is empty and its lines are with the sinks.
func settle(t testing.TB, a *Auditor) {
	t.Helper()
	for begun := time.Now(); a.Stats().Queued > 0; runtime.Gosched() {
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("still queued: %+v", a.Stats())
		}
	}
}

// audit gives outcomes to a new auditor and returns what it wrote between start and stop.
func audit(t testing.TB, outcomes ...*policy.Outcome) (lines []string, events []*Event) {
	t.Helper()
	var out buffer
	a := start(t, Config{Sinks: []Sink{{Type: Writer, W: &out}}})
	for _, o := range outcomes {
		a.Observe(o)
	}
	stop(t, a)
	all := out.lines()
	for i, l := range all {
		e, err := ParseLine([]byte(l))
		if err != nil {
			t.Fatalf("line %d: %v\n%s", i, err, l)
		}
		if e.Stream.Seq != uint64(i+1) {
			t.Fatalf("line %d has sequence number %d", i, e.Stream.Seq)
		}
		if len(l) >= maxLine {
			t.Fatalf("line %d is %d bytes long", i, len(l))
		}
		events = append(events, e)
	}
	if n := len(events); n < 2 || events[0].Control == nil || events[0].Control.Kind != "start" ||
		events[n-1].Control == nil || events[n-1].Control.Kind != "stop" {
		t.Fatalf("not between start and stop:\n%s", out.String())
	}
	return all[1 : len(all)-1], events[1 : len(events)-1]
}

// metric is the value of a series, labels in the order of their names; 0 where there is none.
func metric(t testing.TB, reg *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.Metric {
			same := len(m.Label) == len(labels)
			for i := 0; same && i < len(labels); i++ {
				same = m.Label[i].GetValue() == labels[i]
			}
			if same && m.Counter != nil {
				return m.Counter.GetValue()
			}
			if same {
				return m.Gauge.GetValue()
			}
		}
	}
	return 0
}

func pid() string { return strconv.Itoa(os.Getpid()) }
