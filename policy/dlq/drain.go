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

// drainer delivers one queue, in order.
type drainer struct {
	policy *Policy
	queue  *spool.Queue
	failed bool // said so
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

// say tells of the first failure, and of the end of it.
func (d *drainer) say(err error) {
	switch {
	case err != nil && !d.failed && d.policy.ctx.Err() == nil:
		d.policy.deps.Notify(fmt.Sprintf("dead letters for %s wait in the spool: %s", d.queue.Name(), cause(err)))
	case err == nil && d.failed:
		d.policy.deps.Notify(fmt.Sprintf("dead letters for %s are delivered from the spool again", d.queue.Name()))
	}
	d.failed = err != nil
}

// some delivers a few letters and says how many. It takes off the queue what was delivered before the first that was not.
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
	errs := make([]error, len(entries))
	done := make(chan struct{}, len(entries))
	for i, e := range entries {
		d.deliver(ctx, e, func(err error) { errs[i] = err; done <- struct{}{} })
	}
	for range entries {
		<-done
	}
	n := 0
	for ; n < len(entries) && err == nil; n++ {
		if err = errs[n]; err != nil {
			break
		}
	}
	d.policy.metrics.drained.WithLabelValues("delivered").Add(float64(n))
	return n, errors.Join(err, d.queue.Done(entries[:n]))
}

// deliver produces one entry.
func (d *drainer) deliver(ctx context.Context, e spool.Entry, done func(error)) {
	r, err := letter.Decode(e.Data)
	if err != nil {
		done(d.refuse(ctx, e, err))
		return
	}
	s := d.policy.senders[r.Cluster]
	if s == nil {
		done(fmt.Errorf("there is no cluster %q any more", r.Cluster))
		return
	}
	s.ensure(ctx, r.Topic)
	s.produce(ctx, &r, func(err error) {
		if !tooLarge(err) {
			s.forget(r.Topic, err)
			done(err)
			return
		}
		if !d.policy.spawn(func() { d.tooLarge(ctx, e, &r, s, done) }) {
			done(context.Canceled)
		}
	})
}

// tooLarge produces a letter without payload, or keeps it aside, as the configuration wants it.
func (d *drainer) tooLarge(ctx context.Context, e spool.Entry, r *letter.Record, s *sender, done func(error)) {
	if d.policy.config.TooLargeFails {
		done(d.refuse(ctx, e, errLarge))
		return
	}
	d.policy.metrics.drained.WithLabelValues("without_payload").Inc()
	r.Strip(tooLargeReason)
	s.produce(ctx, r, func(err error) {
		if tooLarge(err) {
			err = d.refuse(ctx, e, err)
		}
		done(err)
	})
}

// refuse keeps an entry aside that no topic will ever take.
func (d *drainer) refuse(ctx context.Context, e spool.Entry, why error) error {
	s := d.policy.opened()
	if s == nil {
		return spool.ErrClosed
	}
	q, err := s.Queue(d.queue.Name() + refusedQueue)
	if err == nil {
		err = q.Append(ctx, e.Data)
	}
	if err == nil {
		d.policy.metrics.drained.WithLabelValues("refused").Inc()
		d.policy.deps.Notify(fmt.Sprintf("a dead letter for %s stays in the spool, for somebody to look at: %s", d.queue.Name(), cause(why)))
	}
	return err
}
