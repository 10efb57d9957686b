package wire

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/plugins/pluginpb/ackproxy/policy/v1"
	"github.com/ackproxy/ackproxy/policy"
)

// frames are the golden frames of requests that carry acknowledgements.
func frames(t testing.TB) (all [][]byte) {
	for _, name := range []string{"vectors.json", "frames.json"} {
		text, err := os.ReadFile("../../../codec/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Vectors []struct {
				Kind, Hex string
				APIKey    int16 `json:"api_key"`
			}
		}
		if err := json.Unmarshal(text, &file); err != nil {
			t.Fatal(err)
		}
		for _, v := range file.Vectors {
			share := v.APIKey == codec.KeyShareFetch || v.APIKey == codec.KeyShareAcknowledge
			if frame, err := hex.DecodeString(v.Hex); err == nil && v.Kind == "request" && share {
				all = append(all, frame)
			}
		}
	}
	if len(all) < 20 {
		t.Fatalf("only %d frames", len(all))
	}
	return all
}

// asProxy reads a frame as the proxy does; false where there is nothing to observe.
func asProxy(frame []byte) (*policy.Request, bool) {
	h, body, o, _ := codec.DecodeRequestHeader(frame, -1)
	if o > codec.Tolerated {
		return nil, false
	}
	r := &policy.Request{
		Conn: &policy.Conn{
			ID: "c-1", Listener: "broker-2", BrokerID: 2, Client: "1.2.3.4:5", Upstream: "k:9092", Opened: time.Unix(1700000000, 5).UTC(),
		},
		Principal: policy.Principal{Name: "User:alice", Source: "sasl:PLAIN", VerifiedBy: "broker"}, Software: "apache-kafka-java/4.4.0",
		APIKey: h.APIKey, APIVersion: h.APIVersion, CorrelationID: h.CorrelationID, ClientID: h.ClientID, Frame: frame,
		Received: time.Unix(1700000001, 6).UTC(),
	}
	if h.APIKey == codec.KeyShareFetch {
		var m codec.ShareFetchRequest
		r.Decode, r.Problem = m.Decode(frame[body:], body, h.APIVersion)
		r.GroupID, r.MemberID, r.SessionEpoch, r.RenewAck, r.Topics = m.GroupID, m.MemberID, m.ShareSessionEpoch, m.IsRenewAck, m.Topics
	} else {
		var m codec.ShareAcknowledgeRequest
		r.Carrier = policy.ShareAcknowledge
		r.Decode, r.Problem = m.Decode(frame[body:], body, h.APIVersion)
		r.GroupID, r.MemberID, r.SessionEpoch, r.RenewAck, r.Topics = m.GroupID, m.MemberID, m.ShareSessionEpoch, m.IsRenewAck, m.Topics
	}
	return r, true
}

// across encodes and decodes a message.
func across[M proto.Message](t testing.TB, m, empty M) M {
	t.Helper()
	b, err := proto.Marshal(m)
	if err == nil {
		err = proto.Unmarshal(b, empty)
	}
	if err != nil {
		t.Fatal(err)
	}
	return empty
}

func TestOutcomesOfGoldenFrames(t *testing.T) {
	read := 0
	for _, frame := range frames(t) {
		r, ok := asProxy(frame)
		if !ok {
			continue
		}
		read++
		o := &policy.Outcome{Request: *r, Note: "note", Decision: decision(), Reply: policy.Reply{
			State: policy.Unreadable, Received: r.Received.Add(37 * time.Millisecond), ErrorCode: -1, ErrorMessage: "why", LockTimeoutMs: 30000,
			Partitions: []policy.PartitionResult{{TopicID: codec.UUID{7}, Partition: 2, ErrorCode: 121, ErrorMessage: "not acquired"}},
		}}
		if r.Decode == codec.Anomalous {
			o.Kind, o.Decision = policy.Undecodable, nil
		}
		m, err := FromOutcome(o, true)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ToOutcome(across(t, m, &policyv1.Outcome{}))
		if err != nil {
			t.Fatal(err)
		}
		if d := got.Decision; d != nil {
			if got := d.Trail[1].Err; got == nil || got.Error() != "late" {
				t.Errorf("the trail's error is %v", got)
			}
			d.Trail[1].Err = o.Decision.Trail[1].Err
		}
		if !reflect.DeepEqual(got, o) {
			t.Errorf("%x\n got %+v\nwant %+v", frame, got, o)
		}
	}
	if read < 20 {
		t.Fatalf("only %d frames were read", read)
	}
}

