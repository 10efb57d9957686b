package proxy

import (
	"unsafe"

	"github.com/ackproxy/ackproxy/policy"
)

// freeKept is how many bytes the unanswered requests of a connection may keep for nothing. What they keep beyond it counts as frames that are held
// whole do (protocol.max_buffered): few clients ever get there.
const freeKept = bufferSize

// keeps is how many bytes x keeps until its answer has been written: a copy of the request, and what was decided about it.
func (x *exchange) keeps() int {
	n := 0
	if x.end != nil {
		n = len(x.end.TransactionalID)
	}
	if x.outcome != nil {
		n += int(unsafe.Sizeof(*x.outcome)) + len(x.outcome.Request.Frame)
		if d := x.outcome.Decision; d != nil {
			n += sizeOf(d)
		}
	}
	if x.verdict != nil && x.verdict.merge != nil {
		const row = int(unsafe.Sizeof(verdict{})) + 64 // with its place in the index
		n += row * len(x.verdict.merge.rows)
	}
	return n
}

// sizeOf is about what a decision takes, in bytes. Neighbours may share the texts of policies.
func sizeOf(d *policy.Decision) int {
	const partition, piece = int(unsafe.Sizeof(policy.Decided{})), int(unsafe.Sizeof(policy.Piece{}))
	n := int(unsafe.Sizeof(*d)) + partition*cap(d.Partitions) + int(unsafe.Sizeof(policy.ReplyEdit{}))*cap(d.Replies) +
		int(unsafe.Sizeof(policy.Step{}))*cap(d.Trail)
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
