package audit

import (
	"fmt"
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

func randomAlternating(n int) codec.AckBatch {
	types := make([]int8, n)
	for i := range types {
		types[i] = int8(1 + i%2)
	}
	return batch(0, int64(n-1), types...)
}

// TestMetrics: the same counts with and without a sink.
func TestMetrics(t *testing.T) {
	for name, sinks := range map[string][]Sink{"none": {{Type: None}}, "no sinks": nil, "a sink": {{Type: Writer, W: &buffer{}}}} {
		t.Run(name, func(t *testing.T) {
			reg := prometheus.NewRegistry()
			a := start(t, Config{Sinks: sinks, Registerer: reg})
			for range 3 {
				a.Observe(answered(share(t, orders(0, batch(0, 9, 1), batch(10, 10, 3), batch(11, 11, 99)), part{otherID, 1, orders(0, batch(0, 4, 2)).batches}),
					row(ordersID, 0, 0), row(otherID, 1, 121)))
			}
			refusedWhole := share(t, orders(0, batch(0, 9, 1)))
			refusedWhole.Reply.ErrorCode, refusedWhole.Request.Carrier = 123, policy.ShareFetch
			refusedWhole.Request.GroupID = nil
			a.Observe(refusedWhole)
			odd := share(t, orders(0, batch(0, 0, 1)))
			odd.Reply.ErrorCode, odd.Request.GroupID = 999, []byte("caf\xe9")
			a.Observe(odd)
			a.Observe(share(t, orders(0, batch(0, 1, 4)), orders(0, batch(0, 1, 4))))
			bad := share(t)
			bad.Kind = policy.Undecodable
			a.Observe(bad)
			stop(t, a)

			for _, c := range []struct {
				name   string
				want   float64
				labels []string // values, in the order of the names
			}{
				{"ackproxy_share_acks_total", 30, []string{"share_acknowledge", "orders", "orders.v1", "accept", "accepted"}},
				{"ackproxy_share_acks_total", 3, []string{"share_acknowledge", "orders", "orders.v1", "reject", "accepted"}},
				{"ackproxy_share_acks_total", 3, []string{"share_acknowledge", "orders", "orders.v1", "other", "accepted"}},
				{"ackproxy_share_acks_total", 15, []string{"share_acknowledge", "orders", "_unknown", "release", "refused"}},
				{"ackproxy_share_acks_total", 10, []string{"share_fetch", "_unknown", "orders.v1", "accept", "refused"}},
				{"ackproxy_share_acks_total", 2, []string{"share_acknowledge", "orders", "orders.v1", "renew", "unknown"}},
				{"ackproxy_share_ack_errors_total", 3, []string{"INVALID_RECORD_STATE", "orders", "_unknown"}},
				{"ackproxy_share_ack_errors_total", 1, []string{"INVALID_SHARE_SESSION_EPOCH", "_unknown", "orders.v1"}},
				{"ackproxy_share_ack_errors_total", 1, []string{"_other", "caf\uFFFD", "orders.v1"}},
				{"ackproxy_share_anomalies_total", 1, []string{"orders", "duplicate_ack"}},
				{"ackproxy_share_anomalies_total", 1, []string{"orders", "partition_missing_in_reply"}},
				{"ackproxy_share_anomalies_total", 1, []string{"orders", "undecodable_share_frame"}},
			} {
				if got := metric(t, reg, c.name, c.labels...); got != c.want {
					t.Errorf("%s%v is %v, want %v", c.name, c.labels, got, c.want)
				}
			}
		})
	}
}

// A range that a client has made up does not bring a counter to where it cannot move by one any more.
func TestMadeUpRange(t *testing.T) {
	reg := prometheus.NewRegistry()
	a := start(t, Config{Registerer: reg})
	for _, last := range []int64{math.MaxInt64 - 1, 0} {
		a.Observe(answered(share(t, orders(0, batch(0, last, 1))), row(ordersID, 0, 0)))
	}
	stop(t, a)
	if got := metric(t, reg, "ackproxy_share_acks_total", "share_acknowledge", "orders", "orders.v1", "accept", "accepted"); got != policy.MostCounted+1 {
		t.Errorf("%v records", got)
	}
}

// TestSeriesBound: whatever groups clients invent, and whatever topics there are, series stay below the bound.
func TestSeriesBound(t *testing.T) {
	reg := prometheus.NewRegistry()
	names := make(map[codec.UUID]string)
	a := start(t, Config{Registerer: reg, MaxSeries: 10, TopicName: func(id codec.UUID) (string, bool) { n, ok := names[id]; return n, ok }})
	for i := range 50 {
		names[codec.UUID{byte(i)}] = fmt.Sprintf("topic-%d", i)
	}
	for g := range 50 {
		for i := range 50 {
			id := codec.UUID{byte(i)}
			o := answered(share(t, part{id, 0, orders(0, batch(0, 0, 1)).batches}), row(id, 0, 0))
			o.Request.GroupID = fmt.Appendf(nil, "group-%d", g)
			a.Observe(o)
		}
	}
	stop(t, a)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "ackproxy_share_acks_total" {
			continue
		}
		sum := 0.0
		for _, m := range f.Metric {
			sum += m.Counter.GetValue()
		}
		// 10 pairs, "_other" of each of the 10 groups, and the group "_other".
		if len(f.Metric) != 21 || sum != 2500 {
			t.Errorf("%d series that sum up to %v", len(f.Metric), sum)
		}
	}
	if got := metric(t, reg, "ackproxy_share_acks_total", "share_acknowledge", "_other", "_other", "accept", "accepted"); got != 2000 {
		t.Errorf("%v records in _other", got)
	}
	if got := metric(t, reg, "ackproxy_share_acks_total", "share_acknowledge", "group-0", "_other", "accept", "accepted"); got != 40 {
		t.Errorf("%v records of group-0 in _other", got)
	}
}

