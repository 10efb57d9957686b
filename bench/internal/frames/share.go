package frames

import "github.com/ackproxy/ackproxy/codec"

const (
	group   = "orders"
	member  = "dGhpcyBpcyBub3QgYSByZWFsIG1lbWJlcg=="
	records = 100 // of a ShareFetch answer
)

var topicID = codec.UUID{0x6f, 0x1d, 0xc2, 0x4e, 0x0b, 0x93, 0x4a, 0x51, 0x9c, 0x2e, 0x77, 0x08, 0x5d, 0xe1, 0x3f, 0xa6}

// topics acknowledges offsets of one partition in five batches, as a consumer does that accepted most, released one and rejected one.
func topics(maxBytes int32) (all codec.Array[codec.AckTopic]) {
	p := codec.AckPartition{PartitionIndex: 3, PartitionMaxBytes: maxBytes}
	for _, b := range []codec.AckBatch{
		{FirstOffset: 1000, LastOffset: 1039, Types: []byte{1}},
		{FirstOffset: 1040, LastOffset: 1040, Types: []byte{2}},
		{FirstOffset: 1041, LastOffset: 1078, Types: []byte{1}},
		{FirstOffset: 1079, LastOffset: 1079, Types: []byte{3}},
		{FirstOffset: 1080, LastOffset: 1099, Types: []byte{1}},
	} {
		p.Batches.Append(b)
	}
	t := codec.AckTopic{TopicID: topicID}
	t.Partitions.Append(p)
	all.Append(t)
	return all
}

func ack(version int16) Pair {
	q := codec.ShareAcknowledgeRequest{GroupID: []byte(group), MemberID: []byte(member), ShareSessionEpoch: 57, Topics: topics(0)}
	r := codec.NewAckResult(3, 0)
	r.ErrorMessage = []byte("no problems") // makes 65 bytes of 54, the size that figures elsewhere are given for
	t := codec.AckResultTopic{TopicID: topicID}
	t.Partitions.Append(r)
	var a codec.ShareAcknowledgeResponse
	a.Responses.Append(t)
	return Pair{Key: codec.KeyShareAcknowledge, Version: version,
		Request:  sized(q.Append(newRequest(codec.KeyShareAcknowledge, version), version)),
		Response: sized(a.Append(newResponse(), version))}
}

func shareFetch(version int16) Pair {
	q := codec.ShareFetchRequest{GroupID: []byte(group), MemberID: []byte(member), ShareSessionEpoch: 57, MaxWaitMs: 500, MinBytes: 1,
		MaxBytes: 50 << 20, MaxRecords: 500, BatchSize: 500, Topics: topics(1 << 20)}
	r := codec.NewFetchResult(3, 0)
	r.Records = batch(1100, records, 1<<10)
	r.AcquiredRecords.Append(codec.AcquiredRecord{FirstOffset: 1100, LastOffset: 1100 + records - 1, DeliveryCount: 1})
	t := codec.FetchResultTopic{TopicID: topicID}
	t.Partitions.Append(r)
	a := codec.ShareFetchResponse{AcquisitionLockTimeoutMs: 30_000}
	a.Responses.Append(t)
	return Pair{Key: codec.KeyShareFetch, Version: version,
		Request:  sized(q.Append(newRequest(codec.KeyShareFetch, version), version)),
		Response: sized(a.Append(newResponse(), version))}
}
