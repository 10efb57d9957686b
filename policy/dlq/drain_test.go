package dlq

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// spoolLarge has a letter of 700 KiB and two small ones behind it wait in the spool for a topic that takes no more than 10 kB.
func (r *rig) spoolLarge(further map[string]any) {
	r.t.Helper()
	up := r.down(kerr.NotEnoughReplicas)
	r.start(further)
	r.keep(3)
	big := r.kept[0]
	big.Value = incompressible(700 << 10)
	r.kept[0] = big
	for o := range int64(3) {
		if v := r.decide(r.request(1, reject(o, o))); !strings.HasPrefix(v.Reason, "dead letters: 1 spooled") {
			r.t.Fatalf("verdict %+v", v)
		}
	}
	r.cluster.ControlKey(int16(kmsg.Produce), func(q kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		return refuseAbove(q.(*kmsg.ProduceRequest), 10_000)
	})
	up()
}

func (r *rig) drained(result string) float64 {
	return value(r.policy.metrics.drained.WithLabelValues(result))
}

// TestRefusedInFullSpool: a letter that its topic never takes is set aside also where the spool has no room for it a second time, and those behind
// it are delivered. Each is counted once.
func TestRefusedInFullSpool(t *testing.T) {
	for _, size := range []string{"10MiB", "1MiB"} {
		t.Run(size, func(t *testing.T) {
			r := newRig(t)
			r.spoolLarge(map[string]any{"too_large": "on_failure", "on_failure": []string{"spool", "withhold"}, "budget": "50ms",
				"spool": map[string]any{"max_bytes": size}})
			until(t, "only one letter is left", func() bool { return len(r.spool()) == 1 })
			got, want := r.distinct("dlq.orders", 2), r.ids(1, 2)
			if slices.Sort(got); !slices.Equal(got, want) { // they were in one batch with the large one, and go one by one then, in any order
				t.Errorf("dead letters %v instead of %v", got, want)
			}
			until(t, "all are counted", func() bool { return r.drained("delivered")+r.drained("refused") >= 3 })
			if d, f := r.drained("delivered"), r.drained("refused"); d != 2 || f != 1 {
				t.Errorf("%v delivered and %v refused of three, one of them too large", d, f)
			}
			if !r.notices.has("max.message.bytes") || r.notices.has("max_record") {
				t.Errorf("the topic's limit is the cause: %q", r.notices.all)
			}
		})
	}
}

// TestDrainedWithoutPayload counts a letter once that has lost its payload on the way.
func TestDrainedWithoutPayload(t *testing.T) {
	r := newRig(t)
	r.spoolLarge(map[string]any{"budget": "50ms"})
	until(t, "the spool is empty", func() bool { return len(r.spool()) == 0 })
	until(t, "all are counted", func() bool { return r.drained("delivered")+r.drained("without_payload") >= 3 })
	if d, w := r.drained("delivered"), r.drained("without_payload"); d != 2 || w != 1 {
		t.Errorf("%v delivered and %v without payload of three", d, w)
	}
}

// TestSettleInOrder: a letter is not set aside before those in front of it are settled: it would be again each time that they are tried.
func TestSettleInOrder(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	until(t, "the spool is open", r.policy.spoolOpen)
	q, err := r.policy.opened().Queue("@dlq.orders")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"a", "b", "c"} {
		if err := q.Append(t.Context(), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := q.Next(100)
	if err != nil {
		t.Fatal(err)
	}
	d, down := &drainer{policy: r.policy, queue: q}, errors.New("down")
	outcomes := []outcome{{result: drainDelivered}, {err: down}, {drainRefused, errTopicLimit}}
	if n, err := d.settle(entries, outcomes); n != 1 || !errors.Is(err, down) {
		t.Fatalf("%d settled, %v", n, err)
	}
	if r.drained("refused") != 0 || q.Waiting() != 2 {
		t.Errorf("%v refused, %d wait", r.drained("refused"), q.Waiting())
	}
}

// TestDrainSaysEachCause: one outage may have several causes, and comes back to each.
func TestDrainSaysEachCause(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	q, err := r.policy.opened().Queue("@dlq.orders")
	if err != nil {
		t.Fatal(err)
	}
	d := &drainer{policy: r.policy, queue: q}
	first, second := errors.New("no answer"), errors.New("no room")
	for _, err := range []error{first, first, second, first, second, nil, nil, second} {
		d.say(err)
	}
	for range 10 * maxCauses {
		d.say(errors.New("at " + time.Now().String()))
	}
	const waits = "dead letters for @dlq.orders wait in the spool: "
	want := []string{waits + "no answer", waits + "no room", "dead letters for @dlq.orders are delivered from the spool again", waits + "no room"}
	if !slices.Equal(r.notices.all[:4], want) || len(r.notices.all) != 3+maxCauses {
		t.Errorf("said %d: %q", len(r.notices.all), r.notices.all)
	}
}

// TestSpoolDamageIsTold: a bit that is wrong on the disk loses no letter but its own, and an operator learns of it.
func TestSpoolDamageIsTold(t *testing.T) {
	r := newRig(t)
	up := r.down(kerr.NotEnoughReplicas)
	r.start(map[string]any{"budget": "50ms"})
	r.keep(3)
	r.decide(r.request(5, reject(0, 2)))
	if err := r.policy.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(SpoolDir(r.state, "dlq"), "*", "*.spool"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %q, %v", files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len("ackspl01")+2] ^= 1 // the length of the first is 64 KiB more
	if err := os.WriteFile(files[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	up()
	r.start(nil)
	if !r.notices.has(files[0]) || value(r.policy.metrics.damaged) != 1 {
		t.Errorf("%v counted, and told is %q", value(r.policy.metrics.damaged), r.notices.all)
	}
	if got, want := r.distinct("dlq.orders", 2), r.ids(1, 2); !slices.Equal(got, want) {
		t.Errorf("dead letters %v instead of %v", got, want)
	}
	kept := strings.TrimSuffix(files[0], ".spool") + ".damaged"
	until(t, "the file is kept", func() bool { _, err := os.Stat(kept); return err == nil })
}
