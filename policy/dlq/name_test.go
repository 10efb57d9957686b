package dlq

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/policy"
)

// TestUnknownName rejects records of a topic whose name did not pass by. No letter may go to a topic that is named for its id.
func TestUnknownName(t *testing.T) {
	rule := func(match map[string]any, target string) map[string]any {
		return map[string]any{"match": match, "topic": target}
	}
	for name, c := range map[string]struct {
		config map[string]any
		target string // empty: none, and the letter fails
	}{
		"the template has it":             {nil, ""},
		"the target is fixed":             {map[string]any{"topic": "dlq.all"}, "dlq.all"},
		"the target has the group's name": {map[string]any{"topic": "dlq.{group}"}, "dlq.g1"},
		"a rule matches by it":            {map[string]any{"topic": "dlq.all", "rules": []any{rule(map[string]any{"topic": "pay.*"}, "dlq.pay")}}, ""},
		"a rule that matches not in any case": {map[string]any{"topic": "dlq.all", "rules": []any{
			rule(map[string]any{"topic": "pay.*", "group": "other"}, "dlq.pay")}}, "dlq.all"},
		"an earlier rule matches": {map[string]any{"rules": []any{rule(map[string]any{"group": "g1"}, "dlq.g1"),
			rule(map[string]any{"topic": "pay.*"}, "dlq.pay")}}, "dlq.g1"},
		"the rule's template has it": {map[string]any{"topic": "dlq.all", "rules": []any{rule(map[string]any{"group": "g1"}, "dlq.x.{topic}")}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, kfake.SeedTopics(3, "dlq.all", "dlq.g1", "dlq.pay"))
			r.start(c.config)
			r.keep(1)
			q := r.request(1, reject(0, 0))
			q.Partitions[0].Topic = ""
			v := r.decide(q)
			if c.target != "" {
				if v.Reason != "dead letters: 1 produced" {
					t.Fatalf("verdict %+v", v)
				}
				if l := r.letters(c.target, 1)[0]; header(l, "__dlq.errors.topic") != r.topic.String() {
					t.Errorf("headers %v", l.Headers)
				}
				return
			}
			why := fmt.Sprintf("the name of topic %v is not known: no Metadata answer passed by; configure `source`", r.topic)
			if len(v.Edits) != 1 || v.Edits[0].Type != policy.Release || !strings.Contains(v.Edits[0].Reason, why) || len(r.spool()) > 0 {
				t.Errorf("verdict %+v", v)
			}
		})
	}
}

// TestUnknownNameAtTheLimit withholds: the record would be gone.
func TestUnknownNameAtTheLimit(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	r.keep(1)
	q := r.request(5, reject(0, 0))
	q.Partitions[0].Topic = ""
	if v := r.decide(q); len(v.Edits) != 1 || v.Edits[0].Action != policy.Withhold || len(r.spool()) > 0 {
		t.Errorf("verdict %+v", v)
	}
}

// TestSourceDoesNotTellTheName asks once for all records of a partition.
func TestSourceDoesNotTellTheName(t *testing.T) {
	r := newRig(t)
	r.start(map[string]any{"source": r.address()})
	r.keep(3)
	fault := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Err: kerr.UnknownTopicID, Count: -1, When: func(q kmsg.Request) bool {
		m := q.(*kmsg.MetadataRequest)
		return len(m.Topics) > 0 && m.Topics[0].TopicID == r.topic
	}})
	q := r.request(1, reject(0, 2))
	q.Partitions[0].Topic = ""
	v := r.decide(q)
	if len(v.Edits) != 1 || v.Edits[0].Type != policy.Release || !strings.Contains(v.Edits[0].Reason, "and `source` does not tell it") {
		t.Errorf("verdict %+v", v)
	}
	if n := fault.Hits(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// TestSourceIsSilent goes on without the name where that does not matter, as long as there is time to produce.
func TestSourceIsSilent(t *testing.T) {
	r := newRig(t, kfake.SeedTopics(3, "dlq.all"))
	r.cluster.ControlKey(int16(kmsg.Metadata), func(q kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		m := q.(*kmsg.MetadataRequest)
		return nil, nil, len(m.Topics) > 0 && m.Topics[0].TopicID == r.topic
	})
	r.start(map[string]any{"source": r.address(), "topic": "dlq.all", "on_failure": []string{"release", "withhold"}})
	r.keep(1)
	q := r.request(1, reject(0, 0))
	q.Partitions[0].Topic = ""
	if v := r.decide(q); v.Reason != "dead letters: 1 produced" {
		t.Errorf("verdict %+v", v)
	}
}

// TestInferredUnderNoName counts what cannot be written.
func TestInferredUnderNoName(t *testing.T) {
	r := newRig(t)
	r.start(map[string]any{"infer": true, "on_failure": []string{"spool", "withhold"}})
	r.keep(1)
	d := r.delivery(0, 5, time.Now())
	d.Topic = ""
	r.policy.Delivered(d)
	r.policy.last.expire(time.Now().Add(time.Minute))
	if n := value(r.policy.metrics.fates[forwarded]); n != 1 || value(r.policy.metrics.lostWithout) != 1 || len(r.spool()) > 0 {
		t.Errorf("%v count as lost, and %d are spooled", n, len(r.spool()))
	}
}
