package dlq

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/dlq/letter"
)

// overhead is what a letter takes beside its bytes: its item, the table of its headers, and the client's record of it.
const overhead = 2 << 10

// cost is how much memory a letter takes until it is written. What goes alone is there once more while it is sent, side by side for many topics.
func cost(r *letter.Record) int64 {
	n := int64(r.Size())
	if n > smallRecord {
		n *= 2
	}
	return n + overhead
}

// fate is what became of an offset.
type fate uint8

const (
	pending   fate = iota
	produced       // the dead letter is in its topic
	spooled        // it is in the spool, durable
	skipped        // it is a dead letter already, and stays where it is
	queued         // it waits for its transaction to end
	released       // from here on: no dead letter
	withheld       //
	forwarded      //
	closed         //
)

var fateNames = [...]string{"pending", "produced", "spooled", "skipped", "queued", "released", "withheld", "forwarded", "closed"}

// item is one offset to dead-letter.
type item struct {
	offset    int64
	asked     int8
	count     int16     // of the delivery; 0 is unknown
	lockUntil time.Time // zero: unknown

	record letter.Record // what is produced or spooled; its Topic is empty where there is no target
	others int           // of its headers, the first: values that are views until it has bytes of its own
	has    bool          // one user of hold
	hold   hold          // room for these bytes
	bare   bool          // there is no payload
	stays  bool          // until it is durable: the end of its transaction may be tried again
	fate   fate
	err    error // why it was not produced
	final  bool  // a spool would not help
}

// work is one request on its way through the policy. Its items belong to Decide, except between the call that begins to produce one and its
// outcome; once Decide has given up on outcomes (over), those that still come touch nothing but their hold.
type work struct {
	policy  *Policy
	request *policy.Request
	group   group
	began   time.Time
	all     context.Context // of the decision; producing has a deadline before it
	parts   []part
	queued  []*item // that go to the spool behind earlier letters, and may go at once

	fetchUntil time.Time // records are fetched again also for letters that are too late to be produced, but leave time to spool them

	asked map[partitionKey][]policy.Piece // what the client asked for; nil until somebody looks

	mu   sync.Mutex
	left int // outcomes to come
	over bool
	done chan struct{} // closed when left is 0
}

var (
	errTooMany   = errors.New("too many offsets in one request")
	errBacklog   = errors.New("earlier dead letters for the topic wait in the spool")
	errLarge     = errors.New("larger than max_record")
	errNoPayload = errors.New("the payload is not available")
)

// deliver makes and produces all letters. What it could not do by the deadline has an error.
func (w *work) deliver(ctx context.Context) {
	w.expect()
	for i := range w.parts {
		p := &w.parts[i]
		if p.over {
			continue
		}
		fetch := w.policy.source.reader(p.asked.TopicID, p.asked.Index, w.fetchUntil)
		for _, it := range p.items {
			if it.fate != pending {
				continue
			}
			w.prepare(ctx, p, it, fetch)
			if it.fate == pending && it.err == nil {
				w.produce(ctx, it)
			}
		}
		fetch.close()
	}
	w.await(ctx)
}

// expect is before anything is produced, await after it: it waits for all outcomes, up to the deadline.
func (w *work) expect() { w.left, w.done = 1, make(chan struct{}) }

func (w *work) await(ctx context.Context) {
	w.mu.Lock()
	if w.left--; w.left == 0 {
		close(w.done)
	}
	w.mu.Unlock()
	select {
	case <-w.done:
	case <-ctx.Done():
		w.giveUp(ctx.Err())
	}
}

// prepare makes a letter that has its own bytes, and room for them.
func (w *work) prepare(ctx context.Context, p *part, it *item, fetch *fetching) {
	from, ok := w.write(ctx, p, it, fetch)
	if !ok {
		return
	}
	if w.policy.backlog(&it.record) {
		it.err = errBacklog
	}
	n, late := cost(&it.record), false
	if !it.hold.try(w.policy.room, n) {
		if late, ok = w.waitForRoom(ctx, it, n); !ok {
			return
		}
		if from, ok = w.write(ctx, p, it, fetch); !ok {
			it.hold.end()
			return
		}
	}
	it.own(from)
	it.has = true
	w.policy.metrics.payloads[from].Inc()
	switch {
	case late:
		w.policy.spoolAll(w.all, []*item{it}) // now: its bytes are not to be kept until the others are done
		it.drop()
	case it.err != nil && w.policy.wantsSpool(it, w.group):
		w.queued = append(w.queued, it)
	}
}

