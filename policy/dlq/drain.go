package dlq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackproxy/ackproxy/policy/dlq/letter"
	"github.com/ackproxy/ackproxy/policy/dlq/spool"
)

const (
	drainBytes   = 1 << 20 // of letters that are taken from a queue at a time, or one that is larger
	drainTimeout = 15 * time.Second
	drainPause   = 100 * time.Millisecond // after a failure; it doubles
	drainMaximum = 10 * time.Second
)

// What became of a dead letter that was taken from the spool, as drained_total has it.
const (
	drainDelivered = "delivered"
	drainBare      = "without_payload"
	drainRefused   = "refused"
)

// maxCauses is how many causes of one outage are told: some errors have a file's name or a port in them, and are new each time.
const maxCauses = 20

// errTopicLimit is why a broker refuses a letter that max_record allows.
var errTopicLimit = errors.New("larger than max.message.bytes of the dead-letter topic allows, which can be raised there")

// tellDamage tells what of a spool that was opened cannot be read.
func (p *Policy) tellDamage(s *spool.Store) {
	for _, d := range s.Damaged() {
		p.metrics.damaged.Inc()
		p.deps.Notify(fmt.Sprintf("the spool is damaged: %s; look for dead letters in that file, or in *.damaged beside it, where it is kept once what "+
			"can be read of it is delivered, and remove it", d))
	}
}

// drainer delivers one queue, in order.
type drainer struct {
	policy *Policy
	queue  *spool.Queue
	said   map[string]bool // causes of the outage that goes on; nil while there is none
}

// outcome is what producing a letter came to.
type outcome struct {
	result string // empty while it has to be tried again
	err    error  // why it has, or why no topic will ever take it
}

// run ends when the queue is empty, or the policy is closed.
func (d *drainer) run() {
	p, pause := d.policy, drainPause
	for p.ctx.Err() == nil {
		n, err := d.some()
		switch {
		case err != nil:
			d.say(err)
			p.sleep(pause)
			pause = min(2*pause, drainMaximum)
		case n > 0:
			pause = drainPause
			d.say(nil)
		default:
			p.draining.Delete(d.queue.Name())
			if d.queue.Waiting() > 0 { // appended in between, and seen by nobody
				p.drain(d.queue)
			}
			return
		}
	}
}

// say tells of each cause of an outage once, and of its end.
func (d *drainer) say(err error) {
	switch {
	case err != nil && d.policy.ctx.Err() == nil:
		why := cause(err)
		if d.said[why] || len(d.said) >= maxCauses {
			return
		}
		if d.said == nil {
			d.said = make(map[string]bool)
		}
		d.said[why] = true
		d.policy.deps.Notify(fmt.Sprintf("dead letters for %s wait in the spool: %s", d.queue.Name(), why))
	case err == nil && d.said != nil:
		d.said = nil
		d.policy.deps.Notify(fmt.Sprintf("dead letters for %s are delivered from the spool again", d.queue.Name()))
	}
}

// some delivers a few letters, and says how many the queue is rid of.
func (d *drainer) some() (int, error) {
	held, err := d.policy.drains.take(d.policy.ctx, max(drainBytes, d.queue.Largest()))
	if err != nil {
		return 0, err
	}
	defer d.policy.drains.give(held)
	entries, err := d.queue.Next(drainBytes)
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(d.policy.ctx, drainTimeout)
	defer cancel()
	outcomes := make([]outcome, len(entries))
	done := make(chan struct{}, len(entries))
	for i, e := range entries {
		d.deliver(ctx, e, func(o outcome) { outcomes[i] = o; done <- struct{}{} })
	}
	for range entries {
		<-done
	}
	return d.settle(entries, outcomes)
}

// settle takes off the queue what comes before the first letter that has to be tried again, and says how much. Letters that no topic will take are
// set aside here, in their turn: one behind a letter that is tried again would be set aside each time.
func (d *drainer) settle(entries []spool.Entry, outcomes []outcome) (int, error) {
	ctx, cancel := context.WithTimeout(d.policy.ctx, drainTimeout)
	defer cancel()
	n := 0
	var err error
	for n < len(entries) {
		o := outcomes[n]
		if o.result == drainRefused {
			o.err = d.setAside(ctx, entries[n], o.err)
		}
		if err = o.err; err != nil {
			break
		}
		d.policy.metrics.drained.WithLabelValues(o.result).Inc()
		n++
	}
	return n, errors.Join(err, d.queue.Done(entries[:n]))
}

// deliver produces one entry.
func (d *drainer) deliver(ctx context.Context, e spool.Entry, done func(outcome)) {
	r, err := letter.Decode(e.Data)
	if err != nil {
		done(outcome{drainRefused, err})
		return
	}
	s := d.policy.senders[r.Cluster]
	if s == nil {
		done(outcome{err: fmt.Errorf("there is no cluster %q any more", r.Cluster)})
		return
	}
	s.ensure(ctx, r.Topic)
	s.produce(ctx, &r, func(err error) {
		if !tooLarge(err) {
			done(outcomeOf(drainDelivered, err))
			return
		}
		if !d.policy.spawn(func() { d.tooLarge(ctx, &r, s, done) }) {
			done(outcome{err: context.Canceled})
		}
	})
}

// outcomeOf is the outcome of producing a letter in a form that was not too large.
func outcomeOf(result string, err error) outcome {
	if err != nil {
		return outcome{err: err}
	}
	return outcome{result: result}
}

// tooLarge produces a letter without payload, or gives it up, as the configuration wants it.
func (d *drainer) tooLarge(ctx context.Context, r *letter.Record, s *sender, done func(outcome)) {
	why := d.limit(r)
	if d.policy.config.TooLargeFails {
		done(outcome{drainRefused, why})
		return
	}
	r.Strip(tooLargeReason)
	s.produce(ctx, r, func(err error) {
		if tooLarge(err) {
			done(outcome{drainRefused, fmt.Errorf("even without its payload %w", d.limit(r))})
			return
		}
		done(outcomeOf(drainBare, err))
	})
}

// limit is what a letter that is too large exceeds: max_record, should it be lower than when the letter was spooled, or else the topic's limit.
func (d *drainer) limit(r *letter.Record) error {
	if int64(r.Size()) > d.policy.config.MaxRecord {
		return errLarge
	}
	return errTopicLimit
}

// setAside keeps an entry that no topic will ever take in a queue that nobody drains.
func (d *drainer) setAside(ctx context.Context, e spool.Entry, why error) error {
	s := d.policy.opened()
	if s == nil {
		return spool.ErrClosed
	}
	q, err := s.Queue(d.queue.Name() + refusedQueue)
	if err == nil {
		err = q.Move(ctx, e)
	}
	if err != nil {
		return fmt.Errorf("one that no topic takes cannot be set aside: %w", err)
	}
	d.policy.deps.Notify(fmt.Sprintf("a dead letter for %s stays in the spool, for somebody to look at: %s", d.queue.Name(), cause(why)))
	return nil
}
