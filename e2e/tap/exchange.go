// Package tap sees the share requests that reach a broker, and its answers, while they pass. It reads them with kmsg, which has nothing in
// common with the proxy's codec.
package tap

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Target is a partition.
type Target struct {
	Topic     [16]byte
	Partition int32
}

// Acquired is a range of offsets, both ends included, that an answer hands to a member.
type Acquired struct {
	First, Last int64
	Count       int16 // deliveries, this one included
}

// Exchange is a ShareFetch or a ShareAcknowledge with its answer.
type Exchange struct {
	Key, Version  int16
	Correlation   int32
	Group, Member string
	Epoch         int32
	Renew         bool
	Asked         []Target                  // all that the request names, once each
	Acks          map[Target]map[int64]int8 // type by offset; of several entries the last one's, if it has batches
	Renews        bool                      // there is a Renew in any of its entries
	Malformed     map[Target]bool           // Acks has nothing of these: their batches break the rules of KIP-932

	Top      int16 // the answer's
	Codes    map[Target]int16
	Rows     map[Target]int // how often the answer names a partition
	Fetch    map[Target]int16
	Acquired map[Target][]Acquired
	Lock     time.Duration

	Sent, Answered time.Time
}

// ReadRequest reads a whole request frame. It is false for other keys than the two.
func ReadRequest(frame []byte) (*Exchange, bool, error) {
	if len(frame) < 14 {
		return nil, false, fmt.Errorf("a request of %d bytes", len(frame))
	}
	x := &Exchange{Key: int16(binary.BigEndian.Uint16(frame[4:])), Version: int16(binary.BigEndian.Uint16(frame[6:])),
		Correlation: int32(binary.BigEndian.Uint32(frame[8:])), Acks: map[Target]map[int64]int8{}, Malformed: map[Target]bool{}, Sent: time.Now()}
	if x.Key != int16(kmsg.ShareFetch) && x.Key != int16(kmsg.ShareAcknowledge) {
		return x, false, nil
	}
	body := frame[14:]
	if n := int16(binary.BigEndian.Uint16(frame[12:])); n > 0 {
		body = body[n:]
	}
	if body[0] != 0 {
		return nil, true, fmt.Errorf("tags in the header of request %d", x.Correlation)
	}
	return x, true, x.request(body[1:])
}

func (x *Exchange) request(body []byte) error {
	if x.Key == int16(kmsg.ShareAcknowledge) {
		return x.acknowledge(body)
	}
	q := kmsg.NewPtrShareFetchRequest()
	q.Version = x.Version
	if err := q.ReadFrom(body); err != nil {
		return fmt.Errorf("ShareFetch %d: %w", x.Correlation, err)
	}
	x.Epoch, x.Renew = q.ShareSessionEpoch, q.IsRenewAck
	for _, t := range q.Topics {
		for _, p := range t.Partitions {
			var all []batch
			for _, b := range p.AcknowledgementBatches {
				all = append(all, batch{b.FirstOffset, b.LastOffset, b.AcknowledgeTypes})
			}
			x.entry(Target{t.TopicID, p.Partition}, all)
		}
	}
	return x.who(q.GroupID, q.MemberID)
}

func (x *Exchange) acknowledge(body []byte) error {
	q := kmsg.NewPtrShareAcknowledgeRequest()
	q.Version = x.Version
	if err := q.ReadFrom(body); err != nil {
		return fmt.Errorf("ShareAcknowledge %d: %w", x.Correlation, err)
	}
	x.Epoch, x.Renew = q.ShareSessionEpoch, q.IsRenewAck
	for _, t := range q.Topics {
		for _, p := range t.Partitions {
			var all []batch
			for _, b := range p.AcknowledgementBatches {
				all = append(all, batch{b.FirstOffset, b.LastOffset, b.AcknowledgeTypes})
			}
			x.entry(Target{t.TopicID, p.Partition}, all)
		}
	}
	return x.who(q.GroupID, q.MemberID)
}

