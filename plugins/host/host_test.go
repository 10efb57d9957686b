package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/plugins/sdk"
	"github.com/ackproxy/ackproxy/policy"
)

func TestDecidesAsInProcess(t *testing.T) {
	p := start(t, spec(t, "sdk", &tried{Budget: 70 * time.Millisecond}))
	got, err := decide(p, "g", 10*time.Second)
	if want := release(request("g")); err != nil || !reflect.DeepEqual(got, want) || len(want.Edits) != 1 {
		t.Errorf("%+v, %v; in process %+v", got, err, want)
	}
	if p.Traits() != (policy.Traits{Waits: true, Prompt: true, Budget: 70 * time.Millisecond}) || !p.Decides() || !p.Observes() || p.Name() != t.Name() {
		t.Errorf("%+v decides=%v observes=%v", p.Traits(), p.Decides(), p.Observes())
	}
}

func TestFailuresStayTheirOwn(t *testing.T) {
	p := start(t, spec(t, "sdk", nil))
	pid := p.session.Load().process.ID()
	var asleep sync.WaitGroup
	for range 50 {
		asleep.Go(func() {
			if _, err := decide(p, "sleep", 50*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a sleeper: %v", err)
			}
		})
	}
	for order, want := range map[string]string{"fail": "no mood", "panic": "at the disco", "deadline": "deadline"} {
		if _, err := decide(p, order, 200*time.Millisecond); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", order, err)
		}
	}
	if v, err := decide(p, "g", 10*time.Second); err != nil || len(v.Edits) != 1 {
		t.Errorf("beside them: %+v, %v", v, err)
	}
	asleep.Wait()
	if now := p.session.Load().process.ID(); now != pid {
		t.Errorf("another process, %s after %s", now, pid)
	}
}

