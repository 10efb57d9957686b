package policy

import (
	"errors"
	"time"

	"github.com/ackproxy/ackproxy/codec"
)

// Acquisition is a delivery that passed by: a broker handed the offsets First to Last, both included, to the member that now acknowledges
// them. What was delivered over another proxy, or before this one began, was not seen.
type Acquisition struct {
	First, Last   int64
	DeliveryCount int16     // of this delivery, from 1 on
	Acquired      time.Time // when the answer came, with a monotonic reading
	// LockUntil is when the broker's lock runs out at the earliest; zero where no answer said how long it lasts (ShareFetch v0).
	LockUntil time.Time
}

// Records finds what was delivered. Many connections may use it at once.
type Records interface {
	// Record returns the record at an offset as it passed by. The errors are ErrNotKept, or say why the record cannot be read: its batch does
	// not match its checksum, say. It decompresses, and copies: call it for records that are needed only. Their bytes are the caller's.
	Record(topic codec.UUID, partition int32, offset int64) (Record, error)
}

// Delivery is what one answer delivered of one partition to one member.
type Delivery struct {
	Group, Member string
	TopicID       codec.UUID
	Topic         string // empty while unknown
	Partition     int32
	Acquired      []Acquisition // as the answer has them
	Records       Records       // the member's, as Request has them: what is kept may be gone soon
}

// DeliveryObserver is an Observer that is told of deliveries, too, where policies decide. Delivered is called on the connection's response loop,
// just before the answer goes on: it must return at once. The delivery is the observer's for the length of the call; its Records may be kept.
type DeliveryObserver interface {
	Observer
	Delivered(*Delivery)
}

// Deliveries is what was seen delivered to one member of a share group. Many connections may use it at once.
type Deliveries interface {
	Records
	// Acquired appends to dst what was seen of the deliveries of the offsets first to last, both included, of a partition: ascending and
	// disjoint, and cut to these offsets.
	Acquired(dst []Acquisition, topic codec.UUID, partition int32, first, last int64) []Acquisition
}

// Record is one record as its producer wrote it.
type Record struct {
	Offset        int64
	Timestamp     int64  // milliseconds since 1970
	AppendTime    bool   // Timestamp is when the broker appended it, not when the producer made it
	Key, Value    []byte // nil is null
	Headers       []RecordHeader
	Transactional bool // written in a transaction, which may have been aborted
}

// RecordHeader is one header of a record. Keys may repeat.
type RecordHeader struct {
	Key   string
	Value []byte // nil is null
}

// ErrNotKept says that a record did not pass by, or is no longer kept.
var ErrNotKept = errors.New("the record did not pass by, or is no longer kept")
