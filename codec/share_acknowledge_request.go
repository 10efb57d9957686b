package codec

const maxShareAcknowledge = 2

// ShareAcknowledgeRequest (key 79, v0 to v2; KIP-932, renewal in v2 by KIP-1222) acknowledges records outside of a fetch.
type ShareAcknowledgeRequest struct {
	GroupID           []byte // nil is null
	MemberID          []byte // nil is null
	ShareSessionEpoch int32  // -1 closes the session
	IsRenewAck        bool   // v2 and later
	Topics            Array[AckTopic]
	Tags              Tags
}

// Decode reads the body of a request of this version; at is where the body begins in its frame, and counts for Problem.At only. Unless
// it is Exact or Tolerated, m is left empty. Strings, arrays and tags point into body.
//
//go:noinline
func (m *ShareAcknowledgeRequest) Decode(body []byte, at int, version int16) (Outcome, *Problem) {
	return decode(m, body, at, version, maxShareAcknowledge)
}

// Append appends the canonical encoding of the body to dst.
func (m *ShareAcknowledgeRequest) Append(dst []byte, version int16) []byte {
	return encode(m, dst, version, maxShareAcknowledge)
}

func (m *ShareAcknowledgeRequest) walk(w *walker) {
	w.nullable("GroupId", &m.GroupID)
	w.nullable("MemberId", &m.MemberID)
	w.int32("ShareSessionEpoch", &m.ShareSessionEpoch)
	if w.version >= 2 {
		w.bool("IsRenewAck", &m.IsRenewAck)
	}
	array(w, "Topics", &m.Topics, &ackTopicShape)
	w.tags(&m.Tags)
}
