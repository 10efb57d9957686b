package dlq

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

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
