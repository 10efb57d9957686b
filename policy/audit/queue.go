package audit

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ackproxy/ackproxy/policy"
)

// item is one place in the queue: an outcome, a control event, the mark of outcomes that were dropped here, or the wish to open files anew.
type item struct {
	outcome *policy.Outcome
	control *control
	gap     *loss
	reopen  bool
	cost    int64 // bytes
}

// queue is a FIFO bounded in bytes. Many put, one takes. What does not fit is dropped and tallied; the tally is queued as one item ahead of the
// next that fits, so that it is read in its place. Once full, it takes nothing before an eighth of it is free: else an overload would
// alternate between one event and one gap.
type queue struct {
	mu       sync.Mutex
	ring     []item // a power of two long; grows up to what the byte limit lets in
	head, n  int
	bytes    int64 // queued and taken but not yet released
	limit    int64
	full     bool
	gap      *loss // what was dropped since the last item
	closed   bool
	waiting  bool          // the taker sleeps until wake
	wake     chan struct{} // one token
	closing  chan struct{} // closed by close
	inFlight int           // taken, not yet released
	gauge    prometheus.Gauge
}

func newQueue(limit int64, gauge prometheus.Gauge) *queue {
	return &queue{ring: make([]item, 256), limit: limit, wake: make(chan struct{}, 1), closing: make(chan struct{}), gauge: gauge}
}

// put queues it and says whether it did. What does not fit is for the caller to count, with drop. An item that costs nothing always fits.
func (q *queue) put(it item) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.fits(it.cost) {
		return false
	}
	if q.gap != nil {
		q.push(item{gap: q.gap})
		q.gap = nil
	}
	q.push(it)
	q.gauge.Set(float64(q.bytes))
	q.rouse()
	return true
}

// rouse sends the token that sleep was promised.
func (q *queue) rouse() {
	if q.waiting {
		q.waiting = false
		q.wake <- struct{}{} // empty: awake and sleep see to it
	}
}

// fits decides about room. An item larger than the whole queue is taken when nothing else is queued: its bytes exist already.
func (q *queue) fits(cost int64) bool {
	switch {
	case q.closed:
		return false
	case cost == 0:
		return true
	case q.bytes == 0:
		q.full = false
	case q.full && q.bytes > q.limit-q.limit/8:
		return false
	default:
		q.full = q.bytes+cost > q.limit
	}
	return !q.full
}

func (q *queue) push(it item) {
	if q.n == len(q.ring) {
		grown := make([]item, 2*len(q.ring))
		for i := range q.n {
			grown[i] = q.ring[(q.head+i)&(len(q.ring)-1)]
		}
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = it
	q.n++
	q.bytes += it.cost
}

// drop adds n events of one type to the gap at the end of the queue.
func (q *queue) drop(typ eventType, n uint64, group []byte, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed { // the log has ended
		return
	}
	if q.gap == nil {
		q.gap = new(loss)
	}
	q.gap.count(typ, n, at)
	q.gap.group(group)
	q.rouse() // where the queue drained in between, the gap is due now
}

// take moves up to cap(dst) items to dst. The gap comes when all that was queued before it has been taken.
func (q *queue) take(dst []item) []item {
	q.mu.Lock()
	defer q.mu.Unlock()
	for dst = dst[:0]; q.n > 0 && len(dst) < cap(dst); q.n-- {
		dst = append(dst, q.ring[q.head])
		q.ring[q.head] = item{}
		q.head = (q.head + 1) & (len(q.ring) - 1)
	}
	if q.n == 0 && q.gap != nil && len(dst) < cap(dst) {
		dst = append(dst, item{gap: q.gap})
		q.gap = nil
	}
	q.inFlight = len(dst)
	return dst
}

// release gives back the room of taken items.
func (q *queue) release(items []item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range items {
		q.bytes -= items[i].cost
		items[i] = item{}
	}
	q.inFlight = 0
	q.gauge.Set(float64(q.bytes))
}

// rest is what the taker finds when it has taken all.
type rest uint8

const (
	wait  rest = iota // nothing is queued; the next put will send the wake token
	more              // something came meanwhile
	ended             // nothing will come any more
)

// sleep says whether the taker may wait for the wake token.
func (q *queue) sleep() rest {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.n > 0 || q.gap != nil:
		return more
	case q.closed:
		return ended
	}
	q.waiting = true
	return wait
}

// awake ends what sleep began, whether the token came or a timer ended the wait.
func (q *queue) awake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = false
	select {
	case <-q.wake:
	default:
	}
}

// close ends put; what is queued can still be taken. It may be called twice.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		close(q.closing)
		q.rouse()
	}
}

// queued is how many items, and of what size, wait or are being written.
func (q *queue) queued() (items int, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n + q.inFlight, q.bytes
}
