package dlq

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/policy"
)

// admin is a client for what operators do.
func (r *rig) admin() *kadm.Client {
	r.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.ListenAddrs()...))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

// TestTopicIsMadeAnew has an operator empty a dead-letter topic by deleting it and making another of its name.
func TestTopicIsMadeAnew(t *testing.T) {
	r := newRig(t)
	r.start(map[string]any{"on_failure": []string{"spool", "withhold"}})
	r.keep(3)
	r.kept[3] = policy.Record{Offset: 3, Value: incompressible(1 << 20)} // has a client of its own
	for offset, size := range map[int64]string{0: "small", 3: "large"} {
		if v := r.decide(r.request(5, reject(offset, offset))); v.Reason != "dead letters: 1 produced" {
			t.Fatalf("a %s one: verdict %+v", size, v)
		}
	}
	adm := r.admin()
	if _, err := adm.DeleteTopic(t.Context(), "dlq.orders"); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.CreateTopic(t.Context(), 2, 1, nil, "dlq.orders"); err != nil {
		t.Fatal(err)
	}
	for _, offset := range []int64{1, 3} { // the first ones find out
		if v := r.decide(r.request(5, reject(offset, offset))); len(v.Edits) != 0 {
			t.Fatalf("verdict %+v", v)
		}
		until(t, "the spool is empty", func() bool { return len(r.spool()) == 0 })
	}
	if v := r.decide(r.request(5, reject(2, 2))); v.Reason != "dead letters: 1 produced" {
		t.Errorf("verdict %+v", v)
	}
	r.distinct("dlq.orders", 3)
}

// TestMissingTopic is not asked for any more once a letter for it has failed.
func TestMissingTopic(t *testing.T) {
	r := newRig(t)
	var asked, others atomic.Int64 // requests that name the topic, and that do not, since then
	r.cluster.ControlKey(int16(kmsg.Metadata), func(q kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		missing := func(one kmsg.MetadataRequestTopic) bool { return one.Topic != nil && *one.Topic == "dlq.missing" }
		if slices.ContainsFunc(q.(*kmsg.MetadataRequest).Topics, missing) {
			asked.Add(1)
			others.Store(0)
		} else {
			others.Add(1)
		}
		return nil, nil, false
	})
	r.start(map[string]any{"budget": "5s", "on_failure": []string{"withhold"}, "topic": "dlq.missing",
		"rules": []any{map[string]any{"match": map[string]any{"group": "g2"}, "topic": "dlq.orders"}}})
	r.keep(2)
	q := r.request(5, reject(1, 1))
	q.GroupID = []byte("g2")
	if v := r.decide(q); v.Reason != "dead letters: 1 produced" { // so that there is always a topic to ask for
		t.Fatalf("verdict %+v", v)
	}
	if v := r.decide(r.request(5, reject(0, 0))); v.Reason != "dead letters: 1 withheld (UNKNOWN_TOPIC_OR_PARTITION)" {
		t.Fatalf("verdict %+v", v)
	}
	until(t, "ten requests without the topic follow each other", func() bool {
		r.policy.senders[""].small.get().ForceMetadataRefresh()
		return asked.Load() > 0 && others.Load() >= 10
	})
}

// TestTopicIsMadeAgain has the policy make a topic that it made before, and that somebody has deleted.
func TestTopicIsMadeAgain(t *testing.T) {
	r := newRig(t)
	r.start(map[string]any{"topic": "dlq.made", "create": map[string]any{"replication": 1}, "on_failure": []string{"withhold"},
		"budget": "5s"}) // enough for the client to be told that it is gone
	r.keep(2)
	if v := r.decide(r.request(5, reject(0, 0))); v.Reason != "dead letters: 1 produced" {
		t.Fatalf("verdict %+v", v)
	}
	if _, err := r.admin().DeleteTopic(t.Context(), "dlq.made"); err != nil {
		t.Fatal(err)
	}
	until(t, "a letter is produced", func() bool { return r.decide(r.request(5, reject(1, 1))).Reason == "dead letters: 1 produced" })
}

// TestTopicCannotBeMade is told why, and not only that there is none.
func TestTopicCannotBeMade(t *testing.T) {
	r := newRig(t)
	r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	r.start(map[string]any{"topic": "dlq.made", "budget": "5s", "create": map[string]any{"replication": 1}, "on_failure": []string{"withhold"}})
	r.keep(1)
	const want = "dead letters: 1 withheld (UNKNOWN_TOPIC_OR_PARTITION, and the topic could not be made: TOPIC_AUTHORIZATION_FAILED)"
	if v := r.decide(r.request(5, reject(0, 0))); v.Reason != want {
		t.Errorf("verdict %+v", v)
	}
}

// TestTopicIsThereAlready needs no permission to make it, and does not ask for that with each letter.
func TestTopicIsThereAlready(t *testing.T) {
	r := newRig(t)
	fault := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	r.start(map[string]any{"create": map[string]any{"replication": 1}, "on_failure": []string{"withhold"}})
	r.keep(3)
	for offset := range int64(3) {
		if v := r.decide(r.request(5, reject(offset, offset))); v.Reason != "dead letters: 1 produced" {
			t.Fatalf("verdict %+v", v)
		}
	}
	if n := fault.Hits(); n != 1 {
		t.Errorf("asked to make the topic %d times", n)
	}
}
