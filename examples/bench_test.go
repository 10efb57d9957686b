//go:build unix

package examples

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/e2e/plugin"
	"github.com/ackproxy/ackproxy/policy"
)

// again is the policy of the examples, in process.
type again struct{ Topic string }

func (p *again) Name() string          { return "again" }
func (p *again) Traits() policy.Traits { return policy.Traits{} }

func (p *again) Decide(_ context.Context, r *policy.Request) (v policy.Verdict, err error) {
	for _, partition := range r.Partitions {
		for _, x := range partition.Ranges {
			if partition.Topic == p.Topic && x.Type == policy.Reject {
				v.Edits = append(v.Edits, policy.Edit{TopicID: partition.TopicID, Partition: partition.Index, First: x.First, Last: x.Last, Type: policy.Release})
			}
		}
	}
	return v, nil
}

// BenchmarkDecision is one decision at a time: what a share request waits for a policy in process, in a Go plugin, and in a Python plugin.
func BenchmarkDecision(b *testing.B) {
	b.Run("go", func(b *testing.B) { measure(b, start(b, plugin.Go(b))) })
	b.Run("python", func(b *testing.B) { measure(b, start(b, plugin.Python(b))) })
	b.Run("in-process", func(b *testing.B) {
		p := &again{}
		if err := json.Unmarshal([]byte(`{"topic": "orders"}`), p); err != nil {
			b.Fatal(err)
		}
		measure(b, p)
	})
}

func measure(b *testing.B, p policy.Policy) {
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	r := request()
	b.ReportAllocs()
	for b.Loop() {
		if v, err := p.Decide(ctx, r); err != nil || len(v.Edits) != 2 {
			b.Fatal(v, err)
		}
	}
}
