package dlq

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/policy"
)

func TestTimes(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, c := range []struct {
		left          time.Duration // of the lock
		modes         string
		count         int16
		kind          int8
		produce, late time.Duration
	}{
		{30 * s, "spool release withhold", 1, policy.Reject, 2 * s, 13 * s},
		{6 * s, "spool release withhold", 1, policy.Reject, 1500 * ms, 1500 * ms},
		{800 * ms, "spool release withhold", 1, policy.Reject, 200 * ms, 200 * ms},
		{800 * ms, "spool withhold", 4, policy.Reject, 200 * ms, 200 * ms}, // withheld, it comes again
		{100 * ms, "spool release withhold", 1, policy.Reject, 50 * ms, 50 * ms},
		{0, "spool release withhold", 1, policy.Reject, 50 * ms, 50 * ms},
		{800 * ms, "spool release withhold", 5, policy.Reject, 200 * ms, anyTime}, // lost where the spool does not take it
		{800 * ms, "spool release withhold", 0, policy.Reject, 200 * ms, anyTime}, // maybe
		{800 * ms, "spool withhold", 5, policy.Release, 200 * ms, anyTime},
		{800 * ms, "spool forward", 1, policy.Reject, 200 * ms, anyTime},
		{800 * ms, "release withhold", 1, policy.Reject, 200 * ms, 0},
		{800 * ms, "release withhold", 5, policy.Reject, 2 * s, 0}, // lost where it is not produced
		{0, "forward", 1, policy.Reject, 2 * s, 0},
	} {
		r := newRig(t)
		r.start(map[string]any{"budget": "2s", "on_failure": strings.Fields(c.modes)})
		now := time.Now()
		r.policy.deps.Now = func() time.Time { return now }
		it := &item{asked: c.kind, count: c.count, lockUntil: now.Add(c.left)}
		w := &work{policy: r.policy, request: &policy.Request{}, parts: []part{{items: []*item{it}}}, group: r.policy.groups.known("g1")}
		if produce, late := w.times(); produce != c.produce || late != c.late {
			t.Errorf("%+v: %v and %v", c, produce, late)
		}
		r.policy.Close()
	}
}

// TestLittleOfTheLock is about a source that says nothing: what is accepted in the same request is still to be in time.
func TestLittleOfTheLock(t *testing.T) {
	r := newRig(t)
	r.fill(3, kgo.NoCompression())
	r.cluster.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		return nil, nil, true // handled, without an answer
	})
	r.start(map[string]any{"source": r.address(), "budget": "2s"})
	r.policy.groups.get(t.Context(), "g1")                       // has been read
	for _, other := range []time.Duration{0, 20 * time.Second} { // of what is rejected
		until := time.Now().Add(2 * time.Second)
		q := r.request(1, accept(0, 0), reject(1, 1))
		q.Partitions[0].Acquired = []policy.Acquisition{{First: 0, Last: 0, DeliveryCount: 1, LockUntil: until},
			{First: 1, Last: 1, DeliveryCount: 1, LockUntil: until.Add(other)}}
		v := r.decide(q)
		if left := time.Until(until); left < 800*time.Millisecond {
			t.Errorf("of 2 s of the lock %v are left: %+v", left, v)
		}
	}
}

// TestLockIsOver writes the letter all the same, where that is quick.
func TestLockIsOver(t *testing.T) {
	r := newRig(t)
	r.start(map[string]any{"on_failure": []string{"release", "withhold"}})
	r.keep(2)
	r.decide(r.request(1, reject(0, 0))) // connects
	until(t, "a letter", func() bool {
		q := r.request(1, reject(1, 1))
		q.Partitions[0].Acquired[0].LockUntil = time.Now().Add(-time.Second)
		return r.decide(q).Reason == "dead letters: 1 produced"
	})
}

// TestLastDeliveryBeforeTheLock waits for a letter that is the last chance of a record, and no longer.
func TestLastDeliveryBeforeTheLock(t *testing.T) {
	for _, count := range []int16{1, 5} {
		r := newRig(t)
		up := r.down(kerr.NotEnoughReplicas)
		r.start(map[string]any{"budget": "10s", "on_failure": []string{"release", "withhold"}})
		r.keep(1)
		q := r.request(count, reject(0, 0))
		q.Partitions[0].Acquired[0].LockUntil = time.Now().Add(400 * time.Millisecond)
		time.AfterFunc(500*time.Millisecond, up)
		if v := r.decide(q); (v.Reason == "dead letters: 1 produced") != (count == 5) {
			t.Errorf("delivery %d: verdict %+v", count, v)
		}
	}
}
