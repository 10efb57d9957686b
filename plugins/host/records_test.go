package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/plugins/internal/wire"
	"github.com/ackproxy/ackproxy/plugins/pluginpb/ackproxy/policy/v1"
	"github.com/ackproxy/ackproxy/plugins/sdk"
	"github.com/ackproxy/ackproxy/policy"
)

func init() {
	plugins["records"] = func() { sdk.Serve(func([]byte) (policy.Policy, error) { return reader{}, nil }) }
	plugins["raw records"] = func() { servePlugin(&rawReader{}) }
}

// reader is a policy that says what it finds of each offset.
type reader struct{}

func (reader) Name() string { return "reader" }

// Traits do not say that it waits: the SDK has to know that who reads records does.
func (reader) Traits() policy.Traits { return policy.Traits{Records: true, Budget: 20 * time.Second} }

func (reader) Decide(_ context.Context, r *policy.Request) (v policy.Verdict, err error) {
	for _, p := range r.Partitions {
		for _, a := range p.Acquired {
			v.Reason += fmt.Sprintf("%d-%d count %d locked %v; ", a.First, a.Last, a.DeliveryCount, time.Until(a.LockUntil) > 0)
		}
		for offset := p.Ranges[0].First; offset <= p.Ranges[0].Last; offset++ {
			record, err := r.Records.Record(p.TopicID, p.Index, offset)
			switch {
			case errors.Is(err, policy.ErrNotKept):
				v.Reason += fmt.Sprintf("%d not kept; ", offset)
			case err != nil:
				v.Reason += fmt.Sprintf("%d %v; ", offset, err)
			default:
				v.Reason += describe(&record)
			}
		}
	}
	return v, nil
}

func describe(r *policy.Record) string {
	return fmt.Sprintf("%d k=%q nil=%v v=%d,%x nil=%v h=%q t=%d,%v,%v; ", r.Offset, r.Key, r.Key == nil, len(r.Value), last(r.Value), r.Value == nil,
		r.Headers, r.Timestamp, r.AppendTime, r.Transactional)
}

func last(p []byte) []byte { return p[max(0, len(p)-3):] }

// shelf has records by offset, with a size; it is asked for others in vain.
type shelf map[int64]policy.Record

var errBroken = errors.New("broken beyond repair")

func (s shelf) Record(topic codec.UUID, partition int32, offset int64) (policy.Record, error) {
	r, ok := s[offset]
	switch {
	case topic != topicID || partition != 3 || !ok:
		return policy.Record{}, policy.ErrNotKept
	case r.Offset != offset:
		return policy.Record{}, errBroken
	}
	return r, nil
}

// wanting acknowledges the offsets first to last, all of which were delivered.
func wanting(first, last int64, records policy.Records) *policy.Request {
	r := request("g")
	p := &r.Partitions[0]
	p.Ranges = []policy.Range{{First: first, Last: last, Type: policy.Reject}}
	p.Acquired = []policy.Acquisition{{First: first, Last: last, DeliveryCount: 2, Acquired: time.Now(), LockUntil: time.Now().Add(time.Hour)}}
	r.Records = records
	return r
}

// TestRecordsGoToAPlugin: as they are, whatever their size, with what is wrong with them.
func TestRecordsGoToAPlugin(t *testing.T) {
	p := start(t, spec(t, "records", nil))
	if !p.Traits().Records {
		t.Fatalf("%+v", p.Traits())
	}
	large := bytes.Repeat([]byte("0123456789abcde\n"), 5<<16)
	s := shelf{
		1: {Offset: 1, Timestamp: -5, Key: []byte("k\xff"), Value: []byte{}, Headers: []policy.RecordHeader{{Key: "h\xff", Value: []byte{0}}, {}}},
		2: {Offset: 2, Timestamp: 7, AppendTime: true, Transactional: true, Key: []byte{}},
		3: {Offset: 3, Value: large},
		4: {Offset: -1},
	}
	v, err := p.Decide(t.Context(), wanting(0, 4, s))
	want := "0-4 count 2 locked true; 0 not kept; "
	for i := range int64(3) {
		r := s[i+1]
		want += describe(&r)
	}
	if want += "4 broken beyond repair; "; err != nil || v.Reason != want {
		t.Errorf("%v\n got %s\nwant %s", err, v.Reason, want)
	}
	r := wanting(0, 4, nil)
	if v, err := p.Decide(t.Context(), r); err != nil || !strings.Contains(v.Reason, errNoRecords.Error()) {
		t.Errorf("where none are kept: %+v, %v", v, err)
	}
}

