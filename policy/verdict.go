package policy

import (
	"context"
	"time"

	"github.com/ackproxy/ackproxy/codec"
)

// Policy decides about requests that carry acknowledgements, while the connection's request loop waits for it: what it takes is latency.
type Policy interface {
	// Name is unique in a chain; it stands in the audit log and in metrics.
	Name() string
	// Traits say how the policy wants to be run. They do not change.
	Traits() Traits
	// Decide says what is to happen to r, which it must neither change nor keep. The context ends when the client is gone and, for a policy
	// that waits, at the deadline. An error, a panic, an invalid verdict, or no answer by the deadline leaves r to the policy's failure
	// mode. Decide is called by many connections at once.
	Decide(ctx context.Context, r *Request) (Verdict, error)
}

// Traits are what a policy declares of itself.
type Traits struct {
	// Waits says that Decide may block: on another process, a broker, a disk. One that does not wait is called in the request loop itself;
	// nobody can give up on it, so it has no deadline.
	Waits bool
	// Prompt says that Decide, which waits, returns as soon as its context ends. It is called in the request loop then, which saves two changes
	// of goroutines; any other is called on a goroutine that can be left behind.
	Prompt bool
	// Budget is how long a decision of a policy that waits may take, DefaultBudget when 0. Configuration may override it.
	Budget time.Duration
	// Records says that the policy looks at records. Answers that deliver any are then held whole, and their records kept for a while.
	Records bool
	// Transactions says that the policy, which is a TransactionPolicy, decides about the ends of transactions, too.
	Transactions bool
}

// DefaultBudget is the time for a decision where neither the policy nor the configuration says anything.
const DefaultBudget = 50 * time.Millisecond

// Partition is what a request asks of one partition. Where it names a partition twice, the last entry counts, as for the broker.
type Partition struct {
	TopicID codec.UUID
	Topic   string // its name; empty while unknown
	Index   int32
	// Ranges are what is asked, ascending and disjoint. What a policy before this one changed is shown as changed; what one withheld is left out.
	Ranges []Range
	// Malformed says that the broker will refuse the entry as a whole (its ranges break the rules of KIP-932). Ranges is empty, and edits do
	// not apply.
	Malformed bool
	// Acquired is what was seen of the deliveries of these offsets, ascending and disjoint. Parts of Ranges that were not seen are left out.
	Acquired []Acquisition
}

// Range is a run of offsets, both ends included, with one acknowledgement type.
type Range struct {
	First, Last int64
	Type        int8
}

// MostCounted is the most records that one request adds to a counter of metrics. Ranges are what clients say, and a counter that has reached 2^53 does
// not move by one any more. What brokers let anybody have is some thousands of a partition.
const MostCounted = 1 << 32

// Verdict is what a policy wants done with a request. It is data, and crosses a process boundary unchanged. The zero Verdict forwards. One
// that is invalid for its request is a failure of the policy: nothing of it is applied. docs/policies.md says how verdicts compose.
type Verdict struct {
	Edits   []Edit
	Replies []ReplyEdit
	// DelayForward and DelayReply hold the request before it goes to the broker, and the answer before it goes to the client. All that
	// follows on the connection waits as well: the protocol has one order.
	DelayForward, DelayReply time.Duration
	Close                    Close
	CloseAfter               int    // bytes of the answer, size prefix included, for CloseTruncated
	Reason                   string // for the audit log
}

// Edit is one change to acknowledgements: of the offsets First to Last, both included, of a partition. Offsets that the request does not
// acknowledge, or that an earlier edit withheld, are left alone.
type Edit struct {
	TopicID     codec.UUID
	Partition   int32
	First, Last int64
	Action      Action
	Type        int8   // for Change
	ErrorCode   int16  // for Withhold, what the client is told; 0 stands for INVALID_RECORD_STATE
	Reason      string // for the audit log; the verdict's when empty
}

// Action is what an Edit does.
type Action uint8

// The actions.
const (
	Change   Action = iota // forward with another type
	Withhold               // do not forward; the record stays acquired until its lock runs out, or the session ends
)

// ReplyEdit puts an error into the broker's answer. The broker's own error wins over it, and so does that of a policy asked before.
type ReplyEdit struct {
	TopLevel  bool // the answer as a whole; TopicID and Partition are not used
	TopicID   codec.UUID
	Partition int32
	ErrorCode int16  // not 0
	Message   string // empty: null
}

// Close says where a connection is cut.
type Close uint8

// The places to cut a connection.
const (
	CloseNever     Close = iota
	CloseBefore          // the request is not forwarded
	CloseAfter           // forwarded; the answer does not reach the client
	CloseReplied         // after the whole answer
	CloseTruncated       // after CloseAfter bytes of the answer
)

// FailureMode says what happens to a request when a policy fails or is late.
type FailureMode uint8

// The failure modes.
const (
	FailForward FailureMode = iota // as if the policy were not there
	FailRespond                    // all acknowledgements are withheld, and answered KAFKA_STORAGE_ERROR (56): retriable. FailClose above MaxPieces
	FailClose                      // the connection is closed, the request is not forwarded
)

// String is the mode as the configuration spells it.
func (m FailureMode) String() string {
	return [...]string{"forward", "respond", "close"}[m]
}
