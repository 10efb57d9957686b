package codec

const maxTxnShareAcknowledge = 0

// TxnShareAcknowledgeRequest (v0, its key is configured; KIP-1289, a proposal) acknowledges records as part of a transaction. It has
// no share session epoch: the session does not notice it.
type TxnShareAcknowledgeRequest struct {
	TransactionalID []byte // nil is null
	GroupID         []byte
	ProducerID      int64
	ProducerEpoch   int16
	MemberID        []byte
	MemberEpoch     int32
	Topics          Array[AckTopic]
	Tags            Tags
}

// Decode reads the body of a request of this version; at is where the body begins in its frame, and counts for Problem.At only. Unless
// it is Exact or Tolerated, m is left empty. Strings, arrays and tags point into body.
//
//go:noinline
func (m *TxnShareAcknowledgeRequest) Decode(body []byte, at int, version int16) (Outcome, *Problem) {
	return decode(m, body, at, version, maxTxnShareAcknowledge)
}

// Append appends the canonical encoding of the body to dst.
func (m *TxnShareAcknowledgeRequest) Append(dst []byte, version int16) []byte {
	return encode(m, dst, version, maxTxnShareAcknowledge)
}

func (m *TxnShareAcknowledgeRequest) walk(w *walker) {
	w.nullable("TransactionalId", &m.TransactionalID)
	w.str("GroupId", &m.GroupID)
	w.int64("ProducerId", &m.ProducerID)
	w.int16("ProducerEpoch", &m.ProducerEpoch)
	w.str("MemberId", &m.MemberID)
	w.int32("MemberEpoch", &m.MemberEpoch)
	array(w, "Topics", &m.Topics, &ackTopicShape)
	w.tags(&m.Tags)
}
