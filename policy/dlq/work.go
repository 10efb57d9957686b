package dlq

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/dlq/letter"
)

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

	letter *letter.Letter // until the record is there
	record letter.Record  // what is produced or spooled; its Topic is empty where there is no target
	held   int64          // of room
	bare   bool           // there is no payload
	stays  bool           // until it is durable: the end of its transaction may be tried again
	fate   fate
	err    error // why it was not produced
	final  bool  // a spool would not help
}

// work is one request on its way through the policy. Its items belong to Decide, except between the call that begins to produce one and its
// outcome; once Decide has given up on outcomes (over), those that still come touch nothing but the room they held.
type work struct {
	policy  *Policy
	request *policy.Request
	group   group
	began   time.Time
	all     context.Context // of the decision; producing has a deadline before it
	parts   []part

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
		fetch := w.policy.source.reader(p.asked.TopicID, p.asked.Index)
		for _, it := range p.items {
			if it.fate != pending {
				continue
			}
			if w.make(ctx, p, it, fetch); it.fate == pending && it.err == nil {
				w.admit(ctx, it)
			}
			if it.fate == pending && it.err == nil {
				w.produce(ctx, it)
			}
		}
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

// make makes a letter and finds its target.
func (w *work) make(ctx context.Context, p *part, it *item, fetch *fetching) {
	it.letter = w.letter(p, it)
	if p.asked.Topic == "" {
		it.letter.Topic = fetch.name(ctx, it.letter.Topic)
	}
	if text, ok := w.policy.reasons.find(it.letter); ok {
		it.letter.Message = text
	}
	w.policy.payload(ctx, w.request.Records, it.letter, fetch)
	cfg := &w.policy.config
	if cfg.again(it.letter) {
		it.fate, it.letter = skipped, nil
		return
	}
	if it.letter.Payload == letter.Unavailable && cfg.UnavailableFails {
		it.err, it.final = errNoPayload, true
		return
	}
	if it.err = w.policy.address(it.letter, &it.record); it.err != nil {
		it.final = true
		return
	}
	it.bare, it.letter = it.letter.Payload == letter.Unavailable, nil // the record has it all
	if int64(it.record.Size()) > cfg.MaxRecord {
		if it.err = w.policy.tooLarge(it, errLarge); it.err != nil {
			return
		}
	}
}

// admit says whether a letter may be produced: nothing waits before it, and there is room. Else it has an error.
func (w *work) admit(ctx context.Context, it *item) {
	if w.policy.backlog(&it.record) {
		it.err = errBacklog
	}
	var err error
	if it.held, err = w.policy.room.take(ctx, int64(it.record.Size())); err != nil {
		it.err = err
		if !it.stays && w.policy.wantsSpool(it, w.group) {
			w.policy.spoolAll(w.all, []*item{it}) // now: its bytes are not to be kept until the others are done
		}
		it.drop()
	}
}

// drop forgets the payload: it is somewhere else now, or will not be needed.
func (it *item) drop() {
	if !it.stays || it.fate != pending {
		it.record = letter.Record{}
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
	record, held := it.record, it.held
	s.produce(ctx, &record, func(err error) { w.outcome(ctx, it, held, err) })
}

// outcome takes note of how producing a letter ended.
func (w *work) outcome(ctx context.Context, it *item, held int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		w.policy.room.give(held)
		return
	}
	if tooLarge(err) {
		if err = w.policy.tooLarge(it, err); err == nil { // it goes once more, without payload
			record, s := it.record, w.policy.senders[it.record.Cluster]
			w.policy.spawn(func() { s.produce(ctx, &record, func(err error) { w.outcome(ctx, it, held, err) }) })
			return
		}
	}
	if it.err = err; err == nil {
		it.fate, it.held = produced, 0
		it.drop()
		w.policy.room.give(held)
	}
	if w.left--; w.left == 0 {
		close(w.done)
	}
}

// giveUp makes all that has no outcome yet fail. Their producing may go on for a moment, and holds its room until it ends.
func (w *work) giveUp(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	for i := range w.parts {
		for _, it := range w.parts[i].items {
			if it.fate == pending && it.err == nil {
				it.err, it.held = err, 0
			}
		}
	}
}
