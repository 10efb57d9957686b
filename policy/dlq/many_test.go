package dlq

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/policy"
)

// TestMany has many connections reject while the cluster fails one request in three, in memory for a few letters only. Each Reject that went on has
// its letter, with its payload.
func TestMany(t *testing.T) {
	r := newRig(t)
	turn := 0
	r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1, When: func(kmsg.Request) bool {
		turn++
		return turn%3 == 0
	}})
	r.start(map[string]any{"memory": "1MiB", "max_record": "128KiB", "budget": "200ms", "create": map[string]any{"replication": 1}})
	const connections, each, size = 16, 8, 50 << 10
	value := incompressible(size)
	for o := range int64(connections * each) {
		r.kept[o] = policy.Record{Offset: o, Value: append([]byte{byte(o)}, value...)}
	}
	var rejecting sync.WaitGroup
	for c := range int64(connections) {
		rejecting.Go(func() {
			for i := range int64(each / 4) {
				first := c*each + 4*i
				if v, err := r.policy.Decide(context.Background(), r.request(1, reject(first, first+3))); err != nil || len(v.Edits) > 0 {
					t.Errorf("verdict %+v, %v", v, err)
				}
			}
		})
	}
	rejecting.Wait()
	got := r.distinct("dlq.orders", connections*each)
	if len(got) != connections*each {
		t.Errorf("%d letters", len(got))
	}
	until(t, "the spool is empty", func() bool { return len(r.spool()) == 0 })
	r.empty()
}

// TestCloseWhileDeciding gives up at once; what was rejected is withheld or spooled.
func TestCloseWhileDeciding(t *testing.T) {
	r := newRig(t)
	r.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		return nil, nil, true // never answered
	})
	r.start(map[string]any{"budget": "10s"})
	r.keep(1)
	verdicts := make(chan policy.Verdict)
	go func() {
		v, _ := r.policy.Decide(context.Background(), r.request(5, reject(0, 0)))
		verdicts <- v
	}()
	until(t, "a letter is under way", func() bool { return r.policy.room.used() > 0 })
	if err := r.policy.Close(); err != nil {
		t.Fatal(err)
	}
	if v := <-verdicts; len(v.Edits) == 0 && len(r.spool()) != 1 {
		t.Errorf("verdict %+v, and no letter", v)
	}
}

// TestClientGone ends with the context.
func TestClientGone(t *testing.T) {
	r := newRig(t)
	r.down(kerr.NotEnoughReplicas)
	r.start(map[string]any{"budget": "1m"})
	r.keep(1)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	q := r.request(5, reject(0, 0))
	q.Partitions[0].Acquired[0].LockUntil = time.Now().Add(time.Hour)
	if v, err := r.policy.Decide(ctx, q); err != nil || len(v.Edits) == 0 && len(r.spool()) == 0 {
		t.Errorf("verdict %+v, %v", v, err)
	}
}

func TestRoom(t *testing.T) {
	r := newRoom(10)
	first, err := r.take(t.Context(), 8)
	if err != nil || first != 8 {
		t.Fatal(first, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	var order []int
	var waiting sync.WaitGroup
	waits := func(n int) func() bool {
		return func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.waiting) == n }
	}
	waiting.Go(func() {
		if _, err := r.take(gone, 5); err == nil {
			t.Error("took what was not there")
		}
	})
	until(t, "one waits", waits(1))
	waiting.Go(func() { // needs little, and comes after it all the same
		if n, err := r.take(t.Context(), 1); err != nil {
			t.Error(err)
		} else {
			order = append(order, int(n))
		}
	})
	until(t, "two wait", waits(2))
	if len(order) > 0 {
		t.Error("one that came later was first")
	}
	cancel()
	waiting.Wait()
	r.give(first)
	short, done := context.WithTimeout(t.Context(), time.Millisecond)
	defer done()
	if n, err := r.take(short, 1000); err == nil {
		t.Errorf("took %d, and one byte was taken", n)
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	config := []byte(`{"cluster": {"bootstrap": ["127.0.0.1:1"]}}`)
	deps := Deps{StateDir: t.TempDir(), Metrics: registry}
	p, err := New(t.Context(), "dlq", config, deps)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), "dlq", config, deps); err == nil {
		t.Error("two policies of one name")
	}
	other, err := New(t.Context(), "other", config, deps)
	if err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
		if n := len(f.GetMetric()); n%2 != 0 {
			t.Errorf("%s has %d series for two policies", f.GetName(), n)
		}
	}
	for _, want := range []string{"offsets_total", "spool_bytes", "spool_refused", "spool_refused_bytes", "spool_usable", "lost_without_dlq_total", "breakers_open"} {
		if !slices.Contains(names, "ackproxy_dlq_"+want) {
			t.Errorf("no %s in %v", want, names)
		}
	}
	for _, one := range []*Policy{p, other} {
		if err := one.Close(); err != nil {
			t.Error(err)
		}
	}
	if families, err := registry.Gather(); err != nil || len(families) > 0 {
		t.Errorf("%d families are left, %v", len(families), err)
	}
}
