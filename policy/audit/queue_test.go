package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ackproxy/ackproxy/policy"
)

// valve is a sink that blocks while it is shut.
type valve struct {
	buffer
	open    chan struct{} // closed: open
	entered chan struct{} // closed with the first write
	once    sync.Once
}

func newValve() *valve { return &valve{open: make(chan struct{}), entered: make(chan struct{})} }

func (v *valve) Write(p []byte) (int, error) {
	v.once.Do(func() { close(v.entered) })
	<-v.open
	return v.buffer.Write(p)
}

// TestStalledSink: while the sink stands still nobody waits, and what is observed is written, or dropped and counted exactly, in its place.
func TestStalledSink(t *testing.T) {
	const observers, each = 8, 400
	v := newValve()
	reg := prometheus.NewRegistry()
	var reports []error // by the writing goroutine; read after it has ended
	a := start(t, Config{Sinks: []Sink{{Type: Writer, W: v}}, QueueBytes: 100 << 10, Registerer: reg,
		OnError: func(err error) { reports = append(reports, err) }})
	<-v.entered // the start event is being written: from here on the writer is stuck

	var wg sync.WaitGroup
	for n := range observers {
		wg.Go(func() {
			for i := range each {
				o := share(t, orders(0, batch(int64(i), int64(i), 1)), orders(1, batch(0, 0, 1)), orders(1, batch(0, 0, 2)))
				o.Request.GroupID = fmt.Appendf(nil, "group-%d", n)
				o.Request.CorrelationID = int32(i)
				if i%10 == 0 {
					o.Kind = policy.Undecodable
				}
				a.Observe(o)
			}
		})
	}
	wg.Wait() // with a sink that does not move: Observe did not wait for it
	s := a.Stats()
	if s.QueuedBytes > 100<<10 || s.Dropped == 0 || s.Queued == 0 {
		t.Fatalf("after a stall: %+v", s)
	}
	if got := metric(t, reg, "ackproxy_audit_queue_bytes", "audit"); got != float64(s.QueuedBytes) {
		t.Errorf("queue gauge %v, want %d", got, s.QueuedBytes)
	}
	close(v.open)
	stop(t, a)

	acks, bad, lost, gaps := count(t, v.lines())
	wantAcks, wantBad := uint64(observers*each*9/10*2), uint64(observers*each/10)
	if acks+lost["share.ack"] != wantAcks || bad+lost["share.undecodable"] != wantBad {
		t.Errorf("share.ack: %d written + %d lost, want %d; share.undecodable: %d + %d, want %d",
			acks, lost["share.ack"], wantAcks, bad, lost["share.undecodable"], wantBad)
	}
	if len(reports) != 1 || !strings.Contains(reports[0].Error(), "queue was full") {
		t.Errorf("reports: %v", reports)
	}
	s = a.Stats()
	if s.Queued != 0 || s.QueuedBytes != 0 || s.Dropped != lost["share.ack"]+lost["share.undecodable"] || gaps == 0 {
		t.Errorf("at the end: %+v, %d gaps", s, gaps)
	}
	if got := metric(t, reg, "ackproxy_audit_events_total", "written", "audit"); got != float64(s.Written) || s.Written != uint64(len(v.lines())) {
		t.Errorf("%v events written in the metric, %d in Stats, %d lines", got, s.Written, len(v.lines()))
	}
	if got := metric(t, reg, "ackproxy_audit_events_total", "dropped", "audit"); got != float64(s.Dropped) {
		t.Errorf("%v events dropped in the metric, want %d", got, s.Dropped)
	}
	if got := metric(t, reg, "ackproxy_audit_head_seq", "audit"); got != float64(len(v.lines())) {
		t.Errorf("head sequence %v after %d lines", got, len(v.lines()))
	}
}

