package audit

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// Config is all an Auditor needs. The zero value writes nowhere and registers nothing.
type Config struct {
	Name     string // the stream's label in metrics; "audit" when empty
	Instance string // which proxy this is; the host's name when empty
	Version  string // of the proxy

	Sinks      []Sink
	QueueBytes int64 // bound of the queue: frames, and a constant for each; 64 MiB when 0
	TopicName  func(codec.UUID) (name string, ok bool)

	// Registerer gets the metrics; nil keeps them to itself. Several auditors may share one: each has its own stream label, and
	// acknowledgements are counted by the first only.
	Registerer prometheus.Registerer
	// MaxSeries bounds the pairs of group and topic in metrics, 1000 when 0. Further topics become "_other", further groups as well.
	MaxSeries int

	// OnError is told about a sink that fails and about events lost to a full queue, each at most every 10 seconds. It is called on the
	// writing goroutine.
	OnError func(error)
}

// Auditor writes the audit log. Its methods are safe for concurrent use.
type Auditor struct {
	queue   *queue
	writer  *writer
	metrics *metrics
	active  bool // there are sinks
	done    chan struct{}
	giveUp  sync.Once
	now     func() time.Time
}

var _ policy.Observer = (*Auditor)(nil)

// Stats counts events. With one sink at most, and at rest, those observed are Written + Held + Dropped + what is queued.
type Stats struct {
	Written     uint64 // events whose lines the sinks took
	Held        uint64 // events whose lines wait for a sink that fails
	Dropped     uint64 // events lost: the queue was full, or a sink failed for too long
	Queued      int    // outcomes that wait or are being written
	QueuedBytes int64
	HeadSeq     uint64 // number of the last line
}

// seams are what tests replace.
type seams struct {
	now    func() time.Time
	random func([]byte)
}

// New opens the sinks, starts the writing goroutine and logs the start. An error leaves nothing behind.
func New(cfg Config) (*Auditor, error) {
	return build(cfg, seams{now: time.Now, random: func(b []byte) { rand.Read(b) }})
}

func build(cfg Config, s seams) (*Auditor, error) {
	if err := CheckSinks(cfg.Sinks); err != nil {
		return nil, err
	}
	cfg.fill()
	m, err := newMetrics(cfg)
	if err != nil {
		return nil, err
	}
	outs, err := openAll(cfg)
	if err != nil {
		m.unregister()
		return nil, err
	}
	a := &Auditor{
		queue: newQueue(cfg.QueueBytes, m.queueBytes), metrics: m, active: len(outs) > 0,
		done: make(chan struct{}), now: s.now,
	}
	a.writer = newWriter(cfg, a, outs, s)
	a.Control("start", Field{"sinks", sinkNames(cfg.Sinks)}, Field{"pid", os.Getpid()})
	go a.writer.run()
	return a, nil
}

func (c *Config) fill() {
	if c.Name == "" {
		c.Name = "audit"
	}
	if c.Instance == "" {
		c.Instance, _ = os.Hostname()
	}
	if c.QueueBytes <= 0 {
		c.QueueBytes = 64 << 20
	}
	if c.MaxSeries <= 0 {
		c.MaxSeries = 1000
	}
}

func openAll(cfg Config) (outs []*output, err error) {
	for _, s := range cfg.Sinks {
		if s.Type == None {
			continue
		}
		out, err := openSink(s)
		if err != nil {
			for _, o := range outs {
				o.close()
			}
			return nil, err
		}
		out.onError = cfg.OnError
		outs = append(outs, out)
	}
	return outs, nil
}

func sinkNames(sinks []Sink) []string {
	names := []string{}
	for _, s := range sinks {
		names = append(names, s.String())
	}
	return names
}

// streamID names this process's run: no other has the same.
func streamID(instance string, random func([]byte)) string {
	var b [4]byte
	random(b[:])
	return instance + "/" + hex.EncodeToString(b[:])
}

// What an outcome costs in the queue beside its frame: itself with its place in the ring, and the rows of its reply, in bytes.
const (
	itemCost = 640
	rowCost  = 64
)

// Observe queues what the outcome has to say, and returns. It never waits: where the queue is full the outcome's events are counted and
// dropped. Requests that acknowledge nothing and close no session say nothing.
func (a *Auditor) Observe(o *policy.Outcome) {
	cost := itemCost + int64(len(o.Request.Frame)) + rowCost*int64(len(o.Reply.Partitions)) + int64(o.Decision.Size())
	o.Retain() // the writer lets go
	if a.queue.put(item{outcome: o, cost: cost}) {
		return
	}
	o.Release()
	typ, n := eventsOf(o)
	if n == 0 {
		return
	}
	a.queue.drop(typ, n, o.Request.GroupID, eventTime(o))
	a.metrics.drop(n)
}

// eventsOf says which events an outcome makes, and how many.
func eventsOf(o *policy.Outcome) (eventType, uint64) {
	switch o.Kind {
	case policy.Undecodable:
		return shareUndecodable, 1
	case policy.AdminRequest:
		return adminRequest, 1
	case policy.CoverageGap:
		return auditControl, 1
	}
	var j joiner
	j.load(&o.Request)
	j.decide(o)
	n := j.events()
	if n == 0 && o.Request.ClosesSession() {
		return shareSession, 1
	}
	return shareAck, n
}

// Control logs an event about the log or the proxy itself: "reload", "listeners". It is never dropped for lack of room. Start and stop are
// logged by New and Close.
func (a *Auditor) Control(kind string, fields ...Field) {
	if a.active {
		a.queue.put(item{control: newControl(kind, a.now(), fields)})
	}
}

// Reopen has the lines from now on go to the files that the sinks' paths name now. It is for whoever moved the old ones away, and does not wait.
func (a *Auditor) Reopen() { a.queue.put(item{reopen: true}) }

// Close logs the stop, writes what is queued and closes the sinks, or gives up when the context ends. Its error says what was not written.
// What is observed later counts as dropped.
func (a *Auditor) Close(ctx context.Context) error {
	a.queue.close()
	select {
	case <-a.done:
		return a.writer.err
	case <-ctx.Done():
	}
	a.giveUp.Do(a.writer.giveUp)
	items, bytes := a.queue.queued()
	return fmt.Errorf("audit: closed with %d outcomes (%d bytes) not written: %w", items, bytes, context.Cause(ctx))
}

// Stats is how things stand now.
func (a *Auditor) Stats() Stats {
	w := a.writer
	s := Stats{Held: w.held.Load(), Dropped: a.metrics.droppedN.Load(), HeadSeq: w.head.Load()}
	s.Written = w.written.Load() - s.Held
	s.Queued, s.QueuedBytes = a.queue.queued()
	return s
}
