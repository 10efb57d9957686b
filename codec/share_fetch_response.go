package codec

// ShareFetchResponse (key 78, v0 to v2; KIP-932) carries records, and the verdicts about the acknowledgements of its request.
type ShareFetchResponse struct {
	ThrottleTimeMs           int32
	ErrorCode                int16  // of the whole request
	ErrorMessage             []byte // nil is null
	AcquisitionLockTimeoutMs int32  // v1 and later
	Responses                Array[FetchResultTopic]
	NodeEndpoints            Array[NodeEndpoint]
	Tags                     Tags
}

// Decode reads the body of a response of this version; at is where the body begins in its frame, and counts for Problem.At only. Unless
// it is Exact or Tolerated, m is left empty. Strings, arrays and tags point into body.
//
//go:noinline
func (m *ShareFetchResponse) Decode(body []byte, at int, version int16) (Outcome, *Problem) {
	return decode(m, body, at, version, maxShareFetch)
}

// Append appends the canonical encoding of the body to dst.
func (m *ShareFetchResponse) Append(dst []byte, version int16) []byte {
	return encode(m, dst, version, maxShareFetch)
}

func (m *ShareFetchResponse) walk(w *walker) {
	w.int32("ThrottleTimeMs", &m.ThrottleTimeMs)
	w.int16("ErrorCode", &m.ErrorCode)
	w.nullable("ErrorMessage", &m.ErrorMessage)
	if w.version >= 1 {
		w.int32("AcquisitionLockTimeoutMs", &m.AcquisitionLockTimeoutMs)
	}
	array(w, "Responses", &m.Responses, &fetchResultTopicShape)
	array(w, "NodeEndpoints", &m.NodeEndpoints, &nodeEndpointShape)
	w.tags(&m.Tags)
}

// FetchResultTopic is what was fetched of one topic.
type FetchResultTopic struct {
	TopicID    UUID
	Partitions Array[FetchResult]
	Tags       Tags
}

func (t *FetchResultTopic) walk(w *walker) {
	w.uuid("TopicId", &t.TopicID)
	array(w, "Partitions", &t.Partitions, &fetchResultShape)
	w.tags(&t.Tags)
}

// FetchResult is what was fetched of one partition, and the verdict about its acknowledgements.
type FetchResult struct {
	PartitionIndex          int32
	ErrorCode               int16  // of the fetch
	ErrorMessage            []byte // nil is null
	AcknowledgeErrorCode    int16
	AcknowledgeErrorMessage []byte // nil is null
	CurrentLeader           LeaderIDAndEpoch
	Records                 []byte // whole record batches, with more offsets than were acquired; nil is null
	AcquiredRecords         Array[AcquiredRecord]
	Tags                    Tags
}

// NewFetchResult is the answer of a proxy's own making: no records, and a verdict about the acknowledgements.
func NewFetchResult(partition int32, acknowledgeCode int16) FetchResult {
	return FetchResult{PartitionIndex: partition, AcknowledgeErrorCode: acknowledgeCode, CurrentLeader: NoLeader(), Records: []byte{}}
}

func (r *FetchResult) walk(w *walker) {
	w.int32("PartitionIndex", &r.PartitionIndex)
	w.int16("ErrorCode", &r.ErrorCode)
	w.nullable("ErrorMessage", &r.ErrorMessage)
	w.int16("AcknowledgeErrorCode", &r.AcknowledgeErrorCode)
	w.nullable("AcknowledgeErrorMessage", &r.AcknowledgeErrorMessage)
	r.CurrentLeader.walk(w)
	w.records("Records", &r.Records)
	array(w, "AcquiredRecords", &r.AcquiredRecords, &acquiredRecordShape)
	w.tags(&r.Tags)
}

// AcquiredRecord is a range of offsets that the member now holds. FirstOffset may be greater than LastOffset.
type AcquiredRecord struct {
	FirstOffset, LastOffset int64
	DeliveryCount           int16
	Tags                    Tags
}

func (r *AcquiredRecord) walk(w *walker) {
	w.int64("FirstOffset", &r.FirstOffset)
	w.int64("LastOffset", &r.LastOffset)
	w.int16("DeliveryCount", &r.DeliveryCount)
	w.tags(&r.Tags)
}
