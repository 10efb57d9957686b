package wire

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/plugins/pluginpb/ackproxy/policy/v1"
	"github.com/ackproxy/ackproxy/policy"
)

// maxRanges bounds what one message is made of. A frame of 100 MiB can hold as many ranges, and each takes a hundred bytes here.
const maxRanges = 1 << 17

// ErrTooLarge is why a request or an outcome does not go to a plugin.
var ErrTooLarge = errors.New("larger than a plugin takes")

// FromRequest translates a request with its Partitions; its frame only where one is wanted. Nothing of r is kept.
func FromRequest(r *policy.Request, frame bool) (*policyv1.Request, error) {
	m := fromRequest(r, frame)
	ranges := 0
	for i := range r.Partitions {
		ranges += len(r.Partitions[i].Ranges) + len(r.Partitions[i].Acquired)
	}
	if ranges > maxRanges {
		return nil, fmt.Errorf("%d ranges: %w", ranges, ErrTooLarge)
	}
	m.Partitions = make([]*policyv1.Partition, len(r.Partitions))
	for i := range r.Partitions {
		m.Partitions[i] = fromPartition(&r.Partitions[i])
	}
	return m, nil
}

func fromRequest(r *policy.Request, frame bool) *policyv1.Request {
	m := &policyv1.Request{
		Connection: fromConn(r.Conn),
		Principal:  fromPrincipal(r.Principal),
		Software:   text(r.Software),
		ApiKey:     int32(r.APIKey), ApiVersion: int32(r.APIVersion), CorrelationId: r.CorrelationID,
		ClientId: nullable(r.ClientID), GroupId: nullable(r.GroupID), MemberId: nullable(r.MemberID),
		Carrier: policyv1.Carrier(r.Carrier) + 1, Decoding: policyv1.Decoding(r.Decode) + 1,
		SessionEpoch: r.SessionEpoch, RenewAck: r.RenewAck,
		Received: timestamp(r.Received),
	}
	if p := r.Problem; p != nil {
		m.Problem = &policyv1.Problem{Reason: text(p.Reason), At: int32(p.At), Field: text(p.Field)}
	}
	if frame {
		m.Frame = append([]byte(nil), r.Frame...)
	}
	return m
}

func fromPrincipal(p policy.Principal) *policyv1.Principal {
	return &policyv1.Principal{Name: text(p.Name), Source: text(p.Source), VerifiedBy: text(p.VerifiedBy)}
}

func toPrincipal(m *policyv1.Principal) policy.Principal {
	return policy.Principal{Name: m.GetName(), Source: m.GetSource(), VerifiedBy: m.GetVerifiedBy()}
}

func fromConn(c *policy.Conn) *policyv1.Connection {
	if c == nil {
		return nil
	}
	return &policyv1.Connection{
		Id: c.ID, Listener: text(c.Listener), BrokerId: c.BrokerID, Client: text(c.Client), Upstream: text(c.Upstream), Opened: timestamp(c.Opened),
	}
}

func fromPartition(p *policy.Partition) *policyv1.Partition {
	m := &policyv1.Partition{
		TopicId: append([]byte(nil), p.TopicID[:]...), Topic: text(p.Topic), Index: p.Index, Malformed: p.Malformed,
		Ranges: make([]*policyv1.Range, len(p.Ranges)),
	}
	made := make([]policyv1.Range, len(p.Ranges))
	for i, r := range p.Ranges {
		made[i].First, made[i].Last, made[i].Type = r.First, r.Last, policyv1.AcknowledgeType(r.Type)
		m.Ranges[i] = &made[i]
	}
	m.Acquired = fromAcquired(p.Acquired)
	return m
}

