package audit

import (
	"bytes"
	"iter"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// state is verdict.state.
type state uint8

const (
	accepted state = iota
	refused
	unknown
	notSent // it did not reach the broker
	states
)

var stateNames = [states]string{"accepted", "refused", "unknown", "not_sent"}

// answerer is verdict.answered_by.
type answerer uint8

const (
	nobody answerer = iota
	broker
	proxy
)

// answererTexts are the JSON of it, up to the error code.
var answererTexts = [...]string{
	nobody: `,"answered_by":null,"error_code":`, broker: `,"answered_by":"broker","error_code":`, proxy: `,"answered_by":"proxy","error_code":`,
}

// verdict is the answer to what an event is about.
type verdict struct {
	state     state
	partition bool // scope; else the whole request
	by        answerer
	code      int16
	message   string
	reason    string // why there is no code: code and message mean nothing then
}

// closedBefore says whether the connection was cut instead of forwarding the request.
func closedBefore(o *policy.Outcome) bool {
	return o.Decision != nil && o.Decision.Close == policy.CloseBefore && o.Reply.State == policy.Lost
}

// requestVerdict reads the reply's top level. Where that settles nothing about partitions (state accepted), their rows do.
func requestVerdict(o *policy.Outcome) verdict {
	r := &o.Reply
	switch {
	case closedBefore(o) && o.Decision.Gone:
		return verdict{state: notSent, by: proxy, reason: "connection_ended"}
	case closedBefore(o):
		return verdict{state: notSent, by: proxy, reason: closedByPolicy}
	case r.State == policy.Lost:
		return verdict{state: unknown, reason: "reply_lost"}
	case r.State == policy.Unreadable:
		return verdict{state: unknown, reason: "reply_unreadable"}
	case r.Received.IsZero(): // a zero Reply: the answer is not known to anybody
		return verdict{state: unknown, reason: "reply_not_seen"}
	case r.ErrorCode != 0:
		return verdict{state: refused, by: broker, code: r.ErrorCode, message: r.ErrorMessage}
	}
	return verdict{state: accepted, by: broker, message: r.ErrorMessage}
}

// partitionVerdict is what the reply says about one partition: the top level's word where that refused or is not known, else its row's.
func partitionVerdict(top verdict, e *entry) verdict {
	switch {
	case top.state != accepted:
		return top
	case !e.answered:
		return verdict{state: unknown, partition: true, reason: missingInReply}
	case e.code != 0:
		return verdict{state: refused, partition: true, by: broker, code: e.code, message: e.message}
	}
	return verdict{state: accepted, partition: true, by: broker, message: e.message}
}

const closedByPolicy = "closed_by_policy"

// withheldVerdict is what the client was told about acknowledgements that were withheld. An error of the broker's wins over the policy's code.
func withheldVerdict(o *policy.Outcome, top *verdict, e *entry) verdict {
	v := verdict{state: notSent, partition: true}
	switch {
	case top.state == unknown:
		v.reason = top.reason
	case !reachesClient(o.Decision):
		v.reason = closedByPolicy
	case top.state == refused:
		v.partition, v.by, v.code, v.message = false, broker, top.code, top.message
	case e.code != 0:
		v.by, v.code, v.message = broker, e.code, e.message
	default:
		v.by, v.code = proxy, e.edited.Code()
	}
	return v
}

// reachesClient says whether an answer gets to the client as a whole.
func reachesClient(d *policy.Decision) bool {
	return d.Close == policy.CloseNever || d.Close == policy.CloseReplied
}

// The anomalies that this package can see.
const (
	missingInReply  = "partition_missing_in_reply"
	conflictingAcks = "conflicting_acks"
	duplicateAck    = "duplicate_ack"
	undecodable     = "undecodable_share_frame"
)

func sameBatches(a, b codec.Array[codec.AckBatch]) bool {
	if a.Len() != b.Len() {
		return false
	}
	next, stop := iter.Pull(b.All())
	defer stop()
	for x := range a.All() {
		y, _ := next()
		if x.FirstOffset != y.FirstOffset || x.LastOffset != y.LastOffset || !bytes.Equal(x.Types, y.Types) {
			return false
		}
	}
	return true
}
