package dlq

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/dlq/letter"
	"github.com/ackproxy/ackproxy/policy/dlq/spool"
)

// down makes the cluster refuse all produce requests until the returned function is called.
func (r *rig) down(err *kerr.Error) (up func()) {
	return r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: err, Count: -1}).Remove
}

// ways are what can be wrong with a dead-letter topic.
var ways = map[string]func(r *rig) (up func()){
	"down": func(r *rig) func() { return r.down(kerr.NotEnoughReplicas) },
	"silent": func(r *rig) func() {
		var over atomic.Bool
		r.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
			r.cluster.KeepControl()
			return nil, nil, !over.Load() // handled, without an answer
		})
		return func() { over.Store(true) }
	},
	"not authorised": func(r *rig) func() { return r.down(kerr.TopicAuthorizationFailed) },
	"no topic": func(r *rig) func() {
		r.config["topic"] = "dlq.missing"
		return func() { r.policy.senders[""].create = &Create{Partitions: 3, Replication: 1, Retention: time.Hour} }
	},
}

func TestSpool(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			up := way(r)
			r.start(nil)
			r.keep(4)
			v := r.decide(r.request(5, reject(0, 1), accept(2, 2)))
			if len(v.Edits) != 0 || !strings.HasPrefix(v.Reason, "dead letters: 2 spooled") {
				t.Fatalf("verdict %+v", v)
			}
			// What comes next for the topic does not wait for it, and keeps its place.
			v = r.decide(r.request(5, reject(3, 3)))
			if len(v.Edits) != 0 || !strings.HasPrefix(v.Reason, "dead letters: 1 spooled") {
				t.Fatalf("the second verdict %+v", v)
			}
			if s := r.spool(); len(s) != 3 {
				t.Fatalf("%d entries in the spool", len(s))
			}
			if name == "no topic" {
				return // somebody has to make it
			}
			up()
			seen := r.distinct("dlq.orders", 3)
			if want := r.ids(0, 1, 3); !slices.Equal(seen, want) {
				t.Errorf("dead letters %v instead of %v", seen, want)
			}
			until(t, "the spool is empty", func() bool { return len(r.spool()) == 0 })
		})
	}
}

func TestSpoolSurvivesRestart(t *testing.T) {
	r := newRig(t)
	up := r.down(kerr.NotEnoughReplicas)
	r.start(nil)
	r.keep(3)
	r.decide(r.request(5, reject(0, 2)))
	if err := r.policy.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(r.spool()); n != 3 {
		t.Fatalf("%d entries in the spool", n)
	}
	up()
	r.start(nil)
	if got, want := r.distinct("dlq.orders", 3), r.ids(0, 1, 2); !slices.Equal(got, want) {
		t.Errorf("dead letters %v instead of %v", got, want)
	}
	until(t, "the spool is empty", func() bool { return len(r.spool()) == 0 })
}

