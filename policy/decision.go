package policy

import (
	"time"
	"unsafe"

	"github.com/ackproxy/ackproxy/codec"
)

// Decision is what a chain of policies made of one request: what was asked and what is forwarded, and how the answer is changed. It
// belongs to the exchange, and does not change once the request was forwarded.
type Decision struct {
	// Partitions are those that the request acknowledges anything in, in the order of the wire; empty where that is more than MaxPieces.
	Partitions               []Decided
	Replies                  []ReplyEdit // at most one for a partition, and one for the top level
	DelayForward, DelayReply time.Duration
	Close                    Close
	CloseAfter               int
	Gone                     bool   // the context ended first: not all policies were asked, and Close is CloseBefore
	Trail                    []Step // one for each policy that was asked, in the order of the chain
}

// Edited says whether the request is not to be forwarded as it came.
func (d *Decision) Edited() bool {
	for i := range d.Partitions {
		if d.Partitions[i].Edited() {
			return true
		}
	}
	return false
}

// Answers says whether the broker's answer is not to reach the client as it came: something was withheld, or a policy put in an error.
func (d *Decision) Answers() bool {
	for i := range d.Partitions {
		if d.Partitions[i].withholds() {
			return true
		}
	}
	return len(d.Replies) > 0
}

// Size is about what d takes in memory, in bytes; nil takes nothing. Neighbours may share the texts of policies.
func (d *Decision) Size() int {
	if d == nil {
		return 0
	}
	const partition, piece = int(unsafe.Sizeof(Decided{})), int(unsafe.Sizeof(Piece{}))
	n := int(unsafe.Sizeof(*d)) + partition*cap(d.Partitions) + int(unsafe.Sizeof(ReplyEdit{}))*cap(d.Replies) + int(unsafe.Sizeof(Step{}))*cap(d.Trail)
	for i := range d.Trail {
		n += len(d.Trail[i].Reason)
	}
	for i := range d.Replies {
		n += len(d.Replies[i].Message)
	}
	for i := range d.Partitions {
		pieces := d.Partitions[i].Pieces
		n += piece * cap(pieces)
		for j := range pieces {
			if j == 0 || pieces[j].Reason != pieces[j-1].Reason {
				n += len(pieces[j].Reason)
			}
		}
	}
	return n
}

// Decided is one partition of a decision.
type Decided struct {
	TopicID   codec.UUID
	Topic     string
	Index     int32
	Pieces    []Piece // ascending and disjoint; together exactly what was asked
	Malformed bool    // passes as it is: the broker will refuse it
}

// Edited says whether a part of what was asked is withheld, or forwarded with another type.
func (d *Decided) Edited() bool {
	for i := range d.Pieces {
		if p := &d.Pieces[i]; p.Withheld || p.Forwarded != p.Asked {
			return true
		}
	}
	return false
}

// AllWithheld says whether nothing of the partition is forwarded.
func (d *Decided) AllWithheld() bool {
	for i := range d.Pieces {
		if !d.Pieces[i].Withheld {
			return false
		}
	}
	return len(d.Pieces) > 0
}

// withholds says whether a part of what was asked is withheld.
func (d *Decided) withholds() bool {
	for i := range d.Pieces {
		if d.Pieces[i].Withheld {
			return true
		}
	}
	return false
}

// Code is the error code that the client gets for what is withheld of the partition, unless the broker has one of its own: 0 where nothing
// is. The protocol has one code a partition. It is that of the withheld pieces where they agree, else INVALID_RECORD_STATE. So it is,
// too, in place of a retriable code where only a part is withheld: clients would send all of it again, also what the broker has applied.
func (d *Decided) Code() int16 {
	code, all := int16(0), true
	for i := range d.Pieces {
		switch p := &d.Pieces[i]; {
		case !p.Withheld:
			all = false
		case code == 0:
			code = p.ErrorCode
		case code != p.ErrorCode:
			return codeInvalidRecordState
		}
	}
	if !all && retriable(code) {
		return codeInvalidRecordState
	}
	return code
}

// Piece is a run of offsets, both ends included, that was asked with one type and has one fate.
type Piece struct {
	First, Last int64
	Asked       int8
	Forwarded   int8 // differs from Asked where a policy changed it; the last type before it was withheld where it was
	Withheld    bool
	ErrorCode   int16  // of a withheld piece, never 0 there
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
