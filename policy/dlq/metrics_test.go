package dlq

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// What somebody may want to be told of is there before it rises: a series that begins at 1 has not risen for Prometheus.
func TestSeriesFromTheStart(t *testing.T) {
	registry := prometheus.NewRegistry()
	p, err := New(t.Context(), "dlq", []byte(`{"cluster": {"bootstrap": ["127.0.0.1:1"]}, "on_failure": ["withhold"]}`), Deps{Metrics: registry})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for name, want := range map[string]int{"offsets_total": 7, "transaction_letters_total": 5, "drained_total": 3, "verdicts_total": 3,
		"partitions_over_limit_total": 3, "lost_without_dlq_total": 1, "spool_damaged_total": 1} {
		if got, err := testutil.GatherAndCount(registry, "ackproxy_dlq_"+name); err != nil || got != want {
			t.Errorf("%s: %d series, want %d, %v", name, got, want, err)
		}
	}
}