func TestFailureModes(t *testing.T) {
	change := func(first, last int64) policy.Edit {
		return policy.Edit{Partition: 1, First: first, Last: last, Action: policy.Change, Type: policy.Release}
	}
	withhold := policy.Edit{Partition: 1, First: 0, Last: 9, Action: policy.Withhold, ErrorCode: 56}
	all := []policy.Range{accept(0, 2), reject(3, 4), accept(5, 9)}
	for _, c := range []struct {
		name    string
		modes   []string
		count   int16
		request []policy.Range
		edits   []policy.Edit
		close   policy.Close
	}{
		{"release below the limit", []string{"release", "withhold"}, 4, all, []policy.Edit{change(3, 4)}, 0},
		{"release at the limit", []string{"release", "withhold"}, 5, all, []policy.Edit{withhold}, 0},
		{"release of an unknown count", []string{"release", "withhold"}, 0, all, []policy.Edit{withhold}, 0},
		{"a release at the limit is not released", []string{"release", "withhold"}, 5, []policy.Range{accept(0, 2), release(3, 9)},
			[]policy.Edit{withhold}, 0},
		{"withhold", []string{"withhold"}, 1, all, []policy.Edit{withhold}, 0},
		{"forward", []string{"forward"}, 5, all, nil, 0},
		{"close", []string{"close"}, 1, all, nil, policy.CloseBefore},
		{"a spool that is full", []string{"spool", "release", "close"}, 2, all, []policy.Edit{change(3, 4)}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.down(kerr.NotEnoughReplicas)
			r.keep(10)
			if c.modes[0] == "spool" {
				block(t, SpoolDir(r.state, "dlq"))
			}
			r.start(map[string]any{"on_failure": c.modes, "budget": "50ms"})
			v := r.decide(r.request(c.count, c.request...))
			for i := range v.Edits {
				if v.Edits[i].Reason == "" {
					t.Error("an edit without a reason")
				}
				v.Edits[i].Reason, v.Edits[i].TopicID = "", codecZero
			}
			if !slices.Equal(v.Edits, c.edits) || v.Close != c.close || v.Reason == "" {
				t.Errorf("verdict %+v", v)
			}
		})
	}
}

