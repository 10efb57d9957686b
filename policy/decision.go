package policy

import (
	"time"

	"github.com/ackproxy/ackproxy/codec"
)

// Decision is what a chain of policies made of one request: what was asked and what is forwarded, and how the answer is changed. It
// belongs to the exchange, and does not change once the request was forwarded.
type Decision struct {
	Partitions               []Decided // those that the request acknowledges anything in, in the order of the wire
	Replies                  []ReplyEdit
	DelayForward, DelayReply time.Duration
	Close                    Close
	CloseAfter               int
	Trail                    []Step // one for each policy, in the order of the chain
}

// Decided is one partition of a decision.
type Decided struct {
	TopicID   codec.UUID
	Topic     string
	Index     int32
	Pieces    []Piece // ascending and disjoint; together exactly what was asked
	Malformed bool    // passes as it is: the broker will refuse it
}

// Piece is a run of offsets, both ends included, that was asked with one type and has one fate.
type Piece struct {
	First, Last int64
	Asked       int8
	Forwarded   int8 // differs from Asked where a policy changed it; the last type before it was withheld where it was
	Withheld    bool
	ErrorCode   int16  // of a withheld piece
	Policy      string // who changed or withheld it last; empty where nobody did
	Reason      string
}

// Step is what one policy had to say.
type Step struct {
	Policy string
	Took   time.Duration
	Reason string      // of its verdict
	Err    error       // the policy failed, or was late
	Failed FailureMode // what was done about it; where Err is not nil
}
