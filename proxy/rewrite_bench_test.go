package proxy

import (
	"testing"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// BenchmarkRewrite withholds one of five ranges.
func BenchmarkRewrite(b *testing.B) {
	var batches []codec.AckBatch
	var pieces []policy.Piece
	for i := range int64(5) {
		batches = append(batches, codec.AckBatch{FirstOffset: 10 * i, LastOffset: 10*i + 8, Types: []byte{1}})
		pieces = append(pieces, same(10*i, 10*i+8, 1))
	}
	pieces[2].Withheld, pieces[2].ErrorCode = true, 121
	frame, body := acknowledge(batches...)
	d := of(pieces...)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rewriteRequest(frame, body, 2, policy.ShareAcknowledge, d); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMerge adds the code for it: to an answer of one row, and to one with a megabyte of records.
func BenchmarkMerge(b *testing.B) {
	for name, records := range map[string]int{"small": 0, "1MiB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			topic := codec.FetchResultTopic{TopicID: codec.UUID{1}}
			topic.Partitions.Append(codec.FetchResult{PartitionIndex: 3, Records: make([]byte, records)})
			var a codec.ShareFetchResponse
			a.Responses.Append(topic)
			frame := answerTo(a.Append(nil, 2))
			m := newMerge(of(held(0, 9, 1)), policy.ShareFetch)
			b.ReportAllocs()
			for b.Loop() {
				if _, did, err := m.apply(frame, 9, 2); err != nil || did != changed {
					b.Fatal(did, err)
				}
			}
		})
	}
}