// count sums written and lost events by type, and checks sequence numbers and gaps on the way.
func count(t *testing.T, lines []string) (acks, bad uint64, lost map[string]uint64, gaps int) {
	t.Helper()
	lost = make(map[string]uint64)
	for i, l := range lines {
		e, err := ParseLine([]byte(l))
		if err != nil {
			t.Fatal(err)
		}
		if e.Stream.Seq != uint64(i+1) {
			t.Fatalf("line %d has number %d", i+1, e.Stream.Seq)
		}
		switch {
		case e.Type == "share.ack":
			acks++
		case e.Type == "share.undecodable":
			bad++
		case e.Control.Kind == "gap":
			gaps++
			if e.Control.From.IsZero() || e.Control.To.Before(e.Control.From) || len(e.Control.Groups) == 0 {
				t.Errorf("gap %+v", e.Control)
			}
			for typ, n := range e.Control.Lost {
				lost[typ] += n
			}
		}
	}
	return acks, bad, lost, gaps
}

// TestGapInPlace: what was dropped shows between what was queued before and what was observed after, as soon as there is room.
func TestGapInPlace(t *testing.T) {
	v := newValve()
	a := start(t, Config{Sinks: []Sink{{Type: Writer, W: v}}, QueueBytes: 4 * (itemCost + rowCost + 5)})
	<-v.entered
	var seen []*policy.Outcome
	for i := range 20 {
		o := answered(share(t, orders(0, batch(int64(i), int64(i), 1))), row(ordersID, 0, 0))
		o.Request.Received = noon.Add(time.Duration(i) * time.Second)
		o.Reply.Received = o.Request.Received
		o.Request.GroupID = fmt.Appendf(nil, "group-%02d", i)
		seen = append(seen, o)
		a.Observe(o)
	}
	if s := a.Stats(); s.Queued != 4+1 || s.Dropped != 16 { // the start event is in flight
		t.Fatalf("%+v", s)
	}
	close(v.open)
	v.wait(t, 6) // the gap comes without a further event
	a.Observe(seen[0])
	stop(t, a)

	lines := v.lines()
	if len(lines) != 1+4+1+1+1 {
		t.Fatalf("%d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	e, err := ParseLine([]byte(lines[5]))
	if err != nil {
		t.Fatal(err)
	}
	c := e.Control
	if c == nil || c.Kind != "gap" || c.Reason != "queue_full" || c.Lost["share.ack"] != 16 || len(c.Lost) != 1 {
		t.Fatalf("%s", lines[5])
	}
	if !c.From.Equal(seen[4].Request.Received) || !c.To.Equal(seen[19].Request.Received) {
		t.Errorf("from %v to %v", c.From, c.To)
	}
	if len(c.Groups) != maxGroups || c.GroupsTruncated || c.Groups[0] != "group-04" {
		t.Errorf("groups %q, truncated %v", c.Groups, c.GroupsTruncated)
	}
}

// TestLargeOutcome: a frame larger than the queue is audited when the queue is otherwise empty: its bytes exist already.
func TestLargeOutcome(t *testing.T) {
	v := newValve()
	a := start(t, Config{Sinks: []Sink{{Type: Writer, W: v}}, QueueBytes: 1000})
	<-v.entered
	large := share(t, orders(0, batch(0, 0, 1)))
	large.Request.Frame = make([]byte, 5000)
	a.Observe(large)
	a.Observe(large)
	if s := a.Stats(); s.Dropped != 1 || s.QueuedBytes != itemCost+5000 {
		t.Errorf("%+v", s)
	}
	close(v.open)
	stop(t, a)
}

// TestCloseGivesUp: a sink that never moves does not hold up the end for longer than the context lasts.
func TestCloseGivesUp(t *testing.T) {
	v := newValve()
	a := start(t, Config{Sinks: []Sink{{Type: Writer, W: v}}})
	<-v.entered
	a.Observe(share(t, orders(0, batch(0, 0, 1))))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := a.Close(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "2 outcomes") {
		t.Errorf("%v", err)
	}
	a.Observe(share(t, orders(0, batch(0, 0, 1))))
	if s := a.Stats(); s.Dropped != 1 {
		t.Errorf("observed after the close: %+v", s)
	}
	close(v.open)
	<-a.done
	if n := bytes.Count([]byte(v.String()), []byte("\n")); n != 1 {
		t.Errorf("%d lines were written, want the one that was under way", n)
	}
}