func decision() *policy.Decision {
	return &policy.Decision{
		Partitions: []policy.Decided{
			{TopicID: codec.UUID{1}, Topic: "t", Index: 3, Pieces: []policy.Piece{
				{First: 0, Last: 1<<63 - 2, Asked: policy.Reject, Forwarded: policy.Release, Withheld: true, ErrorCode: 56, Policy: "p", Reason: "r"},
				{First: 1<<63 - 1, Last: 1<<63 - 1},
			}},
			{TopicID: codec.UUID{2}, Malformed: true},
		},
		Replies:      []policy.ReplyEdit{{TopLevel: true, ErrorCode: -1}, {TopicID: codec.UUID{3}, Partition: 4, ErrorCode: 5, Message: "m"}},
		DelayForward: time.Second, DelayReply: time.Nanosecond, Close: policy.CloseTruncated, CloseAfter: 9, Gone: true,
		Trail: []policy.Step{{Policy: "a", Took: 5, Reason: "b"}, {Policy: "c", Err: errors.New("late"), Failed: policy.FailClose}},
	}
}

func TestRequestForAPolicy(t *testing.T) {
	for _, frame := range frames(t) {
		r, ok := asProxy(frame)
		if !ok {
			continue
		}
		r.Partitions = []policy.Partition{
			{TopicID: codec.UUID{1}, Topic: "t", Index: 3, Ranges: []policy.Range{{First: 0, Last: 5, Type: policy.Renew}, {First: 7, Last: 1<<63 - 2}},
				Acquired: []policy.Acquisition{{First: 1, Last: 5, DeliveryCount: 3, Acquired: r.Received}}},
			{TopicID: codec.UUID{2}, Malformed: true},
		}
		m, err := FromRequest(r, true)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ToRequest(across(t, m, &policyv1.Request{}))
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Fatalf("%x: %v\n got %+v\nwant %+v", frame, err, got, r)
		}
		if m, err = FromRequest(r, false); err != nil || len(m.Frame) > 0 {
			t.Fatalf("%v, a frame of %d bytes that nobody wants", err, len(m.Frame))
		}
	}
}

func TestTextThatIsNone(t *testing.T) {
	m, err := FromRequest(&policy.Request{GroupID: []byte("g\xff"), MemberID: []byte{}, Principal: policy.Principal{Name: "\xc3"}}, false)
	if err != nil {
		t.Fatal(err)
	}
	m = across(t, m, &policyv1.Request{})
	if m.GetGroupId() != "g\uFFFD" || m.MemberId == nil || m.GetMemberId() != "" || m.ClientId != nil || m.GetPrincipal().GetName() != "\uFFFD" {
		t.Errorf("%v", m)
	}
}

func batches(bs ...codec.AckBatch) (topics codec.Array[codec.AckTopic]) {
	var all codec.Array[codec.AckBatch]
	for _, b := range bs {
		all.Append(b)
	}
	var partitions codec.Array[codec.AckPartition]
	partitions.Append(codec.AckPartition{PartitionIndex: 1, Batches: all})
	topics.Append(codec.AckTopic{TopicID: codec.UUID{1}, Partitions: partitions})
	return topics
}

