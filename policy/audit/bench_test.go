package audit

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ackproxy/ackproxy/policy"
)

func benchOutcome(b *testing.B) *policy.Outcome {
	o := share(b, orders(4, batch(1040, 1047, 1)))
	o.Request.Frame = make([]byte, 120)
	return answered(o, row(ordersID, 4, 0))
}

// BenchmarkFormat is one event of one range: joined, formatted, counted; written to nowhere.
func BenchmarkFormat(b *testing.B) {
	a := benchAuditor(b, Sink{Type: Writer, W: discard{}})
	o := benchOutcome(b)
	w := benchWriter(a)
	b.ReportAllocs()
	for b.Loop() {
		w.outcome(o)
	}
}

// BenchmarkFormatRuns is a Java type array of 64 offsets in 21 runs.
func BenchmarkFormatRuns(b *testing.B) {
	a := benchAuditor(b, Sink{Type: Writer, W: discard{}})
	types := make([]int8, 64)
	for i := range types {
		types[i] = policy.Accept
		if i%3 == 0 && i < 60 {
			types[i] = policy.Reject
		}
	}
	o := answered(share(b, orders(4, batch(0, 63, types...))), row(ordersID, 4, 0))
	w := benchWriter(a)
	b.ReportAllocs()
	for b.Loop() {
		w.outcome(o)
	}
}

// BenchmarkMetricsOnly is the same event without a sink.
func BenchmarkMetricsOnly(b *testing.B) {
	a := benchAuditor(b)
	o := benchOutcome(b)
	w := benchWriter(a)
	b.ReportAllocs()
	for b.Loop() {
		w.outcome(o)
	}
}

// BenchmarkObserve is the price on the connection's goroutine, with a file sink behind it, of events that are queued.
func BenchmarkObserve(b *testing.B) {
	a := benchAuditor(b, Sink{Type: File, Path: filepath.Join(b.TempDir(), "audit.log")})
	o := benchOutcome(b)
	b.ReportAllocs()
	for i := range b.N {
		if i%1000 == 999 { // far below what the queue holds
			b.StopTimer()
			settle(b, a)
			b.StartTimer()
		}
		a.Observe(o)
	}
	b.ReportMetric(float64(a.Stats().Dropped), "dropped")
}

// BenchmarkObserveFull is the same price when the queue is full: the event is counted and dropped.
func BenchmarkObserveFull(b *testing.B) {
	v := newValve()
	a := benchAuditor(b, Sink{Type: Writer, W: v})
	b.Cleanup(func() { close(v.open) })
	<-v.entered
	o := benchOutcome(b)
	for a.Stats().Dropped == 0 {
		a.Observe(o)
	}
	b.ReportAllocs()
	for b.Loop() {
		a.Observe(o)
	}
}

// BenchmarkDrain is what the whole way takes, queue to file, as fast as it goes.
func BenchmarkDrain(b *testing.B) {
	a := benchAuditor(b, Sink{Type: File, Path: filepath.Join(b.TempDir(), "audit.log")})
	o := benchOutcome(b)
	b.ReportAllocs()
	for i := range b.N {
		if i%10000 == 9999 {
			settle(b, a)
		}
		a.Observe(o)
	}
	settle(b, a)
	b.ReportMetric(float64(a.Stats().Dropped), "dropped")
}

// BenchmarkFile50k offers 50,000 events a second to a file. Nothing may be dropped.
func BenchmarkFile50k(b *testing.B) {
	a := benchAuditor(b, Sink{Type: File, Path: filepath.Join(b.TempDir(), "audit.log")})
	o := benchOutcome(b)
	begin, n := time.Now(), 0
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	b.ReportAllocs()
	for range b.N {
		for n%50 == 0 && time.Since(begin) < time.Duration(n)*20*time.Microsecond {
			<-tick.C
		}
		a.Observe(o)
		n++
	}
	b.ReportMetric(float64(n)/time.Since(begin).Seconds(), "events/s")
	if n := a.Stats().Dropped; n > 0 {
		b.Errorf("%d events dropped", n)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func benchAuditor(b *testing.B, sinks ...Sink) *Auditor {
	a, err := New(Config{Sinks: sinks, TopicName: topicName, Instance: "orders-7d9f", Registerer: prometheus.NewRegistry()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { stop(b, a) })
	return a
}

// benchWriter is a writer like the auditor's, for the calling goroutine.
func benchWriter(a *Auditor) *writer {
	cfg := Config{TopicName: topicName, Instance: "orders-7d9f"}
	return newWriter(cfg, a, a.writer.outs, seams{now: time.Now, random: func([]byte) {}})
}

// BenchmarkFormatUnedited is the event of BenchmarkFormat where policies were asked and let everything pass.
func BenchmarkFormatUnedited(b *testing.B) {
	o := benchOutcome(b)
	benchDecision(b, o, piece(1040, 1047, 1))
}

// BenchmarkFormatEdited is the two events of a partition that was edited.
func BenchmarkFormatEdited(b *testing.B) {
	benchDecision(b, both(four(b, 0)), both(four(b, 0)).Decision.Partitions[0].Pieces...)
}

func benchDecision(b *testing.B, o *policy.Outcome, pieces ...policy.Piece) {
	a := benchAuditor(b, Sink{Type: Writer, W: discard{}})
	decided(o, pieces...)
	w := benchWriter(a)
	b.ReportAllocs()
	for b.Loop() {
		w.outcome(o)
	}
}
