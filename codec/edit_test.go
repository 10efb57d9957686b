package codec

import (
	"bytes"
	"math"
	"slices"
	"testing"
)

// ackRequest is a request with one topic and one partition.
func ackRequest(batches ...AckBatch) ShareAcknowledgeRequest {
	var p AckPartition
	for _, b := range batches {
		p.Batches.Append(b)
	}
	topic := AckTopic{TopicID: UUID{1}}
	topic.Partitions.Append(p)
	m := ShareAcknowledgeRequest{GroupID: []byte("g"), MemberID: []byte("m"), ShareSessionEpoch: 7}
	m.Topics.Append(topic)
	return m
}

func mustDecode(t *testing.T, body []byte, version int16) ShareAcknowledgeRequest {
	t.Helper()
	var m ShareAcknowledgeRequest
	if o, p := m.Decode(body, 0, version); o != Exact {
		t.Fatal(o, p)
	}
	return m
}

// A request that loses its batches keeps all else, unknown tags included, at every level.
func TestStripBatches(t *testing.T) {
	batch := AckBatch{FirstOffset: 1, LastOffset: 3, Types: []byte{1, 2, 3}}
	batch.Tags.Append(9, []byte("batch"))
	m := ackRequest(batch, batch)
	m.Topics = rebuild(m.Topics, func(topic *AckTopic) {
		topic.Tags.Append(5, []byte("topic"))
		topic.Partitions = rebuild(topic.Partitions, func(p *AckPartition) { p.Tags.Append(6, []byte("partition")) })
	})
	m.Tags.Append(7, []byte("message"))
	m = mustDecode(t, m.Append(nil, 2), 2)

	before := m.Append(nil, 2)
	stripped := m
	stripped.Topics = rebuild(m.Topics, func(topic *AckTopic) {
		topic.Partitions = rebuild(topic.Partitions, func(p *AckPartition) { p.Batches = Array[AckBatch]{} })
	})
	got := mustDecode(t, stripped.Append(nil, 2), 2)
	for topic := range got.Topics.All() {
		wantTags(t, topic.Tags, 5, "topic")
		for p := range topic.Partitions.All() {
			wantTags(t, p.Tags, 6, "partition")
			if p.Batches.Len() != 0 {
				t.Errorf("%d batches left", p.Batches.Len())
			}
		}
	}
	wantTags(t, got.Tags, 7, "message")
	if got.ShareSessionEpoch != 7 || string(got.GroupID) != "g" || string(got.MemberID) != "m" {
		t.Errorf("%+v", got)
	}
	if after := m.Append(nil, 2); !bytes.Equal(before, after) {
		t.Error("the edit changed what it was made from")
	}
}

func wantTags(t *testing.T, tags Tags, tag uint32, data string) {
	t.Helper()
	n := 0
	for got, bytes := range tags.All() {
		if n++; got != tag || string(bytes) != data {
			t.Errorf("tag %d %q, want %d %q", got, bytes, tag, data)
		}
	}
	if n != 1 || tags.Len() != 1 {
		t.Errorf("%d tags of %d, want one", n, tags.Len())
	}
}

// Adding to an array or to tags of a decoded message leaves the frame alone, also where the elements have the layout of built ones.
func TestAppendCopies(t *testing.T) {
	fetch := ShareFetchRequest{Topics: ackRequest(AckBatch{Types: []byte{1}}).Topics}
	body := fetch.Append(nil, 0)
	buffer := append(slices.Clone(body), make([]byte, 100)...) // the next frame would be here
	before := slices.Clone(buffer)
	if o, p := fetch.Decode(buffer[:len(body)], 0, 0); o != Exact {
		t.Fatal(o, p)
	}
	fetch.Topics.Append(AckTopic{TopicID: UUID{2}})
	if !bytes.Equal(buffer, before) || fetch.Topics.Len() != 2 {
		t.Fatalf("the frame changed:\n%x\n%x", before, buffer)
	}

	m := ackRequest(AckBatch{Types: []byte{1}})
	m.Tags.Append(3, []byte("x"))
	body = m.Append(nil, 1)
	frame := slices.Clone(body)
	m = mustDecode(t, frame, 1)
	m.Topics.Append(AckTopic{TopicID: UUID{2}})
	m.Tags.Append(4, []byte("y"))
	for topic := range m.Topics.All() {
		topic.Partitions.Append(AckPartition{PartitionIndex: 9})
	}
	if !bytes.Equal(frame, body) {
		t.Fatalf("the frame changed:\n%x\n%x", body, frame)
	}
	m = mustDecode(t, m.Append(nil, 1), 1)
	if m.Topics.Len() != 2 || m.Tags.Len() != 2 {
		t.Errorf("%d topics and %d tags, want 2 and 2", m.Topics.Len(), m.Tags.Len())
	}
}

