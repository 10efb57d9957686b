package policy

import (
	"context"
	"testing"

	"github.com/ackproxy/ackproxy/codec"
)

var (
	orders   = codec.UUID{1}
	payments = codec.UUID{2}
)

// fake is a policy made of functions.
type fake struct {
	name   string
	traits Traits
	decide func(context.Context, *Request) (Verdict, error)
}

func (f fake) Name() string   { return f.name }
func (f fake) Traits() Traits { return f.traits }

func (f fake) Decide(ctx context.Context, r *Request) (Verdict, error) {
	if f.decide == nil {
		return Verdict{}, nil
	}
	return f.decide(ctx, r)
}

// says is a policy that always gives the same verdict.
func says(name string, v Verdict) Member {
	return Member{Policy: fake{name: name, decide: func(context.Context, *Request) (Verdict, error) { return v, nil }}}
}

func chain(t testing.TB, members ...Member) *Chain {
	t.Helper()
	c, err := NewChain(members...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// entry is one partition entry of a request.
type entry struct {
	topic   codec.UUID
	index   int32
	batches []codec.AckBatch
}

func batch(first, last int64, types ...int8) codec.AckBatch {
	b := codec.AckBatch{FirstOffset: first, LastOffset: last}
	for _, t := range types {
		b.Types = append(b.Types, byte(t))
	}
	return b
}

// accepting is the entry of orders-0 that accepts first to last.
func accepting(first, last int64) entry {
	return entry{orders, 0, []codec.AckBatch{batch(first, last, Accept)}}
}

// request is a ShareAcknowledge v2 as it looks when it was decoded from a frame.
func request(t testing.TB, renew bool, entries ...entry) *Request {
	t.Helper()
	m := codec.ShareAcknowledgeRequest{GroupID: []byte("group"), MemberID: []byte("member"), ShareSessionEpoch: 7, IsRenewAck: renew}
	for _, e := range entries {
		p := codec.AckPartition{PartitionIndex: e.index}
		for _, b := range e.batches {
			p.Batches.Append(b)
		}
		topic := codec.AckTopic{TopicID: e.topic}
		topic.Partitions.Append(p)
		m.Topics.Append(topic)
	}
	frame := m.Append(nil, 2)
	if outcome, problem := m.Decode(frame, 0, 2); outcome != codec.Exact {
		t.Fatal(problem)
	}
	return &Request{
		Conn: &Conn{ID: "c-1"}, ClientID: []byte("client"), APIKey: codec.KeyShareAcknowledge, APIVersion: 2, Carrier: ShareAcknowledge,
		Frame: frame, GroupID: m.GroupID, MemberID: m.MemberID, SessionEpoch: 7, RenewAck: renew, Topics: m.Topics,
	}
}

func topicName(id codec.UUID) (string, bool) {
	if id == orders {
		return "orders", true
	}
	return "", false
}
