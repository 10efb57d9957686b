package audit

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ackproxy/ackproxy/policy"
)

const (
	// flushAt is how many bytes of lines are gathered for one write.
	flushAt = 64 << 10
	// takeUpTo is how many items are taken from the queue at a time.
	takeUpTo = 128
	// linger is the least time between two looks at an empty queue: events of one moment share a write and a wake-up.
	linger = 4 * time.Millisecond
)

// writer drains the queue. All of it belongs to the goroutine of run, except the atomics.
type writer struct {
	formatter
	join joiner
	page pages

	queue   *queue
	metrics *metrics
	outs    []*output
	buf     []byte
	tally   loss // of the lines in buf
	now     func() time.Time
	timer   *time.Timer   // of rest
	done    chan struct{} // closed when run returns
	err     error         // of run; read after done

	onError    func(error) // may be nil
	reported   time.Time   // of gaps
	unreported uint64      // events in gaps since

	written, held, head atomic.Uint64
	aborted             atomic.Bool
}

func newWriter(cfg Config, a *Auditor, outs []*output, s seams) *writer {
	var seed [10]byte
	s.random(seed[:])
	return &writer{
		formatter: formatter{
			stream:    string(appendText(nil, streamID(cfg.Instance, s.random))),
			instance:  string(appendText(nil, cfg.Instance)),
			version:   string(appendText(nil, cfg.Version)),
			ids:       newIDs(seed),
			topicName: cfg.TopicName,
		},
		queue: a.queue, metrics: a.metrics, outs: outs, now: s.now, done: a.done,
		timer: time.NewTimer(linger), onError: cfg.OnError,
		buf: make([]byte, 0, flushAt+2*maxLine),
	}
}

func (w *writer) active() bool { return len(w.outs) > 0 }

// run writes until the queue is closed and empty, then the stop event.
func (w *writer) run() {
	defer close(w.done)
	items := make([]item, 0, takeUpTo)
	for {
		w.recover(false)
		w.reopen()
		items = w.queue.take(items)
		for _, it := range items {
			w.item(it)
		}
		w.flush()
		idle := len(items) < cap(items)
		w.queue.release(items)
		if idle && !w.rest() {
			break
		}
	}
	w.stop()
}

func (w *writer) item(it item) {
	switch {
	case it.outcome != nil:
		if !w.aborted.Load() {
			w.outcome(it.outcome)
		}
		it.outcome.Release()
	case w.aborted.Load():
	case !w.active():
	case it.reopen:
		w.flush()
		for _, o := range w.outs {
			o.again = o.file != nil
		}
		w.reopen()
	case it.gap != nil:
		w.buf = w.gap(w.buf, it.gap, "", w.now())
		w.line(auditControl, 1, nil)
		w.reportGap(it.gap.events())
	default:
		w.controlLine(it.control)
	}
}

// reportGap reports that the queue was full, as seldom as a failing sink is reported. Only now: while the sinks stood still this goroutine did.
func (w *writer) reportGap(events uint64) {
	w.unreported += events
	if now := w.now(); w.onError != nil && (w.reported.IsZero() || now.Sub(w.reported) >= reportEvery) {
		w.onError(fmt.Errorf("audit: the queue was full: %d events lost", w.unreported))
		w.reported, w.unreported = now, 0
	}
}

func (w *writer) controlLine(c *control) {
	w.buf = w.control(w.buf, c.kind, c.at)
	w.buf = append(append(w.buf, c.body...), "}}\n"...)
	w.line(auditControl, 1, nil)
}

// line counts a line that is complete in buf: its event with the first of its lines.
func (w *writer) line(typ eventType, events uint64, o *policy.Outcome) {
	w.seq++
	at := time.Time{}
	if o != nil {
		at = eventTime(o)
		w.tally.group(o.Request.GroupID)
	}
	if at.IsZero() {
		at = w.now()
	}
	w.tally.count(typ, events, at)
	if w.tally.firstSeq == 0 {
		w.tally.firstSeq = w.seq
	}
	w.tally.lastSeq = w.seq
	if len(w.buf) >= flushAt {
		w.flush()
	}
}

// flush hands the lines in buf to every sink.
func (w *writer) flush() {
	if len(w.buf) == 0 {
		return
	}
	now, events, kept := w.now(), w.tally.events(), true
	for _, o := range w.outs {
		kept = o.write(w.buf, &w.tally, now) && kept
	}
	w.head.Store(w.seq)
	w.metrics.headSeq.Set(float64(w.seq))
	if kept {
		w.written.Add(events)
		w.metrics.written.Add(float64(events))
	} else {
		w.metrics.drop(events)
	}
	w.countHeld()
	w.buf = w.buf[:0]
	w.tally.reset()
}

func (w *writer) countHeld() {
	n := uint64(0)
	for _, o := range w.outs {
		n += o.heldTally.events()
	}
	w.held.Store(n)
}

// recover tries sinks that fail once more, and logs what they lost while they did: before any line that comes after.
func (w *writer) recover(last bool) {
	for _, o := range w.outs {
		if o.failing() && o.retry(w.now(), last) {
			if o.lost.events() > 0 {
				w.buf = w.gap(w.buf, &o.lost, o.name, w.now())
				o.lost.reset()
				w.line(auditControl, 1, nil)
			}
			w.countHeld()
		}
	}
}

// reopen opens files anew where that is wanted. One that fails may have been left inside a line, whose rest belongs there: it comes later.
func (w *writer) reopen() {
	for _, o := range w.outs {
		if !o.again || o.failing() {
			continue
		}
		o.again = false
		if err := o.file.reopen(); err == nil {
			o.mend()
		} else if w.onError != nil {
			w.onError(fmt.Errorf("audit sink %s: not opened anew, lines go on into the file that was open: %w", o.name, err))
		}
	}
}

// rest waits for something to do, at least for linger, and says whether there is. A sink that fails is looked after meanwhile.
func (w *writer) rest() bool {
	w.timer.Reset(linger)
	select {
	case <-w.timer.C:
	case <-w.queue.closing:
	}
	if r := w.queue.sleep(); r != wait {
		return r == more
	}
	var retry <-chan time.Time
	if w.failing() {
		w.timer.Reset(retryEvery)
		retry = w.timer.C
	}
	select {
	case <-w.queue.wake:
	case <-retry:
	}
	w.queue.awake()
	return true
}

func (w *writer) failing() bool {
	for _, o := range w.outs {
		if o.failing() {
			return true
		}
	}
	return false
}

// stop writes the last event, tries failing sinks a last time and closes all.
func (w *writer) stop() {
	w.recover(true)
	if w.active() && !w.aborted.Load() {
		w.controlLine(newControl("stop", w.now(), []Field{
			{"events", w.written.Load()}, {"dropped", w.metrics.droppedN.Load()},
		}))
		w.flush()
		w.recover(true)
		w.flush()
	}
	var errs []error
	for _, o := range w.outs {
		errs = append(errs, o.end())
	}
	w.err = errors.Join(errs...)
	w.metrics.release()
}

// giveUp makes run end without writing more. Closing the sinks frees a write that hangs, where the system lets it.
func (w *writer) giveUp() {
	w.aborted.Store(true)
	for _, o := range w.outs {
		o.close()
	}
}