// TestRecordsOfOneDecisionAreBounded: in bytes, so that the others stay away and the decision goes on.
func TestRecordsOfOneDecisionAreBounded(t *testing.T) {
	p := start(t, spec(t, "records", nil))
	s := shelf{}
	for i := range int64(5) {
		s[i] = policy.Record{Offset: i, Value: make([]byte, wire.MaxRecords/4)}
	}
	v, err := p.Decide(t.Context(), wanting(0, 4, s))
	if err != nil || strings.Count(v.Reason, "nil=") != 2*3 || strings.Count(v.Reason, errTooMany.Error()) != 2 {
		t.Errorf("%v: %s", err, v.Reason)
	}
}

// rawReader asks for records as the SDK never would. The group says how.
type rawReader struct{ raw }

func (r *rawReader) GRPCServer(_ *goplugin.GRPCBroker, g *grpc.Server) error {
	policyv1.RegisterPolicyServiceServer(g, r)
	return nil
}

func (r *rawReader) Configure(context.Context, *policyv1.ConfigureRequest) (*policyv1.ConfigureResponse, error) {
	return &policyv1.ConfigureResponse{Decides: true, NeedsRecords: true, MaxMessageBytes: 2000}, nil
}

func (r *rawReader) Decide(stream grpc.BidiStreamingServer[policyv1.DecideRequest, policyv1.DecideResponse]) error {
	var data []byte
	chunks := 0
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		order := m.GetRequest().GetGroupId()
		all := &policyv1.DecideResponse{Id: m.Id, Result: &policyv1.DecideResponse_Records{Records: &policyv1.RecordsWanted{Ranges: []*policyv1.OffsetRange{
			{TopicId: []byte{1}}, {TopicId: topicID[:], Partition: 9, Last: math.MaxInt64},
			{TopicId: topicID[:], Partition: 3, First: math.MinInt64, Last: math.MaxInt64},
		}}}}
		verdict := func(reason string) {
			stream.Send(&policyv1.DecideResponse{Id: m.Id, Result: &policyv1.DecideResponse_Verdict{Verdict: &policyv1.Verdict{Reason: reason}}})
		}
		switch c := m.GetRecords(); {
		case order == "all" || order == "again":
			data, chunks = nil, 0
			stream.Send(all)
			if order == "again" {
				stream.Send(all)
			}
		case order == "impatient":
			stream.Send(all)
			verdict("impatient")
		case order != "":
			verdict(order)
		case c != nil:
			data = append(data, c.Data...)
			if chunks++; c.Last {
				var records policyv1.Records
				if err := proto.Unmarshal(data, &records); err != nil {
					return err
				}
				verdict(fmt.Sprintf("%d records, more than ten chunks %v, error %q", len(records.Records), chunks > 10, c.Error))
			}
		}
	}
}

// TestPluginsThatAskOddly: ranges without end, of partitions that there are not, and questions that do not wait for answers.
func TestPluginsThatAskOddly(t *testing.T) {
	p := start(t, spec(t, "raw records", nil))
	s := shelf{}
	for i := range int64(30) {
		s[i] = policy.Record{Offset: i, Value: make([]byte, 1500)}
	}
	ask := func(order string, last int64) (policy.Verdict, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r := wanting(0, last, s)
		r.GroupID = []byte(order)
		return p.Decide(ctx, r)
	}
	if v, err := ask("all", 40); err != nil || v.Reason != `30 records, more than ten chunks true, error ""` {
		t.Errorf("%q, %v", v.Reason, err)
	}
	if v, err := ask("all", math.MaxInt64); err != nil || v.Reason != fmt.Sprintf("30 records, more than ten chunks true, error %q", errTooMany) {
		t.Errorf("%q, %v", v.Reason, err)
	}
	if v, err := ask("impatient", 40); err != nil || v.Reason != "impatient" {
		t.Errorf("%q, %v", v.Reason, err)
	}
	if v, err := ask("again", math.MaxInt64); err == nil || !strings.Contains(err.Error(), "before the last ones have come") {
		t.Errorf("%q, %v", v.Reason, err)
	}
	if v, err := ask("afterwards", 40); err != nil || v.Reason != "afterwards" {
		t.Errorf("%q, %v", v.Reason, err)
	}
	if s := p.Stats(); s.Starts != 1 {
		t.Errorf("%+v", s)
	}
}

// TestWishesEndWithTheirTime: also those for nothing that there is.
func TestWishesEndWithTheirTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	nowhere := &policyv1.RecordsWanted{Ranges: []*policyv1.OffsetRange{{TopicId: []byte{1}}}}
	if err := (&telling{of: wanting(0, 4, shelf{})}).all(ctx, nowhere); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
