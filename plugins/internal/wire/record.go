package wire

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/plugins/pluginpb/ackproxy/policy/v1"
	"github.com/ackproxy/ackproxy/policy"
)

// Bounds of the records that a plugin wants for one decision.
const (
	ChunkSize   = 1 << 20  // bytes of data in a RecordsChunk, at most
	MaxRecords  = 64 << 20 // bytes of data, of all chunks
	MaxLookedUp = 1 << 17  // offsets
)

func fromAcquired(all []policy.Acquisition) []*policyv1.Acquisition {
	if len(all) == 0 {
		return nil
	}
	made := make([]*policyv1.Acquisition, len(all))
	for i, a := range all {
		made[i] = &policyv1.Acquisition{First: a.First, Last: a.Last, DeliveryCount: int32(a.DeliveryCount), Acquired: timestamp(a.Acquired)}
		if !a.LockUntil.IsZero() {
			made[i].LockLeft = durationpb.New(time.Until(a.LockUntil))
		}
	}
	return made
}

// toAcquired counts the time that is left of locks from now on.
func toAcquired(all []*policyv1.Acquisition) (made []policy.Acquisition) {
	for _, m := range all {
		a := policy.Acquisition{First: m.GetFirst(), Last: m.GetLast(), DeliveryCount: int16(m.GetDeliveryCount()), Acquired: timeOf(m.GetAcquired())}
		if left := m.GetLockLeft(); left != nil {
			a.LockUntil = time.Now().Add(left.AsDuration())
		}
		made = append(made, a)
	}
	return made
}

// FromRecord translates a record; where err is not nil, that.
func FromRecord(topic codec.UUID, partition int32, offset int64, r *policy.Record, err error) *policyv1.Record {
	m := &policyv1.Record{TopicId: topic[:], Partition: partition, Offset: offset}
	if err != nil {
		m.Error = text(err.Error())
		return m
	}
	m.Timestamp, m.AppendTime, m.Transactional, m.Key, m.Value = r.Timestamp, r.AppendTime, r.Transactional, r.Key, r.Value
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, &policyv1.RecordHeader{Key: []byte(h.Key), Value: h.Value})
	}
	return m
}

// ToRecord translates back.
func ToRecord(m *policyv1.Record) policy.Record {
	r := policy.Record{
		Offset: m.GetOffset(), Timestamp: m.GetTimestamp(), AppendTime: m.GetAppendTime(), Transactional: m.GetTransactional(), Key: m.Key, Value: m.Value,
	}
	for _, h := range m.GetHeaders() {
		r.Headers = append(r.Headers, policy.RecordHeader{Key: string(h.GetKey()), Value: h.Value})
	}
	return r
}