func TestNoDeadlineIsTheBudget(t *testing.T) {
	p := start(t, spec(t, "sdk", &tried{Budget: 20 * time.Millisecond}))
	if _, err := p.Decide(context.Background(), request("sleep")); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestOutcomesArriveInOrder(t *testing.T) {
	p := start(t, spec(t, "sdk", nil))
	const n = 3000
	for i := range n {
		o := policy.NewOutcome(policy.Acknowledgement, []byte("frame"))
		o.Request.CorrelationID = int32(i + 1)
		p.Observe(o)
		o.Release()
	}
	eventually(t, "all observed", func() bool { return p.Stats().Observed == n })
	if v, err := decide(p, "seen", 10*time.Second); err != nil || v.Reason != fmt.Sprintf("seen=%d dropped=0 disorder=0", n) {
		t.Errorf("%q, %v", v.Reason, err)
	}
	if s := p.Stats(); s.Dropped != 0 || s.Queued != 0 || p.outcomes.bytes.Load() != 0 {
		t.Errorf("%+v, %d bytes", s, p.outcomes.bytes.Load())
	}
}

func TestObserverThatHangs(t *testing.T) {
	p, err := Start(context.Background(), spec(t, "sdk", nil), logTo(t))
	if err != nil {
		t.Fatal(err)
	}
	o := policy.NewOutcome(policy.Acknowledgement, make([]byte, 32<<10))
	o.Note = "block"
	const n = 4 * maxOutcomeBytes / (32 << 10)
	for range n {
		p.Observe(o) // never waits: the test would
	}
	o.Release()
	if _, err := decide(p, "g", 10*time.Second); err != nil {
		t.Errorf("a decision meanwhile: %v", err)
	}
	if s := p.Stats(); s.Dropped < n/2 || p.outcomes.bytes.Load() > maxOutcomeBytes {
		t.Errorf("%+v, %d bytes", s, p.outcomes.bytes.Load())
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if s := p.Stats(); s.Dropped+s.Observed != n || p.outcomes.bytes.Load() != 0 {
		t.Errorf("%d outcomes, but %+v, %d bytes", n, s, p.outcomes.bytes.Load())
	}
}

func TestDroppedOutcomesAreTold(t *testing.T) {
	p := start(t, spec(t, "sdk", nil))
	p.outcomes.dropped.Add(2)
	o := policy.NewOutcome(policy.Acknowledgement, nil)
	o.Request.CorrelationID = 3
	p.Observe(o)
	o.Release()
	eventually(t, "observed", func() bool { return p.Stats().Observed == 1 })
	if v, err := decide(p, "seen", 10*time.Second); err != nil || v.Reason != "seen=1 dropped=2 disorder=0" {
		t.Errorf("%q, %v", v.Reason, err)
	}
}

func TestCloseLetsThePluginFinish(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "closed")
	p, err := Start(context.Background(), spec(t, "sdk", &tried{Closed: mark}), logTo(t))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		o := policy.NewOutcome(policy.Acknowledgement, nil)
		o.Request.CorrelationID = int32(i + 1)
		p.Observe(o)
		o.Release()
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if s := p.Stats(); s.Observed != 100 {
		t.Errorf("%+v", s)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Error("the policy was not closed: ", err)
	}
	if _, err := decide(p, "g", time.Second); !errors.Is(err, ErrDown) || p.Ready() == nil {
		t.Errorf("after Close: %v, ready %v", err, p.Ready())
	}
	p.Observe(&policy.Outcome{})
	if err := p.Close(); err != nil {
		t.Error("a second time: ", err)
	}
}

func TestEnvironmentIsAllowed(t *testing.T) {
	t.Setenv("ACKPROXY_TEST_SECRET", "hush")
	t.Setenv("ACKPROXY_TEST_NAMED", "told")
	t.Setenv("LANG", "C")
	s := spec(t, "sdk", nil)
	s.Env = []string{"ACKPROXY_TEST_NAMED"}
	process := newProcess(&s, environment(s.Env), nil)
	for _, v := range process.cmd.Env {
		switch name, _, _ := strings.Cut(v, "="); name {
		case "PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "ACKPROXY_TEST_NAMED":
		default:
			t.Error(v)
		}
	}
	v, err := decide(start(t, s), "environment", 10*time.Second)
	if err != nil || strings.Contains(v.Reason, "hush") || !strings.Contains(v.Reason, "LANG=C") {
		t.Errorf("%q, %v", v.Reason, err)
	}
}

func TestTooLarge(t *testing.T) {
	p := start(t, spec(t, "sdk", nil))
	r := request("g")
	r.Partitions[0].Ranges = make([]policy.Range, 1<<18)
	if _, err := p.Decide(t.Context(), r); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if _, err := decide(p, "g", 10*time.Second); err != nil {
		t.Error("afterwards: ", err)
	}
}

func init() { plugins["observer"] = func() { sdk.ServeObserver("watcher", openWatcher) } }

type watcher struct{}

func (watcher) Observe(*policy.Outcome) {}

func openWatcher([]byte) (policy.Observer, error) { return watcher{}, nil }

func TestObserverOnly(t *testing.T) {
	p := start(t, spec(t, "observer", nil))
	if p.Decides() || !p.Observes() {
		t.Errorf("decides %v, observes %v", p.Decides(), p.Observes())
	}
	if v, err := decide(p, "g", time.Second); err != nil || !reflect.DeepEqual(v, policy.Verdict{}) {
		t.Errorf("%+v, %v", v, err)
	}
	p.Observe(&policy.Outcome{})
	eventually(t, "observed", func() bool { return p.Stats().Observed == 1 })
}

// What a decision takes counts in the queue: every byte of a request may make a piece of it.
func TestDecisionsCountInTheQueue(t *testing.T) {
	q := newOutcomes()
	for range 1 << 10 {
		o := &policy.Outcome{Decision: &policy.Decision{Partitions: []policy.Decided{{Pieces: make([]policy.Piece, 60_000)}}}}
		q.add(o)
	}
	if n := len(q.queue); n == 0 || n > 64 || q.dropped.Load() == 0 {
		t.Errorf("%d outcomes of 3 MiB are queued", n)
	}
}
