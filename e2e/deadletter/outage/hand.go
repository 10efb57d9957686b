package outage

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/e2e/tap"
)

// Hand is a member of a share group that does what it is told, one request at a time, on one connection. Whoever made it calls Close.
type Hand struct {
	Group, Member string
	Topic         [16]byte

	addr, name string
	conn       net.Conn
	id, epoch  int32
}

// Join connects to a proxy and makes the group one that had a member.
func Join(ctx context.Context, addr, group, topic string, id [16]byte) (*Hand, error) {
	h := &Hand{Group: group, Member: "AAAAAAAAAAAAAAAAAAAAAA", Topic: id, addr: addr, name: topic}
	if err := h.Dial(ctx); err != nil {
		return nil, err
	}
	q := kmsg.NewPtrShareGroupHeartbeatRequest()
	q.Version, q.GroupID, q.MemberID, q.SubscribedTopicNames = 1, h.Group, h.Member, []string{topic}
	_, err := h.answer(h.frame(q))
	return h, err
}

// Dial connects anew, without a session.
func (h *Hand) Dial(ctx context.Context) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", h.addr)
	if err != nil {
		return err
	}
	if h.conn != nil {
		h.conn.Close()
	}
	h.conn, h.epoch = c, 0
	return c.SetDeadline(time.Now().Add(time.Minute))
}

// Close closes the connection, which ends the session.
func (h *Hand) Close() error { return h.conn.Close() }

func (h *Hand) frame(q kmsg.Request) []byte {
	h.id++
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("hand")).AppendRequest(nil, q, h.id)
}

func (h *Hand) answer(frame []byte) ([]byte, error) {
	if _, err := h.conn.Write(frame); err != nil {
		return nil, err
	}
	return tap.ReadFrame(h.conn)
}

func (h *Hand) exchange(q kmsg.Request) (*tap.Exchange, error) {
	frame := h.frame(q)
	x, _, err := tap.ReadRequest(frame)
	if err != nil {
		return nil, err
	}
	answer, err := h.answer(frame)
	if err != nil {
		return x, err
	}
	h.epoch++
	return x, x.ReadAnswer(answer)
}

// Fetch fetches until n records are acquired of each of so many partitions, by one call, and returns their delivery counts.
func (h *Hand) Fetch(ctx context.Context, partitions int32, n int) (map[tap.Target]map[int64]int16, error) {
	got, held := map[tap.Target]map[int64]int16{}, 0
	for held < n*int(partitions) {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%d of %d records of %s are there: %w", held, n*int(partitions), h.name, ctx.Err())
		}
		x, err := h.exchange(h.fetch(partitions))
		if err != nil {
			return nil, err
		}
		for t, all := range x.Acquired {
			if got[t] == nil {
				got[t] = map[int64]int16{}
			}
			for _, a := range all {
				for o := a.First; o <= a.Last; o++ {
					got[t][o] = a.Count
					held++
				}
			}
		}
		for _, code := range x.Fetch {
			if code != 0 { // the group is new to the broker, and what failed stays so as long as the session does
				h.epoch = 0
			}
		}
	}
	return got, nil
}

func (h *Hand) fetch(partitions int32) *kmsg.ShareFetchRequest {
	q := kmsg.NewPtrShareFetchRequest()
	q.Version, q.GroupID, q.MemberID, q.ShareSessionEpoch = 2, &h.Group, &h.Member, h.epoch
	q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.MaxRecords, q.BatchSize = 100, 1, 8<<20, 1000, 1000
	t := kmsg.NewShareFetchRequestTopic()
	t.TopicID = h.Topic
	for p := range partitions {
		one := kmsg.NewShareFetchRequestTopicPartition()
		one.Partition = p
		t.Partitions = append(t.Partitions, one)
	}
	q.Topics = append(q.Topics, t)
	return q
}

// Ack is a range of offsets of a partition.
type Ack struct {
	Partition   int32
	First, Last int64
	Type        int8
}

// Acknowledge sends one ShareAcknowledge. Ranges of a partition follow each other.
func (h *Hand) Acknowledge(all ...Ack) (*tap.Exchange, error) {
	q := kmsg.NewPtrShareAcknowledgeRequest()
	q.Version, q.GroupID, q.MemberID, q.ShareSessionEpoch = 2, &h.Group, &h.Member, h.epoch
	t := kmsg.NewShareAcknowledgeRequestTopic()
	t.TopicID = h.Topic
	for i, a := range all {
		if i == 0 || all[i-1].Partition != a.Partition {
			p := kmsg.NewShareAcknowledgeRequestTopicPartition()
			p.Partition = a.Partition
			t.Partitions = append(t.Partitions, p)
		}
		b := kmsg.NewShareAcknowledgeRequestTopicPartitionAcknowledgementBatch()
		b.FirstOffset, b.LastOffset, b.AcknowledgeTypes = a.First, a.Last, []int8{a.Type}
		p := &t.Partitions[len(t.Partitions)-1]
		p.AcknowledgementBatches = append(p.AcknowledgementBatches, b)
	}
	q.Topics = append(q.Topics, t)
	return h.exchange(q)
}
