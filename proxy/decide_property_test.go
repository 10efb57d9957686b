package proxy

import (
	"context"
	"slices"
	"testing"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// TestChainAndRewriteAgree: whatever a chain decides about a request can be written, and read back it says just that. Both read the request
// on their own: where they differed, a connection would be closed for a policy's sake.
func TestChainAndRewriteAgree(t *testing.T) {
	edited := 0
	for seed := range uint64(3000) {
		g := newGen(seed)
		frame, body := g.request()
		was := decodeRequest(g.carrier, frame[body:], g.version)
		if odd(was.topics) {
			continue
		}
		req := &policy.Request{}
		local := new(scratch)
		local.decode(req, g.carrier, frame, body, g.version)
		req.APIVersion, req.Frame = g.version, frame
		chain := chainOf(t, policy.FailForward, fixed{decide: func(_ context.Context, r *policy.Request) (v policy.Verdict, _ error) {
			for _, p := range r.Partitions {
				for _, a := range p.Ranges {
					if g.one(3) {
						continue
					}
					e := policy.Edit{TopicID: p.TopicID, Partition: p.Index, First: a.First, Last: a.Last, Action: policy.Action(g.IntN(2)), Type: int8(1 + 2*g.IntN(2))}
					if g.one(2) {
						e.Last = a.First + (a.Last-a.First)/2
					}
					v.Edits = append(v.Edits, e)
				}
			}
			return v, nil
		}})
		d := chain.Decide(context.Background(), req, nil)
		for _, step := range d.Trail {
			if step.Err != nil {
				t.Fatalf("seed %d: %v", seed, step.Err)
			}
		}
		out, err := rewriteRequest(frame, body, g.version, g.carrier, d)
		if err == nil {
			err = checkRequest(g, d, was, frame, out, body)
		}
		if err != nil {
			t.Fatalf("seed %d, %s v%d: %v\n%x\n%+v", seed, g.carrier, g.version, err, frame, d)
		}
		if d.Edited() {
			edited++
		}
	}
	if edited < 1000 {
		t.Errorf("%d requests edited", edited)
	}
}

// odd says whether an offset is negative: the model takes such a batch for malformed, policies do not.
func odd(topics codec.Array[codec.AckTopic]) bool {
	for topic := range topics.All() {
		for p := range topic.Partitions.All() {
			for b := range p.Batches.All() {
				if b.FirstOffset < 0 {
					return true
				}
			}
		}
	}
	return false
}

// A shared offset, and a later entry without batches, are where readings could differ.
func TestChainAndRewriteAtTheEdges(t *testing.T) {
	withhold := fixed{decide: func(_ context.Context, r *policy.Request) (v policy.Verdict, _ error) {
		for _, p := range r.Partitions {
			v.Edits = append(v.Edits, policy.Edit{TopicID: p.TopicID, Partition: p.Index, First: 0, Last: 4, Action: policy.Withhold})
		}
		return v, nil
	}}
	for name, batches := range map[string][]codec.AckBatch{
		"shared offset":            {batchOf(0, 4, 1), batchOf(4, 9, 3)},
		"shared by three":          {batchOf(0, 4, 1), batchOf(4, 4, 2), batchOf(4, 9, 3)},
		"shared, type each offset": {batchOf(3, 4, 1, 2), batchOf(4, 6, 3, 3, 1)},
		"from -1":                  {batchOf(-1, 9, 1)},
	} {
		frame, body := acknowledge(batches...)
		req := &policy.Request{}
		new(scratch).decode(req, policy.ShareAcknowledge, frame, body, 2)
		req.APIVersion, req.Frame = 2, slices.Clone(frame)
		d := chainOf(t, policy.FailForward, withhold).Decide(context.Background(), req, nil)
		if !d.Edited() {
			t.Errorf("%s: not edited: %+v", name, d)
			continue
		}
		if _, err := rewriteRequest(frame, body, 2, policy.ShareAcknowledge, d); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
