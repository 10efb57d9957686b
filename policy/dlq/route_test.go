package dlq

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/dlq/letter"
)

func TestRoute(t *testing.T) {
	c, err := Parse([]byte(`{"cluster": {"bootstrap": ["k:1"]}, "clusters": {"east": {"bootstrap": ["k:2"]}}, "topic": "dlq.{topic}", "rules": [
		{"match": {"topic": "pay.*", "principal": "User:a*"}, "topic": "dlq.{group}.{topic}"},
		{"match": {"topic": "pay.*"}, "cluster": "east"},
		{"match": {"group": "all"}, "topic": "dlq.all"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 246)
	for _, s := range []struct{ group, topic, principal, cluster, target, problem string }{
		{"g", "orders", "", "", "dlq.orders", ""},
		{"my group/é", "pay.in", "User:ann", "", "dlq.my_group__.pay.in", ""},
		{"g", "pay.in", "User:bob", "east", "dlq.pay.in", ""},
		{"all", "orders", "", "", "dlq.all", ""},
		{"all", "dlq.all", "", "", "", errLoop.Error()},
		{"g", long, "", "", "", "cannot be the name of a topic"},
	} {
		cluster, target, err := c.route(&letter.Letter{Group: s.group, Topic: s.topic, Principal: s.principal})
		switch {
		case s.problem != "":
			if err == nil || !strings.Contains(err.Error(), s.problem) {
				t.Errorf("%+v: %v", s, err)
			}
		case err != nil || cluster != s.cluster || target != s.target:
			t.Errorf("%+v: %q %q, %v", s, cluster, target, err)
		}
	}
}

// TestOtherCluster writes to two clusters, and makes the topics.
func TestOtherCluster(t *testing.T) {
	r, east := newRig(t), newRig(t)
	r.start(map[string]any{"clusters": map[string]any{"east": east.address()}, "create": map[string]any{"partitions": 4, "replication": 1,
		"retention": "30d"},
		"rules": []any{map[string]any{"match": map[string]any{"group": "g1"}, "cluster": "east", "topic": "dlq.{topic}.east"}}})
	r.keep(1)
	for _, group := range []string{"g1", "g2"} {
		q := r.request(1, reject(0, 0))
		q.GroupID = []byte(group)
		if v := r.decide(q); v.Reason != "dead letters: 1 produced" {
			t.Fatalf("%s: verdict %+v", group, v)
		}
	}
	if l := r.letters("dlq.orders", 1)[0]; header(l, "__dlq.errors.group") != "g2" {
		t.Errorf("headers %v", l.Headers)
	}
	if l := east.letters("dlq.orders.east", 1)[0]; header(l, "__dlq.errors.group") != "g1" || l.Partition != 1 {
		t.Errorf("headers %v", l.Headers)
	}
	if made := east.cluster.TopicInfo("dlq.orders.east"); east.cluster.PartitionInfo("dlq.orders.east", 3) == nil ||
		east.cluster.PartitionInfo("dlq.orders.east", 4) != nil || made.Configs["retention.ms"] == nil || *made.Configs["retention.ms"] != "2592000000" {
		t.Errorf("made as %+v", made)
	}
}

// TestAgain rejects a dead letter from a dead-letter topic.
func TestAgain(t *testing.T) {
	for _, again := range []bool{false, true} {
		r := newRig(t)
		r.start(map[string]any{"redeadletter": again, "create": map[string]any{"replication": 1}})
		first := letter.Letter{Group: "g0", Topic: "orders", Source: &policy.Record{Value: []byte("v")}}
		r.kept[0] = policy.Record{Value: []byte("v"), Headers: first.Headers(letter.KIP1191)}
		q := r.request(1, reject(0, 0))
		q.Partitions[0].Topic = "dlq.orders"
		v := r.decide(q)
		if !again {
			if v.Reason != "dead letters: 1 skipped" || len(v.Edits) > 0 {
				t.Errorf("verdict %+v", v)
			}
			continue
		}
		if v.Reason != "dead letters: 1 produced" {
			t.Fatalf("verdict %+v", v)
		}
		if l := r.letters("dlq.dlq.orders", 1)[0]; header(l, letter.HeaderHops) != "2" || len(l.Headers) > 20 {
			t.Errorf("headers %v", l.Headers)
		}
	}
}

func TestLoopIsRefused(t *testing.T) {
	r := newRig(t)
	r.start(map[string]any{"topic": "dlq.orders"})
	r.keep(1)
	q := r.request(5, reject(0, 0))
	q.Partitions[0].Topic = "dlq.orders"
	if v := r.decide(q); len(v.Edits) != 1 || v.Edits[0].Action != policy.Withhold || !strings.Contains(v.Edits[0].Reason, errLoop.Error()) ||
		len(r.spool()) > 0 {
		t.Errorf("verdict %+v", v)
	}
}

// TestRangesOfAnyLength expands none.
func TestRangesOfAnyLength(t *testing.T) {
	r := newRig(t)
	r.start(map[string]any{"max_letters": 10})
	r.keep(9)
	for _, c := range []struct {
		name    string
		asked   []policy.Range
		seen    []policy.Acquisition
		letters int
		edits   []int64 // first and last of what is withheld
	}{
		{"all there is", []policy.Range{reject(0, math.MaxInt64-1)}, nil, 0, []int64{0, math.MaxInt64 - 1}},
		{"from -1", []policy.Range{reject(-1, math.MaxInt64)}, nil, 0, []int64{-1, math.MaxInt64}},
		{"released at the limit", []policy.Range{release(0, math.MaxInt64)}, []policy.Acquisition{{First: 0, Last: math.MaxInt64, DeliveryCount: 5}}, 0,
			[]int64{0, math.MaxInt64}},
		{"at the end", []policy.Range{reject(math.MaxInt64-1, math.MaxInt64)}, []policy.Acquisition{{First: math.MaxInt64, Last: math.MaxInt64,
			DeliveryCount: 1}}, 2, nil},
		{"seen in part", []policy.Range{reject(0, 8)}, []policy.Acquisition{{First: 2, Last: 3, DeliveryCount: 1}, {First: 7, Last: 20,
			DeliveryCount: 5}}, 9, nil},
		{"released in part", []policy.Range{release(0, math.MaxInt64)}, []policy.Acquisition{{First: 2, Last: 3, DeliveryCount: 4}, {First: 7, Last: 8,
			DeliveryCount: 5}}, 2, nil},
	} {
		q := r.request(0, c.asked...)
		q.Partitions[0].Acquired = c.seen
		v := r.decide(q)
		if c.edits == nil {
			if want := "dead letters: " + string(rune('0'+c.letters)) + " produced"; v.Reason != want || len(v.Edits) > 0 {
				t.Errorf("%s: verdict %+v", c.name, v)
			}
			continue
		}
		if len(v.Edits) != 1 || v.Edits[0].First != c.edits[0] || v.Edits[0].Last != c.edits[1] || v.Edits[0].Action != policy.Withhold {
			t.Errorf("%s: verdict %+v", c.name, v)
		}
	}
}

func TestTransaction(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	q := r.request(1, reject(0, 0))
	q.Carrier = policy.TxnShareAcknowledge
	if v := r.decide(q); len(v.Edits) > 0 || v.Reason != "in a transaction: not dead-lettered" || value(r.policy.metrics.transactional) != 1 {
		t.Errorf("verdict %+v", v)
	}
}

func TestLockLeft(t *testing.T) {
	now := time.Now()
	parts := []part{{items: []*item{{}, {lockUntil: now.Add(40 * time.Second)}}}, {items: []*item{{lockUntil: now.Add(9 * time.Second)}}}}
	if d := lockLeft(parts, now, 30*time.Second); d != 9*time.Second {
		t.Errorf("%v", d)
	}
	if d := lockLeft(parts[:1], now, 30*time.Second); d != 40*time.Second {
		t.Errorf("%v where one is known", d)
	}
	if d := lockLeft(nil, now, 30*time.Second); d != 30*time.Second {
		t.Errorf("%v where none is known", d)
	}
	if d := lockLeft(parts, now.Add(time.Minute), 0); d != 0 {
		t.Errorf("%v after the end", d)
	}
}