func TestAskedWhereNoPolicyDecides(t *testing.T) {
	for want, bs := range map[string][]codec.AckBatch{
		"0-9223372036854775806:1": {{FirstOffset: 0, LastOffset: 1<<63 - 2, Types: []byte{1}}},
		"3-4:1 5-5:3 6-6:2 8-9:2": {{FirstOffset: 3, LastOffset: 6, Types: []byte{1, 1, 3, 2}}, {FirstOffset: 8, LastOffset: 9, Types: []byte{2}}},
		"malformed":               {{FirstOffset: 3, LastOffset: 6, Types: []byte{1, 1}}},
		"malformed ":              {{FirstOffset: 3, LastOffset: 2, Types: []byte{1}}},
		"malformed  ":             {{FirstOffset: 3, LastOffset: 3, Types: []byte{1}}, {FirstOffset: 3, LastOffset: 3, Types: []byte{1}}},
		"malformed   ":            {{FirstOffset: math.MinInt64, LastOffset: math.MaxInt64, Types: []byte{1, 1}}},
		"malformed    ":           {{FirstOffset: 3, LastOffset: 3}},
	} {
		m, err := FromOutcome(&policy.Outcome{Request: policy.Request{Topics: batches(bs...)}}, false)
		if err != nil || len(m.Request.Partitions) != 1 {
			t.Fatal(m, err)
		}
		if got := show(m.Request.Partitions[0]); got != strings.TrimSpace(want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func show(p *policyv1.Partition) string {
	if p.Malformed {
		return "malformed"
	}
	var parts []string
	for _, r := range p.Ranges {
		b, _ := json.Marshal([]int64{r.First, r.Last, int64(r.Type)})
		parts = append(parts, strings.Replace(strings.Replace(strings.Trim(string(b), "[]"), ",", "-", 1), ",", ":", 1))
	}
	return strings.Join(parts, " ")
}

func TestTooManyRanges(t *testing.T) {
	types := make([]byte, 4*maxRanges)
	for i := range types {
		types[i] = byte(1 + i%2)
	}
	topics := batches(codec.AckBatch{FirstOffset: 0, LastOffset: int64(len(types)) - 1, Types: types})
	if _, err := FromOutcome(&policy.Outcome{Request: policy.Request{Topics: topics}}, false); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	many := []policy.Partition{{Ranges: make([]policy.Range, maxRanges)}, {Ranges: make([]policy.Range, 1)}}
	if _, err := FromRequest(&policy.Request{Partitions: many}, false); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	pieces := &policy.Decision{Partitions: []policy.Decided{{Pieces: make([]policy.Piece, maxRanges+1)}}}
	if _, err := FromOutcome(&policy.Outcome{Decision: pieces}, false); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}

func TestVerdicts(t *testing.T) {
	want := policy.Verdict{
		Edits: []policy.Edit{
			{TopicID: codec.UUID{1}, Partition: 2, First: 3, Last: 1<<63 - 2, Type: policy.Gap, Reason: "r"},
			{TopicID: codec.UUID{1}, Partition: 2, First: 3, Last: 3, Action: policy.Withhold, ErrorCode: 56},
		},
		Replies:      []policy.ReplyEdit{{TopLevel: true, ErrorCode: -1}, {TopicID: codec.UUID{3}, Partition: 4, ErrorCode: 5, Message: "m"}},
		DelayForward: time.Minute, DelayReply: time.Nanosecond, Close: policy.CloseTruncated, CloseAfter: 9, Reason: "all",
	}
	got, err := ToVerdict(across(t, FromVerdict(&want), &policyv1.Verdict{}))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	long, err := ToVerdict(&policyv1.Verdict{Reason: strings.Repeat("ä", maxReason)})
	if err != nil || long.Reason != strings.Repeat("ä", maxReason/2) {
		t.Errorf("%d bytes of reason, %v", len(long.Reason), err)
	}
}

func TestVerdictsThatMeanNothing(t *testing.T) {
	id := make([]byte, 16)
	change := &policyv1.Edit_Change{Change: 2}
	for want, m := range map[string]*policyv1.Verdict{
		"offsets 5 to 4":         {Edits: []*policyv1.Edit{{TopicId: id, First: 5, Last: 4, Action: change}}},
		"a topic id of 0 bytes":  {Edits: []*policyv1.Edit{{Action: change}}},
		"neither change nor":     {Edits: []*policyv1.Edit{{TopicId: id}}},
		"unknown type -1":        {Edits: []*policyv1.Edit{{TopicId: id, Action: &policyv1.Edit_Change{Change: -1}}}},
		"error code 65536":       {Edits: []*policyv1.Edit{{TopicId: id, Action: &policyv1.Edit_Withhold{Withhold: &policyv1.Withhold{ErrorCode: 65536}}}}},
		"edits[1]: offsets":      {Edits: []*policyv1.Edit{{TopicId: id, Action: change}, {First: 1}}},
		"replies[0]: error code": {Replies: []*policyv1.ReplyEdit{{TopLevel: true, ErrorCode: -65536}}},
		"replies[0]: a topic id": {Replies: []*policyv1.ReplyEdit{{}}},
		"unknown close 5":        {Close: 5},
		"unknown close -1":       {Close: -1},
		"close_after of -1":      {CloseAfter: -1},
		"a delay of -1s":         {DelayReply: durationpb.New(-time.Second)},
		"duration":               {DelayForward: &durationpb.Duration{Seconds: math.MaxInt64}},
		"16385 edits":            {Edits: make([]*policyv1.Edit, maxEdits+1)},
	} {
		if _, err := ToVerdict(m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if v, err := ToVerdict(nil); err != nil || !reflect.DeepEqual(v, policy.Verdict{}) {
		t.Errorf("an absent verdict: %+v, %v", v, err)
	}
}

// FuzzVerdict: nothing that a plugin sends makes the host panic, and what it takes says the same when it is sent back.
func FuzzVerdict(f *testing.F) {
	edits := []policy.Edit{{Last: 5, Type: 2}, {Action: policy.Withhold}}
	for _, v := range []policy.Verdict{{}, {Reason: "r", Edits: edits, Replies: decision().Replies}} {
		b, err := proto.Marshal(FromVerdict(&v))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m policyv1.Verdict
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		v, err := ToVerdict(&m)
		if err != nil {
			return
		}
		again, err := ToVerdict(FromVerdict(&v))
		if err != nil || !reflect.DeepEqual(v, again) {
			t.Errorf("%+v, then %+v, %v", v, again, err)
		}
	})
}
