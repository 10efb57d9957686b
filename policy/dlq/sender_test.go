package dlq

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/dlq/letter"
)

// refuse has one topic take nothing.
func (r *rig) refuse(topic string, err *kerr.Error) {
	r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: err, Count: -1})
}

// TestLargeLettersOfOtherTopics are not kept waiting by a topic that takes none: by those that are produced to it now, and those from the spool.
func TestLargeLettersOfOtherTopics(t *testing.T) {
	r := newRig(t, kfake.SeedTopics(3, "other", "dlq.other"))
	r.refuse("dlq.orders", kerr.NotEnoughReplicas)
	r.start(map[string]any{"budget": "5s", "on_failure": []string{"spool", "withhold"}})
	for o := range int64(2) {
		r.kept[o] = policy.Record{Offset: o, Value: incompressible(2 << 20)}
	}
	stuck := r.deciding(r.request(1, reject(0, 0)))
	other := func(when string) {
		t.Helper()
		q := r.request(1, reject(1, 1))
		q.Partitions[0].Topic = "other"
		if v := r.decide(q); v.Reason != "dead letters: 1 produced" {
			t.Errorf("%s: verdict %+v", when, v)
		}
	}
	until(t, "it has its turn", func() bool { return r.policy.senders[""].turns.topics() == 1 })
	other("while another is produced")
	if v := <-stuck; !strings.HasPrefix(v.Reason, "dead letters: 1 spooled") {
		t.Fatalf("verdict %+v", v)
	}
	until(t, "it has its turn in the drainer", func() bool { return r.policy.senders[""].turns.topics() == 1 })
	other("while another is drained")
	r.policy.Close()
	until(t, "no turn is left", func() bool { return r.policy.senders[""].turns.topics() == 0 })
}

// TestTurns has one user of a topic at a time, and forgets topics that nobody uses.
func TestTurns(t *testing.T) {
	var turns turns
	if err := turns.take(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := turns.take(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := turns.take(gone, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("took what is taken: %v", err)
	}
	var took atomic.Bool
	second := make(chan error)
	go func() {
		err := turns.take(t.Context(), "a")
		took.Store(true)
		second <- err
	}()
	time.Sleep(10 * time.Millisecond)
	if took.Load() || turns.topics() != 2 {
		t.Errorf("taken twice, or %d topics", turns.topics())
	}
	turns.give("a")
	if err := <-second; err != nil {
		t.Error(err)
	}
	turns.give("a")
	if turns.give("b"); turns.topics() != 0 {
		t.Errorf("%d topics are left", turns.topics())
	}
}

// TestCost counts what is sent twice where it is sent alone.
func TestCost(t *testing.T) {
	for size, times := range map[int]int64{1000: 1, smallRecord - 1000: 1, smallRecord + 1: 2, 3 << 20: 2} {
		l := &letter.Record{Topic: "dlq.orders", Value: make([]byte, size)}
		if n := cost(l); n != times*int64(l.Size())+overhead {
			t.Errorf("%d bytes cost %d", size, n)
		}
	}
}

// TestLargestRecord: what the configuration takes can be run.
func TestLargestRecord(t *testing.T) {
	const config = `{"cluster": {"bootstrap": ["127.0.0.1:1"]}, "max_record": "512MiB", "memory": "1024GiB", "on_failure": ["withhold"]}`
	p, err := New(t.Context(), "dlq", []byte(config), Deps{})
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
}
