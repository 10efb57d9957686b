package proxy

import (
	"sync"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// scratch is what reading a share request or its answer takes for a moment. It comes from a pool, since on the stack it would double what
// every idle connection occupies.
type scratch struct {
	req       policy.Request
	fetch     codec.ShareFetchRequest
	ack       codec.ShareAcknowledgeRequest
	txn       codec.TxnShareAcknowledgeRequest
	answer    codec.ShareAcknowledgeResponse
	txnAnswer codec.TxnShareAcknowledgeResponse
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// decode reads the acknowledgements of a request into req, whichever message carries them. The views in req point into frame.
func (s *scratch) decode(req *policy.Request, carrier policy.Carrier, frame []byte, body int, version int16) {
	req.Carrier = carrier
	switch carrier {
	case policy.ShareFetch:
		m := &s.fetch
		req.Decode, req.Problem = m.Decode(frame[body:], body, version)
		req.GroupID, req.MemberID, req.SessionEpoch, req.RenewAck, req.Topics = m.GroupID, m.MemberID, m.ShareSessionEpoch, m.IsRenewAck, m.Topics
	case policy.ShareAcknowledge:
		m := &s.ack
		req.Decode, req.Problem = m.Decode(frame[body:], body, version)
		req.GroupID, req.MemberID, req.SessionEpoch, req.RenewAck, req.Topics = m.GroupID, m.MemberID, m.ShareSessionEpoch, m.IsRenewAck, m.Topics
	case policy.TxnShareAcknowledge:
		m := &s.txn
		req.Decode, req.Problem = m.Decode(frame[body:], body, version)
		req.GroupID, req.MemberID, req.Topics = m.GroupID, m.MemberID, m.Topics
		req.TransactionalID, req.ProducerID, req.ProducerEpoch = m.TransactionalID, m.ProducerID, m.ProducerEpoch
	}
}

// concernsAcknowledgements says whether a request is worth remembering: a ShareFetch lists partitions to fetch from as well, so that only
// one that names offsets is.
func concernsAcknowledgements(req *policy.Request) bool {
	if req.Carrier != policy.ShareFetch {
		return req.Topics.Len() > 0
	}
	for topic := range req.Topics.All() {
		for partition := range topic.Partitions.All() {
			if partition.Batches.Len() > 0 {
				return true
			}
		}
	}
	return false
}

// clientID is the header's client id as a view into frame, a copy of the frame that h was read from.
func clientID(frame []byte, h codec.RequestHeader) []byte {
	if h.ClientID == nil {
		return nil
	}
	return frame[14 : 14+len(h.ClientID)]
}

// carrier says which message of acknowledgements a key stands for.
func (s *Server) carrier(key int16) policy.Carrier {
	switch key {
	case codec.KeyShareFetch:
		return policy.ShareFetch
	case codec.KeyShareAcknowledge:
		return policy.ShareAcknowledge
	}
	return policy.TxnShareAcknowledge
}

// apiName is the name of a key that we read: all but TxnShareAcknowledge, which may be on one that Kafka has not assigned, are Known.
func apiName(key int16) string {
	if name := codec.Name(key); name != "" {
		return name
	}
	return "TxnShareAcknowledge"
}

// mayBeTxn says whether a key is one that TxnShareAcknowledge has: the configured one, or where its draft is. It carries acknowledgements,
// so it is looked at also where it cannot be read.
func (s *Server) mayBeTxn(key int16) bool { return key == s.cfg.TxnKey || key == keyDraftTxn }

// reads says whether requests of a key are decoded.
func (s *Server) reads(key int16) bool {
	return key == codec.KeyShareFetch || key == codec.KeyShareAcknowledge || key == codec.KeyAddRaftVoter || s.mayBeTxn(key) ||
		key == codec.KeyEndTxn && s.cfg.Policies != nil && s.cfg.Policies.Transactions()
}

// produceAcks reads the acks of a Produce request of frame bytes, of which p has come; false when p ends before it. Only requests with
// acks 0 are owed no answer.
func produceAcks(p []byte, version int16, frame int) (acks int16, ok bool, err error) {
	s := scanner{p: p, at: 12, left: frame - len(p)}
	s.skip(max(0, int(s.int16()))) // client id, an old nullable string in every version
	switch {
	case version >= 9:
		s.tags(nil)
		s.text() // transactional id
	case version >= 3:
		s.skip(max(0, int(s.int16())))
	}
	acks = s.int16()
	if s.err == errMore {
		return 0, false, nil
	}
	return acks, s.err == nil, s.err
}
