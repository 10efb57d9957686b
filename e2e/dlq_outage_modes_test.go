package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/e2e/deadletter/outage"
	"github.com/ackproxy/ackproxy/e2e/gateway"
	"github.com/ackproxy/ackproxy/e2e/kafka"
	"github.com/ackproxy/ackproxy/e2e/tap"
	"github.com/ackproxy/ackproxy/policy/dlq"
)

// failureModes are what is done without a dead letter, and what then becomes of the offsets of all cases together. Each case rejects two
// records; the throttled one rejects one before, which is produced.
var failureModes = []struct {
	name, config string
	fates        map[string]int
}{
	{"spool", "on_failure: [spool, release, withhold]", map[string]int{"spooled": 8, "produced": 3}}, // what is too large goes without its payload
	{"release", "too_large: on_failure, on_failure: [release, withhold]", map[string]int{"released": 10, "withheld": 10, "produced": 1}},
	{"withhold", "too_large: on_failure, on_failure: [withhold]", map[string]int{"withheld": 10, "produced": 1}},
	{"forward", "too_large: on_failure, on_failure: [forward]", map[string]int{"forwarded": 10, "produced": 1}},
	{"close", "too_large: on_failure, on_failure: [close]", map[string]int{"closed": 10, "produced": 1}},
}

// failures are what may be wrong with a dead-letter topic: "slow" has an answer after 4.5 s where a lock is 3 s.
var failures = []string{"slow", "missing", "unauthorised", "throttled", "large"}

// modesRig is a broker with a tap, and a proxy for each mode.
type modesRig struct {
	source *kafka.Cluster
	fakes  *outage.Fakes
	ready  map[string]*gateway.Gateway

	mu      sync.Mutex
	reached map[string]*tap.Exchange // by group: the last that acknowledged something
}

// modeCase is one mode with one failure, on a topic and a group of its own.
type modeCase struct {
	*modesRig
	t             *testing.T
	mode, failure string
	topic         string
	id            kadm.TopicID
	gateway       *gateway.Gateway
	hand          *outage.Hand
}

// TestDeadLetterFailures: whatever is wrong with the dead-letter topic, each failure mode does what it says, and what a request accepts of other
// partitions is accepted in time.
func TestDeadLetterFailures(t *testing.T) {
	r := newModesRig(t)
	var cases []*modeCase
	for _, m := range failureModes {
		r.start(t, m.name, m.config)
		for _, f := range failures {
			cases = append(cases, r.prepare(t, m.name, f))
		}
	}
	// A broker throttles all of the policies' clients by one quota: the first is done before the others make it much longer.
	slices.SortStableFunc(cases, func(a, b *modeCase) int { return b.throttledSpool() - a.throttledSpool() })
	for _, c := range cases {
		if c.failure == "throttled" {
			c.exhaust()
		}
		if c.throttledSpool() > 0 {
			c.reject()
			c.spooled()
		}
	}
	each := func(of func(*modeCase) func()) { // all cases side by side: most of it is waiting
		var all sync.WaitGroup
		for _, c := range cases {
			if f := of(c); f != nil {
				all.Go(f)
			}
		}
		all.Wait()
	}
	each(func(c *modeCase) func() { return map[int]func(){0: c.reject}[c.throttledSpool()] })
	each(func(c *modeCase) func() { return map[string]func(){"release": c.again}[c.mode] })
	each(func(c *modeCase) func() { // now what is wrong may be repaired
		return map[string]func(){"spool": c.drained, "withhold": c.comesBack, "forward": c.gone, "close": c.reconnects}[c.mode]
	})
	for _, m := range failureModes {
		if got, err := outage.Fates(t.Context(), r.ready[m.name]); err != nil || fmt.Sprint(got) != fmt.Sprint(m.fates) {
			t.Errorf("%s: offsets by what became of them are %v instead of %v, %v", m.name, got, m.fates, err)
		}
	}
}

func newModesRig(t *testing.T) *modesRig {
	r := &modesRig{source: cluster(t, kafka.Versions[0], 1), reached: map[string]*tap.Exchange{}, ready: map[string]*gateway.Gateway{}}
	node := r.source.Nodes[0]
	seen, err := tap.Listen(node.Relayed(), node.RelayTarget(), nil, func(x *tap.Exchange) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(x.Acks) > 0 {
			r.reached[x.Group] = x
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := seen.Close(); err != nil {
			t.Error(err)
		}
	})
	if r.fakes, err = outage.NewFakes(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.fakes.Close)
	if err := outage.Throttle(t.Context(), r.source, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := outage.Throttle(context.Background(), r.source, false); err != nil {
			t.Error(err)
		}
	})
	return r
}

