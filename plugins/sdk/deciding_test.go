package sdk

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/plugins/pluginpb/ackproxy/policy/v1"
	"github.com/ackproxy/ackproxy/policy"
)

// lines is a stream of decisions whose other end is a test.
type lines struct {
	grpc.BidiStreamingServer[policyv1.DecideRequest, policyv1.DecideResponse]
	ctx  context.Context
	sent chan *policyv1.DecideResponse
}

func (l *lines) Context() context.Context { return l.ctx }

func (l *lines) Send(m *policyv1.DecideResponse) error { l.sent <- m; return nil }

// reader looks at a record for each decision.
type reader struct{ policy.Policy }

func (reader) Traits() policy.Traits { return policy.Traits{Waits: true, Records: true} }

func (reader) Decide(_ context.Context, r *policy.Request) (policy.Verdict, error) {
	_, err := r.Records.Record(codec.UUID{}, 0, 0)
	return policy.Verdict{}, err
}

// TestManyDecisionsWantRecords: those that find no room yet do not keep records from those that wait for them.
func TestManyDecisionsWantRecords(t *testing.T) {
	l := &lines{ctx: t.Context(), sent: make(chan *policyv1.DecideResponse, 10)}
	d := &deciding{stream: l, policy: reader{}, cancels: map[uint64]context.CancelFunc{}, wanting: map[uint64]*wanting{}, room: make(chan struct{}, 1)}
	next := func() *policyv1.DecideResponse {
		t.Helper()
		select {
		case m := <-l.sent:
			return m
		case <-time.After(time.Minute):
			t.Fatal("it says nothing")
			return nil
		}
	}
	const decisions = 3
	asked := make(chan *policyv1.DecideRequest, 2*decisions) // one after the other, as they come on a stream
	go func() {
		for m := range asked {
			d.take(m)
		}
	}()
	defer close(asked)
	for id := range uint64(decisions) {
		asked <- &policyv1.DecideRequest{Id: id + 1, TimeLeft: durationpb.New(time.Hour),
			Request: &policyv1.Request{Carrier: policyv1.Carrier_CARRIER_SHARE_FETCH}}
	}
	for range decisions {
		wish := next()
		if wish.GetRecords() == nil {
			t.Fatalf("%v is no wish", wish)
		}
		asked <- &policyv1.DecideRequest{Id: wish.GetId(), Records: &policyv1.RecordsChunk{Last: true, Error: "there is none"}}
		if answer := next(); answer.GetId() != wish.GetId() || answer.GetError() != "there is none" {
			t.Errorf("%v after the wish of %d", answer, wish.GetId())
		}
	}
	d.running.Wait()
}