// The same elements travel on three carriers, in layouts of their own.
func TestElementsChangeCarrier(t *testing.T) {
	fetch := ShareFetchRequest{GroupID: []byte("g")}
	topic := AckTopic{TopicID: UUID{1}}
	topic.Partitions.Append(AckPartition{PartitionIndex: 4, PartitionMaxBytes: 1 << 20})
	fetch.Topics.Append(topic)
	maxBytes := func(topics Array[AckTopic]) int32 {
		for topic := range topics.All() {
			for p := range topic.Partitions.All() {
				if p.PartitionIndex != 4 {
					t.Errorf("partition %d", p.PartitionIndex)
				}
				return p.PartitionMaxBytes
			}
		}
		return -1
	}
	var v0, v1 ShareFetchRequest
	if o, p := v0.Decode(fetch.Append(nil, 0), 0, 0); o != Exact || maxBytes(v0.Topics) != 1<<20 {
		t.Error("v0", o, p, maxBytes(v0.Topics))
	}
	if o, p := v1.Decode(v0.Append(nil, 1), 0, 1); o != Exact || maxBytes(v1.Topics) != 0 {
		t.Error("v1 from v0", o, p, maxBytes(v1.Topics))
	}
	ack := mustDecode(t, (&ShareAcknowledgeRequest{Topics: v0.Topics}).Append(nil, 1), 1)
	if maxBytes(ack.Topics) != 0 {
		t.Error("ShareAcknowledge has no PartitionMaxBytes")
	}
}

// The leader that a verdict names is in the plain fields of ShareAcknowledge and in tag 0 of TxnShareAcknowledge.
func TestLeaderChangesCarrier(t *testing.T) {
	topic := AckResultTopic{TopicID: UUID{1}}
	topic.Partitions.Append(AckResult{PartitionIndex: 1, ErrorCode: 6, CurrentLeader: LeaderIDAndEpoch{LeaderID: 2, LeaderEpoch: 17}})
	topic.Partitions.Append(NewAckResult(2, 121))
	var txn TxnShareAcknowledgeResponse
	txn.Responses.Append(topic)
	leaders := func(topics Array[AckResultTopic]) (ids []int32) {
		for topic := range topics.All() {
			for p := range topic.Partitions.All() {
				ids = append(ids, p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch)
			}
		}
		return ids
	}
	want := []int32{2, 17, -1, -1}
	var back TxnShareAcknowledgeResponse
	if o, p := back.Decode(txn.Append(nil, 0), 0, 0); o != Exact || !slices.Equal(leaders(back.Responses), want) {
		t.Fatal(o, p, leaders(back.Responses))
	}
	var ack ShareAcknowledgeResponse
	body := (&ShareAcknowledgeResponse{Responses: back.Responses}).Append(nil, 2)
	if o, p := ack.Decode(body, 0, 2); o != Exact || !slices.Equal(leaders(ack.Responses), want) {
		t.Fatal(o, p, leaders(ack.Responses))
	}
}

// A proxy's own answers name no leader, and carry no records, which is not null.
func TestOwnAnswers(t *testing.T) {
	topic := FetchResultTopic{TopicID: UUID{1}}
	topic.Partitions.Append(NewFetchResult(3, 121))
	var m, back ShareFetchResponse
	m.Responses.Append(topic)
	if o, p := back.Decode(m.Append(nil, 2), 0, 2); o != Exact {
		t.Fatal(o, p)
	}
	for topic := range back.Responses.All() {
		for r := range topic.Partitions.All() {
			if r.PartitionIndex != 3 || r.AcknowledgeErrorCode != 121 || r.ErrorCode != 0 || r.Records == nil || len(r.Records) > 0 ||
				r.CurrentLeader.LeaderID != -1 || r.CurrentLeader.LeaderEpoch != -1 {
				t.Errorf("%+v", r)
			}
		}
	}
}

// Whoever iterates may leave off at any element.
func TestBreak(t *testing.T) {
	m := ackRequest(AckBatch{FirstOffset: 1}, AckBatch{FirstOffset: 2}, AckBatch{FirstOffset: 3})
	m.Tags.Append(1, []byte("a"))
	m.Tags.Append(2, []byte("b"))
	var offsets []int64
	for topic := range m.Topics.All() {
		for p := range topic.Partitions.All() {
			for b := range p.Batches.All() {
				if offsets = append(offsets, b.FirstOffset); b.FirstOffset == 2 {
					break
				}
			}
		}
	}
	var tags []uint32
	for tag := range m.Tags.All() {
		tags = append(tags, tag)
		break
	}
	if !slices.Equal(offsets, []int64{1, 2}) || !slices.Equal(tags, []uint32{1}) {
		t.Error(offsets, tags)
	}
}

// Any range is legal, and costs what its bytes cost.
func TestRangesAreNotExpanded(t *testing.T) {
	m := ackRequest(AckBatch{FirstOffset: 0, LastOffset: math.MaxInt64 - 1, Types: []byte{1}},
		AckBatch{FirstOffset: math.MinInt64, LastOffset: math.MaxInt64, Types: nil})
	m = mustDecode(t, m.Append(nil, 2), 2)
	for topic := range m.Topics.All() {
		for p := range topic.Partitions.All() {
			list := slices.Collect(p.Batches.All())
			if len(list) != 2 || list[0].LastOffset != math.MaxInt64-1 || list[1].FirstOffset != math.MinInt64 || list[1].Types == nil {
				t.Errorf("%+v", list)
			}
		}
	}
}

func TestAppendRefusesOtherVersions(t *testing.T) {
	for _, version := range []int16{-1, 3} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("version %d was written", version)
				}
			}()
			(&ShareFetchRequest{}).Append(nil, version)
		}()
		var m ShareFetchRequest
		if o, p := m.Decode(nil, 0, version); o != Opaque || p != nil {
			t.Errorf("version %d is %v, %v", version, o, p)
		}
	}
}
