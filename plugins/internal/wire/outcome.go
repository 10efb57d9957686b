package wire

import (
	"errors"
	"fmt"
	"time"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/plugins/pluginpb/ackproxy/policy/v1"
	"github.com/ackproxy/ackproxy/policy"
)

// FromOutcome translates an outcome; the frame of its request only where one is wanted. Nothing of o is kept.
func FromOutcome(o *policy.Outcome, frame bool) (*policyv1.Outcome, error) {
	m := &policyv1.Outcome{
		Kind: policyv1.OutcomeKind(o.Kind) + 1, Request: fromRequest(&o.Request, frame), Reply: fromReply(&o.Request, &o.Reply), Note: text(o.Note),
	}
	var err error
	if o.Decision != nil {
		m.Decision, err = fromDecision(o.Decision)
	} else {
		m.Request.Partitions, err = asked(o.Request.Topics)
	}
	return m, err
}

func fromReply(r *policy.Request, p *policy.Reply) *policyv1.Reply {
	m := &policyv1.Reply{
		State: policyv1.ReplyState(p.State) + 1, ErrorCode: int32(p.ErrorCode), ErrorMessage: text(p.ErrorMessage), LockTimeoutMs: p.LockTimeoutMs,
	}
	if !p.Received.IsZero() {
		m.After = duration(p.Received.Sub(r.Received))
	}
	for i := range p.Partitions {
		q := &p.Partitions[i]
		m.Partitions = append(m.Partitions, &policyv1.PartitionResult{
			TopicId: append([]byte(nil), q.TopicID[:]...), Partition: q.Partition, ErrorCode: int32(q.ErrorCode), ErrorMessage: text(q.ErrorMessage),
		})
	}
	return m
}

func fromDecision(d *policy.Decision) (*policyv1.Decision, error) {
	m := &policyv1.Decision{
		Replies: fromReplies(d.Replies), DelayForward: duration(d.DelayForward), DelayReply: duration(d.DelayReply),
		Close: policyv1.Close(d.Close), CloseAfter: int32(d.CloseAfter), Gone: d.Gone,
	}
	pieces := 0
	for i := range d.Partitions {
		p := &d.Partitions[i]
		if pieces += len(p.Pieces); pieces > maxRanges {
			return nil, fmt.Errorf("%d ranges: %w", pieces, ErrTooLarge)
		}
		q := &policyv1.DecidedPartition{TopicId: append([]byte(nil), p.TopicID[:]...), Topic: text(p.Topic), Index: p.Index, Malformed: p.Malformed}
		for _, x := range p.Pieces {
			q.Pieces = append(q.Pieces, &policyv1.Piece{
				First: x.First, Last: x.Last, Asked: policyv1.AcknowledgeType(x.Asked), Forwarded: policyv1.AcknowledgeType(x.Forwarded),
				Withheld: x.Withheld, ErrorCode: int32(x.ErrorCode), Policy: text(x.Policy), Reason: text(x.Reason),
			})
		}
		m.Partitions = append(m.Partitions, q)
	}
	for _, s := range d.Trail {
		step := &policyv1.Step{Policy: text(s.Policy), Took: duration(s.Took), Reason: text(s.Reason)}
		if s.Err != nil {
			why := text(s.Err.Error())
			step.Error, step.Failed = &why, policyv1.FailureMode(s.Failed)
		}
		m.Trail = append(m.Trail, step)
	}
	return m, nil
}

// ToOutcome translates back. The outcome is the garbage collector's.
func ToOutcome(m *policyv1.Outcome) (*policy.Outcome, error) {
	asked := m.GetRequest()
	if asked == nil {
		return nil, errors.New("an outcome without a request")
	}
	asked.Partitions = nil // for policies only
	r, err := ToRequest(asked)
	if err != nil {
		return nil, err
	}
	o := &policy.Outcome{Kind: policy.Kind(m.GetKind() - 1), Request: *r, Note: m.GetNote()}
	if m.GetKind() <= 0 || o.Kind > policy.CoverageGap {
		return nil, fmt.Errorf("unknown kind %d", m.GetKind())
	}
	if err := toReply(&o.Reply, m.GetReply(), r.Received); err != nil {
		return nil, err
	}
	if d := m.GetDecision(); d != nil {
		o.Decision, err = toDecision(d)
	}
	return o, err
}