// TestSharedRegisterer: two auditors at one registerer keep their logs' metrics apart and count acknowledgements once; a successor goes on
// where a closed one stopped.
func TestSharedRegisterer(t *testing.T) {
	reg := prometheus.NewRegistry()
	records := func() float64 {
		return metric(t, reg, "ackproxy_share_acks_total", "share_acknowledge", "orders", "orders.v1", "accept", "accepted")
	}
	o := answered(share(t, orders(0, batch(0, 0, 1))), row(ordersID, 0, 0))
	var b1, b2 buffer
	first := start(t, Config{Registerer: reg, Sinks: []Sink{{Type: Writer, W: &b1}}})
	second := start(t, Config{Registerer: reg, Name: "mine", Sinks: []Sink{{Type: Writer, W: &b2}}})
	first.Observe(o)
	second.Observe(o)
	stop(t, first)
	stop(t, second)
	if got := records(); got != 1 {
		t.Errorf("%v records after two auditors saw one", got)
	}
	third := start(t, Config{Registerer: reg, Sinks: []Sink{{Type: Writer, W: &b1}}})
	third.Observe(o)
	stop(t, third)
	if got := records(); got != 2 {
		t.Errorf("%v records after a restart", got)
	}
	for name, want := range map[string]float64{"audit": 6, "mine": 3} {
		if got := metric(t, reg, "ackproxy_audit_events_total", "written", name); got != want {
			t.Errorf("%s: %v events written, want %v", name, got, want)
		}
	}
}

// TestForeignMetric: a name that is taken by something else is an error, and leaves nothing registered.
func TestForeignMetric(t *testing.T) {
	reg := prometheus.NewRegistry()
	foreign := prometheus.NewGauge(prometheus.GaugeOpts{Name: "ackproxy_audit_head_seq", Help: "not ours"})
	reg.MustRegister(foreign)
	if _, err := New(Config{Registerer: reg}); err == nil {
		t.Fatal("no error")
	}
	mine := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ackproxy_audit_events_total", Help: "Audit events written, and lost."}, []string{"stream", "result"})
	if err := reg.Register(mine); err != nil {
		t.Errorf("left behind: %v", err)
	}
}
