package dlq

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// fill takes all of a room, and returns what ends that.
func fill(t *testing.T, r *room) (empty func()) {
	t.Helper()
	n, ok := r.try(r.size)
	if !ok {
		t.Fatal("something is in the room")
	}
	return func() { r.give(n) }
}

func (r *room) waits() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting) > 0
}

// empty waits until nothing is in any room of a policy.
func (r *rig) empty() {
	r.t.Helper()
	rooms := []*room{r.policy.room, r.policy.late, r.policy.drains}
	if r.policy.source != nil {
		rooms = append(rooms, r.policy.source.room)
	}
	until(r.t, "nothing is in memory", func() bool {
		for _, one := range rooms {
			if one.used() != 0 {
				return false
			}
		}
		return true
	})
}

// deciding is a decision under way.
func (r *rig) deciding(q *policy.Request) <-chan policy.Verdict {
	verdict := make(chan policy.Verdict, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), r.limit)
		defer cancel()
		v, _ := r.policy.Decide(ctx, q)
		verdict <- v
	}()
	return verdict
}

// counted are records that are counted as they are looked up.
type counted struct {
	records
	n atomic.Int32
}

func (l *counted) Record(topic codec.UUID, partition int32, offset int64) (policy.Record, error) {
	l.n.Add(1)
	return l.records.Record(topic, partition, offset)
}

// TestNoRoom: nobody holds a record while it waits for room, and one that gets none in time goes to the spool.
func TestNoRoom(t *testing.T) {
	r := newRig(t)
	r.start(map[string]any{"budget": "1m"})
	r.keep(2)
	q := r.request(1, reject(0, 0))
	q.Partitions[0].Acquired[0].LockUntil = time.Now().Add(time.Hour)
	seen := &counted{records: r.kept}
	q.Records = seen
	empty := fill(t, r.policy.room)
	verdict := r.deciding(q)
	until(t, "a letter waits", r.policy.room.waits)
	if n := seen.n.Load(); n != 1 {
		t.Errorf("looked up %d times before it waits", n)
	}
	empty()
	if v := <-verdict; v.Reason != "dead letters: 1 produced" || seen.n.Load() != 2 {
		t.Errorf("verdict %+v, looked up %d times", v, seen.n.Load())
	}
	if l := r.letters("dlq.orders", 1)[0]; string(l.Value) != "a" {
		t.Errorf("the value is %q", l.Value)
	}
	r.empty()
}

func TestNoRoomInTime(t *testing.T) {
	for name, c := range map[string]struct {
		late bool // is there room for those who are late
		want string
	}{"spooled": {true, "dead letters: 1 spooled"}, "nowhere": {false, "dead letters: 1 released"}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.limit = time.Second
			r.start(map[string]any{"budget": "50ms"})
			r.keep(1)
			fill(t, r.policy.room)
			if !c.late {
				fill(t, r.policy.late)
			}
			if v := r.decide(r.request(1, reject(0, 0))); !strings.HasPrefix(v.Reason, c.want) {
				t.Errorf("verdict %+v", v)
			}
			if c.late {
				until(t, "the place of the late is free", func() bool { return r.policy.late.used() == 0 })
			}
		})
	}
}

// TestNoRoomToFetch waits for the answers of others to be done with.
func TestNoRoomToFetch(t *testing.T) {
	r := newRig(t)
	r.fill(3, kgo.GzipCompression())
	r.start(map[string]any{"source": r.address(), "budget": "1m"})
	q := r.request(1, reject(1, 2))
	q.Partitions[0].Acquired[0].LockUntil = time.Now().Add(time.Hour)
	empty := fill(t, r.policy.source.room)
	verdict := r.deciding(q)
	until(t, "a fetch waits", r.policy.source.room.waits)
	empty()
	if v := <-verdict; v.Reason != "dead letters: 2 produced" {
		t.Errorf("verdict %+v", v)
	}
	for _, l := range r.letters("dlq.orders", 2) {
		if header(l, "ackproxy.payload") != "refetched" {
			t.Errorf("headers %v", l.Headers)
		}
	}
	r.empty()
}

// TestNoRoomToDrain: what is read back from the spool has room of its own.
func TestNoRoomToDrain(t *testing.T) {
	r := newRig(t)
	up := r.down(kerr.NotEnoughReplicas)
	r.start(nil)
	r.keep(1)
	empty := fill(t, r.policy.drains)
	r.decide(r.request(1, reject(0, 0)))
	until(t, "a drain waits", r.policy.drains.waits)
	up()
	if n := len(r.spool()); n != 1 {
		t.Errorf("%d letters in the spool", n)
	}
	empty()
	r.letters("dlq.orders", 1)
	r.empty()
}

// TestHold gives room back when the last user is through, once.
func TestHold(t *testing.T) {
	r := newRoom(10)
	var h hold
	if !h.try(r, 4) || r.used() != 4 {
		t.Fatalf("%d used", r.used())
	}
	h.use()
	if h.end(); r.used() != 4 {
		t.Errorf("%d used, and one is not through", r.used())
	}
	if h.end(); r.used() != 0 {
		t.Errorf("%d used, and all are through", r.used())
	}
	var none hold
	none.use()
	none.end()
	r.add(12)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.take(gone, r, 1); !errors.Is(err, context.Canceled) || h.try(r, 0) {
		t.Errorf("took room where there is none: %v", err)
	}
	r.give(12)
	if err := h.take(t.Context(), r, 99); err != nil || r.used() != 10 {
		t.Errorf("%d used, %v", r.used(), err)
	}
}

// TestBacklogMakesRoom: letters that only queue behind others in the spool go there when room is short, and do not keep the next of their own request
// from being written.
func TestBacklogMakesRoom(t *testing.T) {
	r := newRig(t)
	r.down(kerr.NotEnoughReplicas)
	r.start(map[string]any{"memory": "1MiB", "max_record": "128KiB"})
	r.keep(1)
	r.decide(r.request(1, reject(0, 0)))
	fill(t, r.policy.late)
	const n, size = 40, 50 << 10
	for o := range int64(n) {
		r.kept[o] = policy.Record{Offset: o, Value: incompressible(size)}
	}
	if v := r.decide(r.request(1, reject(0, n-1))); len(v.Edits) > 0 || !strings.HasPrefix(v.Reason, "dead letters: 40 spooled") {
		t.Errorf("verdict %+v", v)
	}
	if got := len(r.spool()); got != n+1 {
		t.Errorf("%d letters in the spool", got)
	}
}
