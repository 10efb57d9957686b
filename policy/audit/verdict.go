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
	notSent // a policy kept it from the broker
	states
)

var stateNames = [states]string{"accepted", "refused", "unknown", "not_sent"}

// verdict is the broker's answer to what an event is about.
type verdict struct {
	state     state
	partition bool // scope; else the whole request
	answered  bool // else code and message mean nothing
	proxy     bool // what the client was told is ours, not the broker's
	code      int16
	message   string
	reason    string // why the state is unknown, or nothing was sent
}

// requestVerdict reads the reply's top level. Where that settles nothing about partitions (state accepted), their rows do.
func requestVerdict(r *policy.Reply) verdict {
	switch {
	case r.State == policy.Lost:
		return verdict{state: unknown, reason: "reply_lost"}
	case r.State == policy.Unreadable:
		return verdict{state: unknown, reason: "reply_unreadable"}
	case r.Received.IsZero(): // a zero Reply: the answer is not known to anybody
		return verdict{state: unknown, reason: "reply_not_seen"}
	case r.ErrorCode != 0:
		return verdict{state: refused, answered: true, code: r.ErrorCode, message: r.ErrorMessage}
	}
	return verdict{state: accepted, answered: true, message: r.ErrorMessage}
}

// partitionVerdict is what the reply says about one partition: the top level's word where that refused or is not known, else its row's.
func partitionVerdict(top verdict, e *entry) verdict {
	switch {
	case top.state != accepted:
		return top
	case !e.answered:
		return verdict{state: unknown, partition: true, reason: missingInReply}
	case e.code != 0:
		return verdict{state: refused, partition: true, answered: true, code: e.code, message: e.message}
	}
	return verdict{state: accepted, partition: true, answered: true, message: e.message}
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