// waitForRoom waits for room for a letter of n bytes. It lets go of the record, which is looked up again afterwards: what passed by may be pushed out
// meanwhile, and would stay in memory by being waited with. A letter that gets none in time is late: it has room that is kept for such, and goes
// to the spool.
func (w *work) waitForRoom(ctx context.Context, it *item, n int64) (late, ok bool) {
	it.record = letter.Record{Cluster: it.record.Cluster, Topic: it.record.Topic}
	w.policy.spoolAll(w.all, w.queued) // others wait for their room as well
	w.queued = nil
	err := it.hold.take(ctx, w.policy.room, n)
	if err == nil {
		return false, true
	}
	if it.err = err; w.policy.wantsSpool(it, w.group) && it.hold.take(w.all, w.policy.late, n) == nil {
		return true, true
	}
	it.drop()
	return false, false
}

// write makes a letter and finds its target. It is a view of the record, and says where that is from; false where there is no letter.
func (w *work) write(ctx context.Context, p *part, it *item, fetch *fetching) (from letter.Payload, ok bool) {
	l := w.letter(p, it)
	l.Topic = p.topic(ctx, fetch)
	if text, ok := w.policy.reasons.find(l); ok {
		l.Message = text
	}
	w.policy.payload(w.all, w.request.Records, l, fetch)
	cfg := &w.policy.config
	if cfg.again(l) {
		it.fate = skipped
		return l.Payload, false
	}
	if l.Payload == letter.Unavailable && cfg.UnavailableFails {
		it.err, it.final = errNoPayload, true
		return l.Payload, false
	}
	if err := w.policy.address(l, &it.record); err != nil {
		it.err, it.final = err, true
		return l.Payload, false
	}
	if it.bare = l.Payload == letter.Unavailable; !it.bare {
		it.others = len(l.Source.Headers)
	}
	if err := w.policy.within(it); err != nil {
		it.err = err
		return l.Payload, false
	}
	return l.Payload, true
}

// own makes the record independent of where it was found. What passed by is a copy already.
func (it *item) own(from letter.Payload) {
	if from == letter.Refetched {
		it.record.Own(it.others)
	}
}

// admit says whether a letter that has waited may be produced: nothing waits before it, and there is room. Else it has an error.
func (w *work) admit(ctx context.Context, it *item) {
	if w.policy.backlog(&it.record) {
		it.err = errBacklog
		return
	}
	if it.err = it.hold.take(ctx, w.policy.room, cost(&it.record)); it.err == nil {
		it.has = true
	}
}

// drop forgets the payload: it is somewhere else now, or will not be needed.
func (it *item) drop() {
	if !it.stays || it.fate != pending {
		it.record = letter.Record{}
	}
	if it.has {
		it.has = false
		it.hold.end()
	}
}

// produce begins to produce one letter.
func (w *work) produce(ctx context.Context, it *item) {
	s := w.policy.senders[it.record.Cluster]
	s.ensure(ctx, it.record.Topic)
	if it.err = ctx.Err(); it.err != nil {
		return
	}
	w.mu.Lock()
	w.left++
	w.mu.Unlock()
	it.hold.use()
	record := it.record
	s.produce(ctx, &record, func(err error) { w.outcome(ctx, it, err) })
}

// outcome takes note of how producing a letter ended.
func (w *work) outcome(ctx context.Context, it *item, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		it.hold.end()
		return
	}
	if tooLarge(err) {
		if err = w.policy.tooLarge(it, err); err == nil { // it goes once more, without payload
			record, s := it.record, w.policy.senders[it.record.Cluster]
			w.policy.spawn(func() { s.produce(ctx, &record, func(err error) { w.outcome(ctx, it, err) }) })
			return
		}
	}
	it.hold.end()
	if it.err = err; err == nil {
		it.fate = produced
		it.drop()
	}
	if w.left--; w.left == 0 {
		close(w.done)
	}
}

// giveUp makes all that has no outcome yet fail. Their producing may go on for a moment, and has its room until it ends.
func (w *work) giveUp(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	for i := range w.parts {
		for _, it := range w.parts[i].items {
			if it.fate == pending && it.err == nil {
				it.err = err
			}
		}
	}
}