// ToRequest translates back. Where m has a frame, all that stands in one is read from it, so that it is what the proxy itself reads.
func ToRequest(m *policyv1.Request) (*policy.Request, error) {
	if m == nil {
		return nil, errors.New("no request")
	}
	r := &policy.Request{
		Conn:      toConn(m.GetConnection()),
		Principal: toPrincipal(m.GetPrincipal()),
		Software:  m.GetSoftware(),
		APIKey:    int16(m.GetApiKey()), APIVersion: int16(m.GetApiVersion()), CorrelationID: m.GetCorrelationId(),
		ClientID: bytesOf(m.ClientId), GroupID: bytesOf(m.GroupId), MemberID: bytesOf(m.MemberId),
		Carrier: policy.Carrier(m.GetCarrier() - 1), Decode: codec.Outcome(m.GetDecoding() - 1),
		SessionEpoch: m.GetSessionEpoch(), RenewAck: m.GetRenewAck(),
		Received: timeOf(m.GetReceived()),
		Frame:    m.GetFrame(),
	}
	if m.GetCarrier() < policyv1.Carrier_CARRIER_SHARE_FETCH || r.Carrier > policy.TxnShareAcknowledge {
		return nil, fmt.Errorf("unknown carrier %d", m.GetCarrier())
	}
	if p := m.GetProblem(); p != nil {
		r.Problem = &codec.Problem{Reason: p.GetReason(), At: int(p.GetAt()), Field: p.GetField()}
	}
	for _, p := range m.GetPartitions() {
		partition, err := toPartition(p)
		if err != nil {
			return nil, err
		}
		r.Partitions = append(r.Partitions, partition)
	}
	readFrame(r)
	return r, nil
}

// readFrame fills in the views of a request that was decoded.
func readFrame(r *policy.Request) {
	if len(r.Frame) == 0 || r.Decode > codec.Tolerated {
		return
	}
	txnKey := int16(-1)
	if r.Carrier == policy.TxnShareAcknowledge {
		txnKey = r.APIKey
	}
	h, body, outcome, _ := codec.DecodeRequestHeader(r.Frame, txnKey)
	if outcome > codec.Tolerated {
		return
	}
	r.ClientID = h.ClientID
	payload := r.Frame[body:]
	switch {
	case r.APIKey == codec.KeyShareFetch:
		var b codec.ShareFetchRequest
		if o, _ := b.Decode(payload, body, r.APIVersion); o <= codec.Tolerated {
			r.GroupID, r.MemberID, r.Topics = b.GroupID, b.MemberID, b.Topics
		}
	case r.APIKey == codec.KeyShareAcknowledge:
		var b codec.ShareAcknowledgeRequest
		if o, _ := b.Decode(payload, body, r.APIVersion); o <= codec.Tolerated {
			r.GroupID, r.MemberID, r.Topics = b.GroupID, b.MemberID, b.Topics
		}
	case r.Carrier == policy.TxnShareAcknowledge:
		var b codec.TxnShareAcknowledgeRequest
		if o, _ := b.Decode(payload, body, r.APIVersion); o <= codec.Tolerated {
			r.GroupID, r.MemberID, r.Topics = b.GroupID, b.MemberID, b.Topics
		}
	}
}

func toConn(m *policyv1.Connection) *policy.Conn {
	return &policy.Conn{
		ID: m.GetId(), Listener: m.GetListener(), BrokerID: m.GetBrokerId(), Client: m.GetClient(), Upstream: m.GetUpstream(),
		Opened: timeOf(m.GetOpened()),
	}
}

func toPartition(m *policyv1.Partition) (policy.Partition, error) {
	id, err := uuid(m.GetTopicId())
	p := policy.Partition{TopicID: id, Topic: m.GetTopic(), Index: m.GetIndex(), Malformed: m.GetMalformed()}
	for _, r := range m.GetRanges() {
		p.Ranges = append(p.Ranges, policy.Range{First: r.GetFirst(), Last: r.GetLast(), Type: int8(r.GetType())})
	}
	p.Acquired = toAcquired(m.GetAcquired())
	return p, err
}

func uuid(b []byte) (id codec.UUID, err error) {
	if len(b) != len(id) {
		return id, fmt.Errorf("a topic id of %d bytes, not %d", len(b), len(id))
	}
	copy(id[:], b)
	return id, nil
}

// text is what proto3 takes for a string: anything else does not encode.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func nullable(b []byte) *string {
	if b == nil {
		return nil
	}
	s := text(string(b))
	return &s
}

func bytesOf(s *string) []byte {
	if s == nil {
		return nil
	}
	return append([]byte{}, *s...)
}

func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func timeOf(m *timestamppb.Timestamp) time.Time {
	if m == nil {
		return time.Time{}
	}
	return m.AsTime()
}

func duration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}
