package proxy

import (
	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

func (r *responses) shareAcknowledge(m *mapper, frame []byte, body int) ([]byte, error) {
	local := scratches.Get().(*scratch)
	defer scratches.Put(local)
	a := &local.answer
	outcome, problem := a.Decode(frame[body:], body, r.x.version)
	if err := readable(outcome, problem); err != nil {
		return nil, err
	}
	var instead []byte
	if endpoints, changed := m.endpointsOf(a.NodeEndpoints); changed || outcome == codec.Tolerated {
		b := *a
		b.NodeEndpoints, b.Responses = endpoints, m.leaderless(a.Responses)
		instead = sized(b.Append(append(make([]byte, 0, len(frame)+64), frame[:body]...), r.x.version))
	}
	if r.x.outcome != nil {
		reply := policy.Reply{ErrorCode: a.ErrorCode, ErrorMessage: string(a.ErrorMessage), LockTimeoutMs: a.AcquisitionLockTimeoutMs}
		reply.Partitions = results(r.x.outcome.Reply.Partitions, a.Responses)
		r.verdict(reply)
	}
	return instead, nil
}

func (r *responses) txnShareAcknowledge(m *mapper, frame []byte, body int) ([]byte, error) {
	local := scratches.Get().(*scratch)
	defer scratches.Put(local)
	a := &local.txnAnswer
	outcome, problem := a.Decode(frame[body:], body, r.x.version)
	if err := readable(outcome, problem); err != nil {
		return nil, err
	}
	var instead []byte
	if endpoints, changed := m.endpointsOf(a.NodeEndpoints); changed || outcome == codec.Tolerated {
		b := *a
		b.NodeEndpoints, b.Responses = endpoints, m.leaderless(a.Responses)
		instead = sized(b.Append(append(make([]byte, 0, len(frame)+64), frame[:body]...), r.x.version))
	}
	if r.x.outcome != nil {
		r.verdict(policy.Reply{ErrorCode: a.ErrorCode, Partitions: results(r.x.outcome.Reply.Partitions, a.Responses)})
	}
	return instead, nil
}

// results appends copies of the partitions' verdicts in an answer to all.
func results(all []policy.PartitionResult, topics codec.Array[codec.AckResultTopic]) []policy.PartitionResult {
	for topic := range topics.All() {
		for p := range topic.Partitions.All() {
			all = append(all, policy.PartitionResult{TopicID: topic.TopicID, Partition: p.PartitionIndex, ErrorCode: p.ErrorCode, ErrorMessage: string(p.ErrorMessage)})
		}
	}
	return all
}

// addRaftVoter reads an answer that has no addresses, so that it passes whatever is in it; unless its request was not read either, and
// may have been something else.
func (r *responses) addRaftVoter(frame []byte, body int) error {
	var a codec.AddRaftVoterResponse
	outcome, problem := a.Decode(frame[body:], body, r.x.version)
	switch {
	case outcome == codec.Exact || outcome == codec.Tolerated:
		r.verdict(policy.Reply{ErrorCode: a.ErrorCode, ErrorMessage: string(a.ErrorMessage)})
	case outcome == codec.Anomalous && (r.x.outcome == nil || r.x.outcome.Request.Decode == codec.Anomalous):
		return problem
	default:
		r.verdict(policy.Reply{State: policy.Unreadable})
	}
	return nil
}