func (x *Exchange) who(group, member *string) error {
	if group == nil || member == nil {
		return fmt.Errorf("request %d names no group, or no member", x.Correlation)
	}
	x.Group, x.Member = *group, *member
	return nil
}

type batch struct {
	first, last int64
	types       []int8
}

// entry adds what a request asks of a partition. Brokers (4.1.2 to 4.4.0) take a partition's last entry, also when it is empty.
func (x *Exchange) entry(t Target, all []batch) {
	if !slices.Contains(x.Asked, t) {
		x.Asked = append(x.Asked, t)
	}
	delete(x.Acks, t)
	delete(x.Malformed, t)
	if len(all) == 0 {
		return
	}
	for _, b := range all {
		x.Renews = x.Renews || slices.Contains(b.types, 4)
	}
	if acks, ok := expand(all); ok {
		x.Acks[t] = acks
	} else {
		x.Malformed[t] = true
	}
}

// widest bounds a range: no test acknowledges more at once.
const widest = 1 << 20

// expand lists offsets; false where a broker refuses the batches.
func expand(all []batch) (map[int64]int8, bool) {
	acks, next := map[int64]int8{}, int64(0)
	for _, b := range all {
		n := b.last - b.first + 1
		if b.first < next || n < 1 || n > widest || len(b.types) == 0 || len(b.types) > 1 && int64(len(b.types)) != n {
			return nil, false
		}
		for i := range n {
			kind := b.types[0]
			if len(b.types) > 1 {
				kind = b.types[i]
			}
			if kind < 0 || kind > 4 {
				return nil, false
			}
			acks[b.first+i] = kind
		}
		next = b.last + 1
	}
	return acks, true
}

// ReadAnswer reads the whole frame that answers the request.
func (x *Exchange) ReadAnswer(frame []byte) error {
	x.Answered = time.Now()
	x.Codes, x.Rows, x.Fetch, x.Acquired = map[Target]int16{}, map[Target]int{}, map[Target]int16{}, map[Target][]Acquired{}
	if len(frame) < 9 || int32(binary.BigEndian.Uint32(frame[4:])) != x.Correlation || frame[8] != 0 {
		return fmt.Errorf("an answer to %d: %x", x.Correlation, frame[:min(len(frame), 9)])
	}
	if x.Key == int16(kmsg.ShareAcknowledge) {
		return x.acknowledged(frame[9:])
	}
	return x.fetched(frame[9:])
}

func (x *Exchange) acknowledged(body []byte) error {
	a := kmsg.NewPtrShareAcknowledgeResponse()
	a.Version = x.Version
	if err := a.ReadFrom(body); err != nil {
		return fmt.Errorf("an answer to ShareAcknowledge %d: %w", x.Correlation, err)
	}
	x.Top = a.ErrorCode
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			x.row(Target{t.TopicID, p.Partition}, p.ErrorCode)
		}
	}
	return nil
}

func (x *Exchange) fetched(body []byte) error {
	a := kmsg.NewPtrShareFetchResponse()
	a.Version = x.Version
	if err := a.ReadFrom(body); err != nil {
		return fmt.Errorf("an answer to ShareFetch %d: %w", x.Correlation, err)
	}
	x.Top, x.Lock = a.ErrorCode, time.Duration(a.AcquisitionLockTimeoutMillis)*time.Millisecond
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			target := Target{t.TopicID, p.Partition}
			x.row(target, p.AcknowledgeErrorCode)
			x.Fetch[target] = p.ErrorCode
			for _, r := range p.AcquiredRecords {
				x.Acquired[target] = append(x.Acquired[target], Acquired{r.FirstOffset, r.LastOffset, r.DeliveryCount})
			}
		}
	}
	return nil
}

func (x *Exchange) row(t Target, code int16) {
	x.Rows[t]++
	if x.Codes[t] == 0 {
		x.Codes[t] = code
	}
}
