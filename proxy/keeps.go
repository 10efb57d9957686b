package proxy

import "unsafe"

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
		n += x.outcome.Decision.Size()
	}
	if x.verdict != nil && x.verdict.merge != nil {
		const row = int(unsafe.Sizeof(verdict{})) + 64 // with its place in the index
		n += row * len(x.verdict.merge.rows)
	}
	return n
}
