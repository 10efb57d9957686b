package codec

// TxnShareAcknowledgeResponse (v0, its key is configured; KIP-1289, a proposal) is the verdict about a TxnShareAcknowledgeRequest.
// No draft gives the tagged fields numbers yet: 0 for NodeEndpoints, and 0 for the CurrentLeader of a partition, are our choice.
// They are read in any order; of one that is repeated the last counts, as for a Java reader; one that stands there at its default is
// Tolerated and not written again; one whose contents do not fill its size is Anomalous, since readers go on at different bytes.
type TxnShareAcknowledgeResponse struct {
	ThrottleTimeMs int32
	ErrorCode      int16 // of the whole request
	Responses      Array[AckResultTopic]
	NodeEndpoints  Array[NodeEndpoint] // tagged, absent when empty
	Tags           Tags
}

// Decode reads the body of a response of this version; at is where the body begins in its frame, and counts for Problem.At only. Unless
// it is Exact or Tolerated, m is left empty. Strings, arrays and tags point into body.
//
//go:noinline
func (m *TxnShareAcknowledgeResponse) Decode(body []byte, at int, version int16) (Outcome, *Problem) {
	return decode(m, body, at, version, maxTxnShareAcknowledge)
}

// Append appends the canonical encoding of the body to dst.
func (m *TxnShareAcknowledgeResponse) Append(dst []byte, version int16) []byte {
	return encode(m, dst, version, maxTxnShareAcknowledge)
}

func (m *TxnShareAcknowledgeResponse) walk(w *walker) {
	w.layout |= leaderTagged
	w.int32("ThrottleTimeMs", &m.ThrottleTimeMs)
	w.int16("ErrorCode", &m.ErrorCode)
	array(w, "Responses", &m.Responses, &ackResultTopicShape)
	if !w.appending {
		m.NodeEndpoints = Array[NodeEndpoint]{}
	}
	w.tagsAnd(&m.Tags, m.NodeEndpoints.Len() > 0, func() {
		at := w.pos
		array(w, "NodeEndpoints", &m.NodeEndpoints, &nodeEndpointShape)
		w.atDefault("NodeEndpoints", at, m.NodeEndpoints.Len() == 0)
	})
}
