package codec

// ShareAcknowledgeResponse (key 79, v0 to v2; KIP-932) is the broker's verdict, one code a partition.
type ShareAcknowledgeResponse struct {
	ThrottleTimeMs           int32
	ErrorCode                int16  // of the whole request
	ErrorMessage             []byte // nil is null
	AcquisitionLockTimeoutMs int32  // v2 and later
	Responses                Array[AckResultTopic]
	NodeEndpoints            Array[NodeEndpoint]
	Tags                     Tags
}

// Decode reads the body of a response of this version; at is where the body begins in its frame, and counts for Problem.At only. Unless
// it is Exact or Tolerated, m is left empty. Strings, arrays and tags point into body.
//
//go:noinline
func (m *ShareAcknowledgeResponse) Decode(body []byte, at int, version int16) (Outcome, *Problem) {
	return decode(m, body, at, version, maxShareAcknowledge)
}

// Append appends the canonical encoding of the body to dst.
func (m *ShareAcknowledgeResponse) Append(dst []byte, version int16) []byte {
	return encode(m, dst, version, maxShareAcknowledge)
}

func (m *ShareAcknowledgeResponse) walk(w *walker) {
	w.int32("ThrottleTimeMs", &m.ThrottleTimeMs)
	w.int16("ErrorCode", &m.ErrorCode)
	w.nullable("ErrorMessage", &m.ErrorMessage)
	if w.version >= 2 {
		w.int32("AcquisitionLockTimeoutMs", &m.AcquisitionLockTimeoutMs)
	}
	array(w, "Responses", &m.Responses, &ackResultTopicShape)
	array(w, "NodeEndpoints", &m.NodeEndpoints, &nodeEndpointShape)
	w.tags(&m.Tags)
}

// AckResultTopic is one topic's verdicts, in ShareAcknowledge and TxnShareAcknowledge responses alike.
type AckResultTopic struct {
	TopicID    UUID
	Partitions Array[AckResult]
	Tags       Tags
}

func (t *AckResultTopic) walk(w *walker) {
	w.uuid("TopicId", &t.TopicID)
	array(w, "Partitions", &t.Partitions, &ackResultShape)
	w.tags(&t.Tags)
}

// AckResult is the verdict about one partition's acknowledgements: all of them went through, or none.
type AckResult struct {
	PartitionIndex int32
	ErrorCode      int16
	ErrorMessage   []byte           // nil is null
	CurrentLeader  LeaderIDAndEpoch // in TxnShareAcknowledge a tagged field, absent at its default
	Tags           Tags
}

// NewAckResult is the verdict of a proxy's own making, which knows of no leader.
func NewAckResult(partition int32, code int16) AckResult {
	return AckResult{PartitionIndex: partition, ErrorCode: code, CurrentLeader: NoLeader()}
}

func (r *AckResult) walk(w *walker) {
	w.int32("PartitionIndex", &r.PartitionIndex)
	w.int16("ErrorCode", &r.ErrorCode)
	w.nullable("ErrorMessage", &r.ErrorMessage)
	if w.has(leaderTagged) {
		r.walkTags(w)
		return
	}
	r.CurrentLeader.walk(w)
	w.tags(&r.Tags)
}

func (r *AckResult) walkTags(w *walker) {
	if !w.appending {
		r.CurrentLeader = NoLeader()
	}
	w.tagsAnd(&r.Tags, !r.CurrentLeader.none(), func() {
		at := w.pos
		r.CurrentLeader.walk(w)
		w.atDefault("CurrentLeader", at, r.CurrentLeader.none())
	})
}
