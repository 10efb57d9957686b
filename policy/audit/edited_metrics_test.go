package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ackproxy/ackproxy/policy"
)

// TestEditMetrics: acknowledgements are counted by the type that was asked and by what became of them, edits by policy; with and without a sink.
func TestEditMetrics(t *testing.T) {
	for name, sinks := range map[string][]Sink{"no sinks": nil, "a sink": {{Type: Writer, W: &buffer{}}}} {
		t.Run(name, func(t *testing.T) {
			reg := prometheus.NewRegistry()
			a := start(t, Config{Sinks: sinks, Registerer: reg})
			a.Observe(both(four(t, 0)))
			closed := lost(both(four(t, 0)))
			closed.Decision.Close = policy.CloseBefore
			a.Observe(closed)
			missing := both(four(t, 0))
			missing.Reply.Partitions = nil
			a.Observe(missing)
			for i := range 2 * maxPolicies {
				a.Observe(decided(four(t, 0), piece(10, 19, 1), changedPiece(20, 24, 3, 2, fmt.Sprint("p", i), "")))
			}
			stop(t, a)
			const acks, edits = "ackproxy_share_acks_total", "ackproxy_policy_edits_total"
			for _, c := range []struct {
				name   string
				want   float64
				labels []string
			}{
				{acks, 10 + 10*2*maxPolicies, []string{"share_acknowledge", "orders", "orders.v1", "accept", "accepted"}},
				{acks, 3 + 5*2*maxPolicies, []string{"share_acknowledge", "orders", "orders.v1", "reject", "accepted"}},
				{acks, 10, []string{"share_acknowledge", "orders", "orders.v1", "accept", "not_sent"}},
				{acks, 2 + 5 + 2, []string{"share_acknowledge", "orders", "orders.v1", "reject", "not_sent"}},
				{acks, 3, []string{"share_acknowledge", "orders", "orders.v1", "reject", "unknown"}},
				{acks, 0, []string{"share_acknowledge", "orders", "orders.v1", "release", "accepted"}},
				{edits, 6, []string{"change", "retry"}},
				{edits, 4, []string{"withhold", "dlq"}},
				{edits, 5, []string{"change", "p0"}},
				{edits, 5 * (maxPolicies + 2), []string{"change", "_other"}}, // retry and dlq have a place each
				{"ackproxy_share_anomalies_total", 1, []string{"orders", "partition_missing_in_reply"}},
			} {
				if got := metric(t, reg, c.name, c.labels...); got != c.want {
					t.Errorf("%s%v is %v, want %v", c.name, c.labels, got, c.want)
				}
			}
		})
	}
}

// TestDecisionCost: a decision takes room in the queue, with its texts.
func TestDecisionCost(t *testing.T) {
	v := newValve()
	a := start(t, Config{Sinks: []Sink{{Type: Writer, W: v}}})
	<-v.entered
	cost := func(o *policy.Outcome) int64 {
		before := a.Stats().QueuedBytes
		a.Observe(o)
		return a.Stats().QueuedBytes - before
	}
	plain, small, large := cost(four(t, 0)), both(four(t, 0)), both(four(t, 0))
	large.Decision.Partitions[0].Pieces = slices.Repeat(large.Decision.Partitions[0].Pieces, 10)
	large.Decision.Trail = []policy.Step{{Reason: strings.Repeat("x", 1000)}}
	if a, b := cost(small)-plain, cost(large)-plain; a <= 0 || b < 9*a/2+1000 {
		t.Errorf("decisions cost %d and %d", a, b)
	}
	close(v.open)
	stop(t, a)
}
