package policy

import (
	"sync"
	"sync/atomic"
)

// Kind says what an Outcome is about.
type Kind uint8

// The kinds of outcome.
const (
	Acknowledgement Kind = iota // a share request that decoded
	Undecodable                 // an anomalous frame of an acknowledging key, passed on as it came
	AdminRequest                // AddRaftVoter
	CoverageGap                 // a connection, or the rest of one, that could not be read; Note says why
)

// Outcome is one exchange from request to answer. Those that NewOutcome makes are used again once all who hold them have said Release; any
// other is the garbage collector's.
type Outcome struct {
	Kind    Kind
	Request Request
	Reply   Reply // the broker's answer, before any policy's edits
	// Decision is what policies made of the request; nil where there was nobody to decide.
	Decision *Decision
	Note     string

	holders int32 // by NewOutcome, and Retain
	pooled  bool
}

const keepFrame = 4 << 10 // bytes of a frame's copy that an unused Outcome may hold on to

var outcomes = sync.Pool{New: func() any { return &Outcome{pooled: true} }}

// NewOutcome returns an empty outcome which holds a copy of frame. The caller holds it, too, until Release. There is one for nearly each
// acknowledgement that passes: new memory each time would cost more than reading it does.
func NewOutcome(kind Kind, frame []byte) *Outcome {
	o := outcomes.Get().(*Outcome)
	o.Kind, o.holders = kind, 1
	o.Request.Frame = append(o.Request.Frame[:0], frame...)
	return o
}

// Retain makes the outcome stay as it is until one more Release.
func (o *Outcome) Retain() { atomic.AddInt32(&o.holders, 1) }

// Release ends what NewOutcome or Retain began. Nothing of the outcome may be used after it.
func (o *Outcome) Release() {
	if atomic.AddInt32(&o.holders, -1) != 0 || !o.pooled {
		return
	}
	frame, partitions := o.Request.Frame[:0], o.Reply.Partitions[:0]
	if cap(frame) > keepFrame {
		frame = nil
	}
	clear(partitions[:cap(partitions)])
	*o = Outcome{pooled: true, Request: Request{Frame: frame}, Reply: Reply{Partitions: partitions}}
	outcomes.Put(o)
}