// start starts the proxy of a mode.
func (r *modesRig) start(t *testing.T, mode, config string) {
	var clusters, rules []string
	for _, f := range failures {
		bootstrap := r.fakes.Bootstrap(f)
		if f == "throttled" {
			bootstrap = r.source.Bootstrap()
		}
		clusters = append(clusters, fmt.Sprintf("%s: {bootstrap: [%q]}", f, bootstrap))
		rules = append(rules, fmt.Sprintf("{match: {topic: %q}, cluster: %s}", "*-"+f, f))
	}
	text := fmt.Sprintf("policies:\n- name: dlq\n  builtin: dlq\n  config: {cluster: {bootstrap: [%q]}, source: {bootstrap: [%[1]q]}, clusters: {%s}, rules: [%s], %s}\n",
		r.source.Bootstrap(), strings.Join(clusters, ", "), strings.Join(rules, ", "), config)
	path := filepath.Join(dir(t), "ackproxy.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r.ready[mode] = proxy(t, r.source, gateway.Options{Upstream: r.source.Nodes[0].Relayed(), Args: []string{"--config", path}})
}

// prepare makes the topic of a case, with ten records in each of two partitions, and its group.
func (r *modesRig) prepare(t *testing.T, mode, failure string) *modeCase {
	c := &modeCase{modesRig: r, t: t, mode: mode, failure: failure, topic: fmt.Sprintf("%s-%s-%s", t.Name(), mode, failure), gateway: r.ready[mode]}
	var err error
	if c.id, err = r.source.CreateTopic(t.Context(), c.topic, 2); err != nil {
		t.Fatal(err)
	}
	if err := r.source.ShareGroup(t.Context(), c.topic, map[string]string{"share.record.lock.duration.ms": "3000", "share.delivery.count.limit": "2"}); err != nil {
		t.Fatal(err)
	}
	if failure == "throttled" {
		if _, err := r.source.CreateTopic(t.Context(), "dlq."+c.topic, 2); err != nil {
			t.Fatal(err)
		}
	} else if err := r.fakes.Create(t.Context(), failure, "dlq."+c.topic); err != nil {
		t.Fatal(err)
	}
	var all []*kgo.Record
	for p := range int32(2) {
		for o := range 10 {
			all = append(all, &kgo.Record{Topic: c.topic, Partition: p, Key: []byte{byte(o)}, Value: outage.Value(failure, p, o)})
		}
	}
	if err := r.source.Client().ProduceSync(t.Context(), all...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *modeCase) throttledSpool() int {
	if c.mode == "spool" && c.failure == "throttled" {
		return 1
	}
	return 0
}

// join makes the case's member, which acquires all records.
func (c *modeCase) join() (joined bool) {
	var err error
	if c.hand, err = outage.Join(c.t.Context(), c.gateway.Bootstrap(), c.topic, c.topic, c.id); err != nil {
		c.wrong("%v", err)
		return false
	}
	c.t.Cleanup(func() { c.hand.Close() })
	return c.fetch(2, 10) != nil
}

// fetch acquires n records of each of so many partitions; nil where they do not come.
func (c *modeCase) fetch(partitions int32, n int) map[tap.Target]map[int64]int16 {
	got, err := c.hand.Fetch(within(c.t, 30*time.Second), partitions, n)
	if err != nil {
		c.wrong("%v", err)
		return nil
	}
	return got
}

func (c *modeCase) wrong(format string, args ...any) {
	c.t.Errorf("%s, %s: %s", c.mode, c.failure, fmt.Sprintf(format, args...))
}

// lettersOf are the ids of the two rejected records.
func (c *modeCase) lettersOf() []string {
	prefix := c.topic + "/" + codec.UUID(c.id).String() + "/0/"
	return []string{prefix + "3", prefix + "4"}
}

func (c *modeCase) spoolDir() string {
	return dlq.SpoolDir(filepath.Join(c.gateway.Dir, "state"), "dlq")
}