// block makes a spool in a directory impossible.
func block(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLockedSpool(t *testing.T) {
	r := newRig(t)
	r.down(kerr.NotEnoughReplicas)
	other, err := spool.Open(SpoolDir(r.state, "dlq"), spool.Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	r.start(map[string]any{"budget": "50ms"})
	r.keep(1)
	if !r.notices.has("another process has the spool") {
		t.Error("nobody was told")
	}
	if v := r.decide(r.request(5, reject(0, 0))); len(v.Edits) != 1 || v.Edits[0].Action != policy.Withhold {
		t.Errorf("verdict %+v", v)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "the spool is open", r.policy.spoolOpen)
	if v := r.decide(r.request(5, reject(0, 0))); len(v.Edits) != 0 {
		t.Errorf("verdict %+v", v)
	}
}

func TestTooLarge(t *testing.T) {
	for _, size := range []int{200, 2 << 20} { // one that shares its batch, one that is alone
		for _, c := range []struct{ mode, fate string }{{"headers_only", "3 produced"}, {"on_failure", "2 produced, 1 withheld"}} {
			r := newRig(t)
			r.cluster.ControlKey(int16(kmsg.Produce), func(q kmsg.Request) (kmsg.Response, error, bool) {
				r.cluster.KeepControl()
				return refuseAbove(q.(*kmsg.ProduceRequest), 1100)
			})
			r.start(map[string]any{"too_large": c.mode, "on_failure": []string{"spool", "withhold"}})
			r.keep(3)
			big := r.kept[1]
			big.Value = incompressible(max(size, 1200))
			r.kept[1] = big
			v := r.decide(r.request(5, reject(0, 2)))
			if !strings.HasPrefix(v.Reason, "dead letters: "+c.fate) {
				t.Errorf("%s, %d bytes: %q", c.mode, size, v.Reason)
			}
			if c.mode == "on_failure" {
				continue
			}
			for _, l := range r.letters("dlq.orders", 3) {
				if big := header(l, "__dlq.errors.offset") == "1"; big != (header(l, letter.HeaderPayload) == "unavailable") || big != (l.Value == nil) {
					t.Errorf("%d bytes: %v", size, l.Headers)
				}
			}
		}
	}
}

// refuseAbove answers a request with a batch of more bytes as a broker does for its topic's max.message.bytes.
func refuseAbove(q *kmsg.ProduceRequest, limit int) (kmsg.Response, error, bool) {
	answer := q.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range q.Topics {
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			if len(p.Records) <= limit {
				return nil, nil, false
			}
			one := kmsg.NewProduceResponseTopicPartition()
			one.Partition, one.ErrorCode = p.Partition, kerr.MessageTooLarge.Code
			topic.Partitions = append(topic.Partitions, one)
		}
		answer.Topics = append(answer.Topics, topic)
	}
	return answer, nil, true
}

// TestSpoolTakesLargeLettersInPieces: what is spooled does not need its size in memory once more, and what still fits is kept where not all does.
func TestSpoolTakesLargeLettersInPieces(t *testing.T) {
	r := newRig(t)
	r.down(kerr.NotEnoughReplicas)
	r.start(map[string]any{"budget": "50ms", "spool": map[string]any{"max_bytes": "3MiB"}})
	for o := range int64(4) {
		r.kept[o] = policy.Record{Offset: o, Value: incompressible(spoolPiece * 9 / 10)}
	}
	v := r.decide(r.request(2, reject(0, 3)))
	if !strings.HasPrefix(v.Reason, "dead letters: 3 spooled") || len(v.Edits) != 1 || v.Edits[0].First != 3 || v.Edits[0].Type != policy.Release {
		t.Errorf("verdict %+v", v)
	}
	until(t, "no memory is taken", func() bool { return r.policy.room.used() == 0 })
}

// TestSpooledTooLate has the spool write a letter after its request has given up. Its topic works: nothing else may have to come for it to be written.
func TestSpooledTooLate(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	letters := 0
	for range 20 { // a spool may be faster than the end of a context is noticed, and is then right as well
		one := &item{record: letter.Record{Topic: "dlq.orders", Value: []byte("v")}}
		if r.policy.spoolAll(over, []*item{one}); one.fate == pending {
			letters++
			r.letters("dlq.orders", letters)
			return
		}
		letters++
		r.letters("dlq.orders", letters)
	}
}

// spool are the letters that wait.
func (r *rig) spool() []letter.Record {
	r.t.Helper()
	var all []letter.Record
	err := spool.Read(SpoolDir(r.state, "dlq"), func(_ string, e spool.Entry) error {
		one, err := letter.Decode(e.Data)
		all = append(all, one)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// ids are those of letters from partition 1 of the topic orders.
func (r *rig) ids(offsets ...int64) []string {
	var all []string
	for _, o := range offsets {
		l := letter.Letter{Group: "g1", TopicID: r.topic, Partition: 1, Offset: o}
		all = append(all, l.ID())
	}
	return all
}

// TestOrderOfChoices has the spool behind release: it is for what a Release would lose.
func TestOrderOfChoices(t *testing.T) {
	r := newRig(t)
	r.down(kerr.NotEnoughReplicas)
	r.start(map[string]any{"on_failure": []string{"release", "spool", "withhold"}, "budget": "50ms"})
	r.keep(1)
	if v := r.decide(r.request(4, reject(0, 0))); len(v.Edits) != 1 || v.Edits[0].Type != policy.Release || len(r.spool()) != 0 {
		t.Errorf("below the limit: verdict %+v", v)
	}
	if v := r.decide(r.request(5, reject(0, 0))); len(v.Edits) != 0 || len(r.spool()) != 1 {
		t.Errorf("at the limit: verdict %+v", v)
	}
}

// TestFullSpool produces after all what the spool has no room for, and falls back where that fails as well.
func TestFullSpool(t *testing.T) {
	r := newRig(t)
	up := r.down(kerr.NotEnoughReplicas)
	r.start(map[string]any{"spool": map[string]any{"max_bytes": "1MiB"}, "budget": "50ms"})
	r.limit = time.Second
	r.keep(3)
	for o := range int64(3) {
		one := r.kept[o]
		one.Value = incompressible(700 << 10)
		r.kept[o] = one
	}
	if v := r.decide(r.request(5, reject(0, 0))); len(v.Edits) != 0 || !strings.HasPrefix(v.Reason, "dead letters: 1 spooled") {
		t.Fatalf("the first: verdict %+v", v)
	}
	v := r.decide(r.request(5, reject(1, 1)))
	if len(v.Edits) != 1 || v.Edits[0].Action != policy.Withhold || !strings.Contains(v.Edits[0].Reason, spool.ErrFull.Error()) {
		t.Errorf("the second: verdict %+v", v)
	}
	up()
	r.limit = 10 * time.Second
	until(t, "the spool is empty", func() bool { return len(r.spool()) == 0 })
	if v := r.decide(r.request(5, reject(2, 2))); v.Reason != "dead letters: 1 produced" {
		t.Errorf("the third: verdict %+v", v)
	}
}

// TestRefused sets aside what the topic will not take: nothing waits for it, and whoever has made the topic take it can put it back, as the
// documentation says.
func TestRefused(t *testing.T) {
	r := newRig(t)
	up := r.down(kerr.NotEnoughReplicas)
	further := map[string]any{"too_large": "on_failure", "on_failure": []string{"spool", "withhold"}, "budget": "50ms"}
	r.start(further)
	r.keep(3)
	r.decide(r.request(5, reject(0, 1)))
	small := r.down(kerr.MessageTooLarge)
	up()
	aside := func(n int) func() bool {
		return func() bool {
			got, _ := r.policy.aside()
			return got == n && !r.policy.backlog(&letter.Record{Topic: "dlq.orders"})
		}
	}
	until(t, "two are set aside", aside(2))
	if bytes, age := r.policy.spooled(); bytes == 0 || age != 0 {
		t.Errorf("%d bytes wait, for %v", bytes, age)
	}
	small()
	if v := r.decide(r.request(5, reject(2, 2))); v.Reason != "dead letters: 1 produced" {
		t.Errorf("verdict %+v", v)
	}
	if err := r.policy.Close(); err != nil {
		t.Fatal(err)
	}
	own, set := filepath.Join(SpoolDir(r.state, "dlq"), "q-@dlq.orders"), filepath.Join(SpoolDir(r.state, "dlq"), "q-@dlq.orders%21refused")
	if left, err := filepath.Glob(own + "/*.spool"); err != nil || len(left) > 0 {
		t.Fatalf("%v wait: %v", left, err)
	}
	if err := errors.Join(os.RemoveAll(own), os.Rename(set, own)); err != nil {
		t.Fatal(err)
	}
	r.start(further)
	until(t, "none is set aside", aside(0))
	got := r.distinct("dlq.orders", 3)
	slices.Sort(got)
	if want := r.ids(0, 1, 2); !slices.Equal(got, want) {
		t.Errorf("dead letters %v instead of %v", got, want)
	}
}

// TestProducerIDRefused has the cluster refuse what idempotence needs, for a while.
func TestProducerIDRefused(t *testing.T) {
	r := newRig(t)
	fault := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.ClusterAuthorizationFailed, Count: -1, TopLevel: true})
	r.start(nil)
	r.keep(1)
	if v := r.decide(r.request(5, reject(0, 0))); !strings.Contains(v.Reason, "1 spooled") {
		t.Fatalf("verdict %+v", v)
	}
	if fault.Hits() == 0 {
		t.Fatal("not refused")
	}
	fault.Remove()
	r.distinct("dlq.orders", 1)
}

// TestOneAtTheLimit withholds all of a partition for one offset that a Release would lose.
func TestOneAtTheLimit(t *testing.T) {
	r := newRig(t)
	r.down(kerr.NotEnoughReplicas)
	r.start(map[string]any{"on_failure": []string{"release", "withhold"}, "budget": "50ms"})
	q := r.request(1, accept(0, 0), reject(1, 2), accept(3, 4))
	q.Partitions[0].Acquired = []policy.Acquisition{{First: 0, Last: 1, DeliveryCount: 4}, {First: 2, Last: 2, DeliveryCount: 5}}
	v := r.decide(q)
	if len(v.Edits) != 1 || v.Edits[0].Action != policy.Withhold || v.Edits[0].First != 0 || v.Edits[0].Last != 4 ||
		!strings.HasPrefix(v.Reason, "dead letters: 2 withheld") {
		t.Errorf("verdict %+v", v)
	}
}
