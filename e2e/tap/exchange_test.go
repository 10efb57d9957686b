package tap

import (
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type ack = kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch

// TestRead: entries are read as brokers read them, and the rows of the answer are counted.
func TestRead(t *testing.T) {
	whole, each := ack{FirstOffset: 3, LastOffset: 5, AcknowledgeTypes: []int8{1}}, ack{FirstOffset: 7, LastOffset: 8, AcknowledgeTypes: []int8{2, 4}}
	bad := ack{FirstOffset: 9, LastOffset: 11, AcknowledgeTypes: []int8{1, 1}}
	group, member := "g", "m"
	q := kmsg.NewPtrShareAcknowledgeRequest()
	q.Version, q.GroupID, q.MemberID, q.ShareSessionEpoch = 2, &group, &member, 6
	topic := kmsg.NewShareAcknowledgeRequestTopic()
	topic.TopicID = [16]byte{1}
	for _, e := range []struct {
		partition int32
		batches   []ack
	}{{0, []ack{bad}}, {0, []ack{whole, each}}, {1, []ack{whole}}, {1, nil}, {2, []ack{whole, bad}}, {3, []ack{each, whole}}} {
		p := kmsg.NewShareAcknowledgeRequestTopicPartition()
		p.Partition, p.AcknowledgementBatches = e.partition, e.batches
		topic.Partitions = append(topic.Partitions, p)
	}
	q.Topics = append(q.Topics, topic)
	x, share, err := ReadRequest(kmsg.NewRequestFormatter(kmsg.FormatterClientID("c")).AppendRequest(nil, q, 5))
	if err != nil || !share {
		t.Fatal(share, err)
	}
	at := func(p int32) Target { return Target{topic.TopicID, p} }
	if want := map[int64]int8{3: 1, 4: 1, 5: 1, 7: 2, 8: 4}; len(x.Acks) != 1 || !maps.Equal(x.Acks[at(0)], want) {
		t.Errorf("acknowledged %v, want %v of partition 0", x.Acks, want)
	}
	if !maps.Equal(x.Malformed, map[Target]bool{at(2): true, at(3): true}) {
		t.Errorf("malformed %v", x.Malformed)
	}
	if x.Group != "g" || x.Member != "m" || x.Epoch != 6 || x.Correlation != 5 || !x.Renews || x.Renew || len(x.Asked) != 4 {
		t.Errorf("%+v", x)
	}

	a := kmsg.NewPtrShareAcknowledgeResponse()
	a.Version = 2
	answer := kmsg.NewShareAcknowledgeResponseTopic()
	answer.TopicID = topic.TopicID
	for _, code := range []int16{0, 121} {
		p := kmsg.NewShareAcknowledgeResponseTopicPartition()
		p.ErrorCode = code
		answer.Partitions = append(answer.Partitions, p)
	}
	a.Topics = append(a.Topics, answer)
	if err := x.ReadAnswer(a.AppendTo([]byte{0, 0, 0, 0, 0, 0, 0, 5, 0})); err != nil || x.Top != 0 || x.Codes[at(0)] != 121 || x.Rows[at(0)] != 2 {
		t.Errorf("%v: %+v", err, x)
	}
	if err := x.ReadAnswer(a.AppendTo([]byte{0, 0, 0, 0, 0, 0, 0, 6, 0})); err == nil {
		t.Error("another request's answer was taken")
	}
}
