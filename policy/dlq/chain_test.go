package dlq

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// rejecting makes a Reject of every Accept.
type rejecting struct{}

func (rejecting) Name() string          { return "rejecting" }
func (rejecting) Traits() policy.Traits { return policy.Traits{} }
func (rejecting) Decide(_ context.Context, r *policy.Request) (policy.Verdict, error) {
	p := &r.Partitions[0]
	return policy.Verdict{Edits: []policy.Edit{{TopicID: p.TopicID, Partition: p.Index, First: 0, Last: 9, Action: policy.Change,
		Type: policy.Reject}}}, nil
}

// decoded is the request as it came off the wire.
func (r *rig) decoded(kind int8) *policy.Request {
	q := r.request(0, accept(0, 0))
	q.Partitions = nil
	partition := codec.AckPartition{PartitionIndex: 1}
	partition.Batches.Append(codec.AckBatch{FirstOffset: 4, LastOffset: 5, Types: []byte{byte(kind)}})
	topic := codec.AckTopic{TopicID: r.topic}
	topic.Partitions.Append(partition)
	q.Topics.Append(topic)
	return q
}

// TestLittleTime has a chain that gives it less than any configuration may: what can be done in that is done.
func TestLittleTime(t *testing.T) {
	for _, limit := range []time.Duration{100 * time.Millisecond, 50 * time.Millisecond} {
		r := newRig(t)
		r.start(map[string]any{"on_failure": []string{"release", "withhold"}})
		r.keep(2)
		r.decide(r.request(1, reject(0, 0))) // connects
		r.limit = limit
		until(t, "a letter in "+limit.String(), func() bool { return r.decide(r.request(1, reject(1, 1))).Reason == "dead letters: 1 produced" })
	}
}

// TestInAChain says who rejected, and is in time when the chain gives it less than its budget.
func TestInAChain(t *testing.T) {
	for name, down := range map[string]bool{"up": false, "down": true} {
		r := newRig(t)
		if down {
			r.down(kerr.NotEnoughReplicas)
		}
		r.start(map[string]any{"budget": "10s"})
		chain, err := policy.NewChain(policy.Member{Policy: rejecting{}}, policy.Member{Policy: r.policy, OnFailure: policy.FailRespond,
			Timeout: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		names := func(codec.UUID) (string, bool) { return "orders", true }
		d := chain.Decide(t.Context(), r.decoded(policy.Accept), names)
		if step := d.Trail[1]; step.Err != nil || down != strings.Contains(step.Reason, "2 spooled") || !d.Edited() {
			t.Fatalf("%s: %+v", name, step)
		}
		if down {
			continue
		}
		for _, l := range r.letters("dlq.orders", 2) {
			if header(l, "ackproxy.dlq.reason") != "policy" {
				t.Errorf("headers %v", l.Headers)
			}
		}
	}
}
