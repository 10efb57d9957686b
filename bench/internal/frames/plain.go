package frames

import (
	"hash/crc32"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
)

const (
	topicName      = "orders.v1"
	produceVersion = 12 // names topics; the newest that all peers read
	fetchVersion   = 17
)

func produce() Pair {
	q := kmsg.NewPtrProduceRequest()
	q.Version, q.Acks, q.TimeoutMillis = produceVersion, -1, 30_000
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = 3, batch(0, 1<<10, 1<<10)
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.Partitions = topicName, []kmsg.ProduceRequestTopicPartition{p}
	q.Topics = []kmsg.ProduceRequestTopic{t}

	a := kmsg.NewPtrProduceResponse()
	a.Version = produceVersion
	ap := kmsg.NewProduceResponseTopicPartition()
	ap.Partition, ap.BaseOffset, ap.LogStartOffset = 3, 1100, 0
	at := kmsg.NewProduceResponseTopic()
	at.Topic, at.Partitions = topicName, []kmsg.ProduceResponseTopicPartition{ap}
	a.Topics = []kmsg.ProduceResponseTopic{at}
	return Pair{Key: codec.KeyProduce, Version: produceVersion,
		Request:  sized(q.AppendTo(newRequest(codec.KeyProduce, produceVersion))),
		Response: sized(a.AppendTo(newResponse()))}
}

func fetch() Pair {
	q := kmsg.NewPtrFetchRequest()
	q.Version, q.MaxWaitMillis, q.MinBytes, q.MaxBytes = fetchVersion, 500, 1, 50<<20
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = 3, 1100, 1<<20
	t := kmsg.NewFetchRequestTopic()
	t.TopicID, t.Partitions = topicID, []kmsg.FetchRequestTopicPartition{p}
	q.Topics = []kmsg.FetchRequestTopic{t}

	a := kmsg.NewPtrFetchResponse()
	a.Version, a.SessionID = fetchVersion, 7
	ap := kmsg.NewFetchResponseTopicPartition()
	ap.Partition, ap.HighWatermark, ap.LastStableOffset, ap.LogStartOffset = 3, 9999, 9999, 0
	ap.RecordBatches = batch(1100, 1<<10, 1<<10)
	at := kmsg.NewFetchResponseTopic()
	at.TopicID, at.Partitions = topicID, []kmsg.FetchResponseTopicPartition{ap}
	a.Topics = []kmsg.FetchResponseTopic{at}
	return Pair{Key: codec.KeyFetch, Version: fetchVersion,
		Request:  sized(q.AppendTo(newRequest(codec.KeyFetch, fetchVersion))),
		Response: sized(a.AppendTo(newResponse()))}
}

// batch is a record batch of n records whose values do not compress.
func batch(base int64, n, bytes int) []byte {
	r := rand.NewChaCha8([32]byte{1})
	var body []byte
	for i := range n {
		rec := kmsg.Record{OffsetDelta: int32(i), Value: make([]byte, bytes)}
		_, _ = r.Read(rec.Value)
		rec.Length = int32(len(rec.AppendTo(nil)) - 1) // a Length of 0 takes one byte
		body = rec.AppendTo(body)
	}
	b := kmsg.RecordBatch{FirstOffset: base, PartitionLeaderEpoch: 4, Magic: 2, LastOffsetDelta: int32(n - 1), FirstTimestamp: 1.7e12,
		MaxTimestamp: 1.7e12, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(n), Records: body}
	const lengthEnds, crcEnds = 12, 21 // bytes before what the two count
	b.Length = int32(len(b.AppendTo(nil)) - lengthEnds)
	b.CRC = int32(crc32.Checksum(b.AppendTo(nil)[crcEnds:], crc32.MakeTable(crc32.Castagnoli)))
	return b.AppendTo(nil)
}
