package codec

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ackBody is a ShareAcknowledge v2 body of so many topics, partitions each and batches each, with so many types a batch.
func ackBody(topics, partitions, batches, types int) []byte {
	m := kmsg.NewShareAcknowledgeRequest()
	m.Version = 2
	m.GroupID, m.MemberID = kmsg.StringPtr("order-processors"), kmsg.StringPtr("0c1a1f52-9f5e-4c55")
	for t := range topics {
		topic := kmsg.NewShareAcknowledgeRequestTopic()
		topic.TopicID = [16]byte{byte(t), 1, 2, 3}
		for p := range partitions {
			part := kmsg.NewShareAcknowledgeRequestTopicPartition()
			part.Partition = int32(p)
			for b := range batches {
				batch := kmsg.NewShareAcknowledgeRequestTopicPartitionAcknowledgementBatch()
				batch.FirstOffset, batch.LastOffset = int64(b*types), int64(b*types+types-1)
				for i := range types {
					batch.AcknowledgeTypes = append(batch.AcknowledgeTypes, int8(1+i%3))
				}
				part.AcknowledgementBatches = append(part.AcknowledgementBatches, batch)
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		m.Topics = append(m.Topics, topic)
	}
	return m.AppendTo(nil)
}

var sink int64

func BenchmarkDecodeShareAcknowledge(b *testing.B) {
	for _, size := range []struct {
		name                               string
		topics, partitions, batches, types int
	}{{"1x1x1", 1, 1, 1, 1}, {"10x10x10", 10, 10, 10, 10}} {
		body := ackBody(size.topics, size.partitions, size.batches, size.types)
		run := func(name string, f func()) {
			b.Run(name+"/"+size.name, func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					f()
				}
			})
		}
		run("ours", func() {
			var m ShareAcknowledgeRequest
			if o, _ := m.Decode(body, 0, 2); o != Exact {
				b.Fatal(o)
			}
		})
		run("kmsg", func() {
			m := kmsg.ShareAcknowledgeRequest{Version: 2}
			if err := m.ReadFrom(body); err != nil {
				b.Fatal(err)
			}
		})
		run("ours-iterate", func() {
			var m ShareAcknowledgeRequest
			if o, _ := m.Decode(body, 0, 2); o != Exact {
				b.Fatal(o)
			}
			for t := range m.Topics.All() {
				for p := range t.Partitions.All() {
					for batch := range p.Batches.All() {
						sink += batch.LastOffset - batch.FirstOffset + int64(len(batch.Types))
					}
				}
			}
		})
		run("kmsg-iterate", func() {
			m := kmsg.ShareAcknowledgeRequest{Version: 2}
			if err := m.ReadFrom(body); err != nil {
				b.Fatal(err)
			}
			for _, t := range m.Topics {
				for _, p := range t.Partitions {
					for _, batch := range p.AcknowledgementBatches {
						sink += batch.LastOffset - batch.FirstOffset + int64(len(batch.AcknowledgeTypes))
					}
				}
			}
		})
	}
}
