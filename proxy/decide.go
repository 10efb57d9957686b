package proxy

import (
	"context"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/ackproxy/ackproxy/policy"
)

// answerVerdict is what policies want done with an answer. All of it was decided with the request: the response loop calls no policy.
type answerVerdict struct {
	merge      *merge // nil: the answer passes as it is
	delay      time.Duration
	close      policy.Close
	closeAfter int // bytes of the answer
}

// lookAtClient is how often a client is looked at while its connection waits for a policy, a delay, or room: nobody reads from it meanwhile.
const lookAtClient = 500 * time.Millisecond

// decide asks the policies about a request, and returns what to forward instead of it, or nil.
func (r *requests) decide(x *exchange, body int) ([]byte, error) {
	chain, o := r.c.srv.cfg.Policies, x.outcome
	ctx := context.Background()
	if chain.Waits() {
		if err := r.h.readyToWait(); err != nil {
			return nil, r.gone(o, err)
		}
		watched, stop := r.c.watch()
		defer stop()
		ctx = watched
	}
	if x.member != nil {
		o.Request.Deliveries = x.member
	}
	d := chain.Decide(ctx, &o.Request, r.c.srv.TopicName)
	o.Decision = d
	r.c.srv.metrics.decided(d)
	if d.Close == policy.CloseBefore {
		return nil, r.unsent(o, refusal(d))
	}
	if d.DelayForward > 0 {
		err := r.c.pending.reserve(x.keeps())
		if err == nil {
			err = r.c.delay(r.h, d.DelayForward)
		}
		if err != nil {
			return nil, r.gone(o, err)
		}
	}
	if m := newMerge(d, o.Request.Carrier); m != nil || d.DelayReply > 0 || d.Close != policy.CloseNever {
		x.verdict = &answerVerdict{merge: m, delay: d.DelayReply, close: d.Close, closeAfter: d.CloseAfter}
	}
	if !d.Edited() {
		return nil, nil
	}
	instead, err := rewriteRequest(o.Request.Frame, body, x.version, o.Request.Carrier, d)
	if err != nil {
		return nil, r.unsent(o, err)
	}
	return instead, nil
}

// refusal is why a request is not forwarded.
func refusal(d *policy.Decision) error {
	if d.Gone {
		return fmt.Errorf("read from %s: %w", clientSide, io.ErrUnexpectedEOF)
	}
	by := "the chain"
	if n := len(d.Trail); n > 0 {
		by = fmt.Sprintf("%q", d.Trail[n-1].Policy)
		if err := d.Trail[n-1].Err; err != nil {
			return fmt.Errorf("%w: %s failed: %w", errPolicy, by, err)
		}
	}
	return fmt.Errorf("%w: %s", errPolicy, by)
}

// gone is unsent for a connection that cannot go on, whatever policies had decided or were to decide.
func (r *requests) gone(o *policy.Outcome, err error) error {
	if o.Decision == nil {
		o.Decision = &policy.Decision{}
	}
	o.Decision.Gone = true
	return r.unsent(o, err)
}

// unsent tells the observers of a request that is not forwarded, and returns err.
func (r *requests) unsent(o *policy.Outcome, err error) error {
	o.Reply.State, o.Reply.Received = policy.Lost, time.Now()
	if o.Decision != nil && o.Decision.Close != policy.CloseBefore {
		o.Decision.Close, o.Decision.CloseAfter = policy.CloseBefore, 0
	}
	r.c.srv.observe(o)
	return err
}

// watch returns a context for a decision that waits. It ends when the connection fails, and so soon after the client has reset it. A client's
// FIN does not end it: the decision is finished, and the request goes on. Most decisions are there before anybody looks.
func (c *conn) watch() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{c: c, cancel: cancel}
	c.watching.Store(w)
	select {
	case <-c.failed: // before fail could see w
		cancel()
	default:
		w.lookIn(lookAtClient)
	}
	return ctx, w.stop
}

// guard fails the connection soon after the client has reset it, until stop is called. The connection has left its loop.
func (c *conn) guard() (stop func()) {
	w := &watch{c: c}
	w.lookIn(lookAtClient)
	return w.stop
}

// watch looks after a client while the connection waits for something else.
type watch struct {
	c      *conn
	cancel context.CancelFunc // of a decision; nil where none is waited for

	mu   sync.Mutex
	next *time.Timer // nil: stopped
	over bool
}

func (w *watch) lookIn(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.next = time.AfterFunc(d, w.look)
	}
}

func (w *watch) look() {
	if wasReset(w.c.up.src) {
		w.c.fail(errReset)
		return
	}
	w.lookIn(lookAtClient)
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if w.next != nil {
		w.next.Stop()
	}
	if w.cancel != nil {
		w.cancel()
		w.c.watching.CompareAndSwap(w, nil)
	}
}

// errReset is what a read from a client would say that nobody reads from.
var errReset = fmt.Errorf("read from %s: %w", clientSide, syscall.ECONNRESET)

// delay lets h wait for d. It ends early with the connection, and so soon after the client has reset it; what is delayed then goes nowhere.
func (c *conn) delay(h *half, d time.Duration) error {
	if err := h.readyToWait(); err != nil {
		return err
	}
	defer c.guard()()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.failed:
		return errClosed
	case <-t.C:
	}
	if wasReset(c.up.src) { // since anybody looked
		return errReset
	}
	return nil
}

// carryOut does what policies want done with an answer: frame, or instead where that is not nil. Its body begins at body in both.
func (r *responses) carryOut(x exchange, frame []byte, body int, instead []byte) ([]byte, error) {
	v := x.verdict
	if v.close == policy.CloseAfter {
		return nil, errPolicy
	}
	if v.merge != nil {
		from := frame
		if instead != nil {
			from = instead
		}
		merged, _, err := v.merge.apply(from, body, x.version)
		if err != nil {
			return nil, r.unread(err)
		}
		if merged != nil {
			instead = merged
		}
	}
	if v.delay > 0 {
		if err := r.c.delay(r.h, v.delay); err != nil {
			return nil, err
		}
	}
	if v.close == policy.CloseNever {
		return instead, nil
	}
	if instead == nil {
		instead = frame
	}
	if v.close == policy.CloseTruncated {
		instead = instead[:min(max(v.closeAfter, 0), len(instead))]
	}
	if err := r.h.flush(); err != nil {
		return nil, err
	}
	if len(instead) > 0 {
		if err := r.h.write(instead); err != nil {
			return nil, err
		}
	}
	return nil, errPolicy
}
