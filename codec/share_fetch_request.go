package codec

const maxShareFetch = 2

// ShareFetchRequest (key 78, v0 to v2; KIP-932) fetches, and carries most acknowledgements.
type ShareFetchRequest struct {
	GroupID             []byte // nil is null
	MemberID            []byte // nil is null
	ShareSessionEpoch   int32  // 0 opens the session, -1 closes it
	MaxWaitMs           int32
	MinBytes            int32
	MaxBytes            int32
	MaxRecords          int32 // v1 and later
	BatchSize           int32 // v1 and later
	ShareAcquireMode    int8  // v2 and later: 0 batch-optimized, 1 record-limit (KIP-1206)
	IsRenewAck          bool  // v2 and later (KIP-1222)
	Topics              Array[AckTopic]
	ForgottenTopicsData Array[ForgottenTopic]
	Tags                Tags
}

// Decode reads the body of a request of this version; at is where the body begins in its frame, and counts for Problem.At only. Unless
// it is Exact or Tolerated, m is left empty. Strings, arrays and tags point into body.
//
//go:noinline
func (m *ShareFetchRequest) Decode(body []byte, at int, version int16) (Outcome, *Problem) {
	return decode(m, body, at, version, maxShareFetch)
}

// Append appends the canonical encoding of the body to dst.
func (m *ShareFetchRequest) Append(dst []byte, version int16) []byte {
	return encode(m, dst, version, maxShareFetch)
}

func (m *ShareFetchRequest) walk(w *walker) {
	w.nullable("GroupId", &m.GroupID)
	w.nullable("MemberId", &m.MemberID)
	w.int32("ShareSessionEpoch", &m.ShareSessionEpoch)
	w.int32("MaxWaitMs", &m.MaxWaitMs)
	w.int32("MinBytes", &m.MinBytes)
	w.int32("MaxBytes", &m.MaxBytes)
	if w.version >= 1 {
		w.int32("MaxRecords", &m.MaxRecords)
		w.int32("BatchSize", &m.BatchSize)
	} else {
		w.layout |= hasMaxBytes
	}
	if w.version >= 2 {
		w.int8("ShareAcquireMode", &m.ShareAcquireMode)
		w.bool("IsRenewAck", &m.IsRenewAck)
	}
	array(w, "Topics", &m.Topics, &ackTopicShape)
	array(w, "ForgottenTopicsData", &m.ForgottenTopicsData, &forgottenTopicShape)
	w.tags(&m.Tags)
}

// ForgottenTopic names partitions to be dropped from the share session.
type ForgottenTopic struct {
	TopicID    UUID
	Partitions Array[int32]
	Tags       Tags
}

func (t *ForgottenTopic) walk(w *walker) {
	w.uuid("TopicId", &t.TopicID)
	array(w, "Partitions", &t.Partitions, &int32Shape)
	w.tags(&t.Tags)
}