func toReply(p *policy.Reply, m *policyv1.Reply, asked time.Time) (err error) {
	p.State = policy.ReplyState(max(0, m.GetState()-1))
	p.ErrorCode, p.ErrorMessage, p.LockTimeoutMs = int16(m.GetErrorCode()), m.GetErrorMessage(), m.GetLockTimeoutMs()
	if !asked.IsZero() {
		p.Received = asked.Add(m.GetAfter().AsDuration())
	}
	for _, q := range m.GetPartitions() {
		result := policy.PartitionResult{Partition: q.GetPartition(), ErrorCode: int16(q.GetErrorCode()), ErrorMessage: q.GetErrorMessage()}
		if result.TopicID, err = uuid(q.GetTopicId()); err != nil {
			return err
		}
		p.Partitions = append(p.Partitions, result)
	}
	return nil
}

func toDecision(m *policyv1.Decision) (d *policy.Decision, err error) {
	d = &policy.Decision{DelayForward: m.GetDelayForward().AsDuration(), DelayReply: m.GetDelayReply().AsDuration(), CloseAfter: int(m.GetCloseAfter()),
		Gone: m.GetGone()}
	if d.Close, err = toClose(m.GetClose()); err != nil {
		return nil, err
	}
	if d.Replies, err = toReplies(m.GetReplies()); err != nil {
		return nil, err
	}
	for _, q := range m.GetPartitions() {
		p := policy.Decided{Topic: q.GetTopic(), Index: q.GetIndex(), Malformed: q.GetMalformed()}
		if p.TopicID, err = uuid(q.GetTopicId()); err != nil {
			return nil, err
		}
		for _, x := range q.GetPieces() {
			p.Pieces = append(p.Pieces, policy.Piece{
				First: x.GetFirst(), Last: x.GetLast(), Asked: int8(x.GetAsked()), Forwarded: int8(x.GetForwarded()),
				Withheld: x.GetWithheld(), ErrorCode: int16(x.GetErrorCode()), Policy: x.GetPolicy(), Reason: x.GetReason(),
			})
		}
		d.Partitions = append(d.Partitions, p)
	}
	for _, x := range m.GetTrail() {
		s := policy.Step{Policy: x.GetPolicy(), Took: x.GetTook().AsDuration(), Reason: x.GetReason()}
		if x.Error != nil {
			s.Err, s.Failed = errors.New(x.GetError()), policy.FailureMode(x.GetFailed())
		}
		d.Trail = append(d.Trail, s)
	}
	return d, nil
}

// asked is what a client acknowledges, where no policy looked at it: runs of one type, the last entry of a partition.
func asked(topics codec.Array[codec.AckTopic]) ([]*policyv1.Partition, error) {
	type key struct {
		topic     codec.UUID
		partition int32
	}
	var made []*policyv1.Partition
	at := map[key]*policyv1.Partition{}
	left := maxRanges
	for t := range topics.All() {
		for p := range t.Partitions.All() {
			k := key{t.TopicID, p.PartitionIndex}
			m := at[k]
			if p.Batches.Len() == 0 {
				if m != nil {
					m.Ranges, m.Malformed = nil, false
				}
				continue
			}
			if m == nil {
				m = &policyv1.Partition{TopicId: append([]byte(nil), t.TopicID[:]...), Index: p.PartitionIndex}
				at[k], made = m, append(made, m)
			}
			if m.Ranges, m.Malformed = runs(p.Batches, left); m.Ranges == nil && !m.Malformed {
				return nil, fmt.Errorf("more than %d ranges: %w", maxRanges, ErrTooLarge)
			}
			left -= len(m.Ranges) + 1 // one for the partition
		}
	}
	return made, nil
}

// runs joins offsets of one type; nil without malformed where there are more than most.
func runs(batches codec.Array[codec.AckBatch], most int) (ranges []*policyv1.Range, malformed bool) {
	last := int64(-1)
	for b := range batches.All() {
		n := uint64(len(b.Types))
		if b.FirstOffset <= last || b.LastOffset < b.FirstOffset || n == 0 || n > 1 && n != uint64(b.LastOffset-b.FirstOffset)+1 {
			return nil, true
		}
		last = b.LastOffset
		for i := 0; i < len(b.Types); {
			first := i
			for i++; i < len(b.Types) && b.Types[i] == b.Types[first]; i++ {
			}
			r := &policyv1.Range{First: b.FirstOffset + int64(first), Last: b.FirstOffset + int64(i) - 1, Type: policyv1.AcknowledgeType(int8(b.Types[first]))}
			if n == 1 {
				r.Last = b.LastOffset
			}
			if ranges = append(ranges, r); len(ranges) > most {
				return nil, false
			}
		}
	}
	return ranges, false
}
