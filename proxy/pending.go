package proxy

import (
	"errors"
	"fmt"
	"sync"

	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/proxy/internal/delivered"
)

var errClosed = errors.New("connection closed")

// exchange is one request that is owed an answer, and what that answer needs. It is decided once, when the request passes.
type exchange struct {
	correlationID int32
	key, version  int16
	need          need
	txn           bool                   // of key 80: the answer is one to a TxnShareAcknowledge
	outcome       *policy.Outcome        // what the observers get, nil when they get nothing
	verdict       *answerVerdict         // what policies want done with the answer; nil: nothing
	sasl          *saslStep              // for SaslHandshake and SaslAuthenticate
	end           *policy.TransactionEnd // for EndTxn, where policies decided about it
	member        *delivered.Member      // whose request it is; nil where deliveries are not noted
	opens         bool                   // a ShareFetch that opens a session
	kept          int                    // bytes that it keeps, which pending counts
}

// pending is the queue of exchanges of one connection, oldest first, with two cursors: matched (the answer's header was seen)
// and done (the answer's last byte is written to the client). Only done exchanges leave, so that an empty queue means that the client's
// socket is quiet. Nobody holds the lock while writing to a socket.
type pending struct {
	mu      sync.Mutex
	room    sync.Cond
	ring    []exchange // grows by doubling up to limit
	done    uint       // exchanges that left
	matched uint
	next    uint // exchanges that entered
	limit   int
	closed  bool
	waiting bool   // push waits for room
	empty   func() // called once when the queue is empty; nothing enters any more

	limits *limits // nil where nothing is kept
	kept   int     // bytes that all exchanges keep, and the one that enters next
	ahead  int     // of these, the next one's
	taken  int     // of limits: what is kept beyond freeKept
}

func newPending(limit int, l *limits) *pending {
	p := &pending{limit: limit, limits: l}
	p.room.L = &p.mu
	return p
}

// push enters x. With wait it blocks until there is room; without, it reports false when the queue is full, so that the caller can
// flush what it has before it waits. It is an error where limits have nothing left for what x keeps.
func (p *pending) push(x exchange, wait bool) (bool, error) {
	p.mu.Lock()
	if x.kept != p.ahead {
		if err := p.keep(x.kept); err != nil {
			p.mu.Unlock()
			return false, err
		}
	}
	for !p.closed && p.full(x.kept) {
		if !wait {
			p.mu.Unlock()
			return false, nil
		}
		p.waiting = true
		p.room.Wait()
	}
	closed := p.closed
	if !closed {
		if int(p.next-p.done) == len(p.ring) {
			p.grow()
		}
		p.ring[p.next&uint(len(p.ring)-1)] = x
		p.next++
		p.ahead = 0
	}
	p.mu.Unlock() // no defer: this is on every request's path
	if closed {
		return false, errClosed
	}
	return true, nil
}

// full says whether the next exchange, which keeps so many bytes, has to wait until others have left. An empty queue always has room: what it
// waits for are the connection's own answers, and nothing that others hold.
func (p *pending) full(kept int) bool {
	inside := int(p.next - p.done)
	return inside >= p.limit || inside > 0 && kept > 0 && p.taken > 0 && p.limits.crowded()
}

// reserve takes room for what the next exchange keeps, before push does: where it does not enter soon.
func (p *pending) reserve(kept int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keep(kept)
}

// keep counts what the next exchange keeps. The caller holds p.mu, as for settle.
func (p *pending) keep(kept int) error {
	if p.closed {
		return errClosed
	}
	before := p.ahead
	p.kept, p.ahead = p.kept-before+kept, kept
	err := p.settle()
	if err != nil { // the exchange goes nowhere, and those inside are answered still
		p.kept, p.ahead = p.kept-kept+before, before
	}
	return err
}

// settle makes what is taken of limits what it should be.
func (p *pending) settle() error {
	want := max(0, p.kept-freeKept)
	switch {
	case want > p.taken:
		if err := p.limits.take(want - p.taken); err != nil {
			return err
		}
	case want < p.taken:
		p.limits.give(p.taken - want)
	}
	p.taken = want
	return nil
}

func (p *pending) grow() {
	ring := make([]exchange, max(4, 2*len(p.ring))) // a power of two
	for i := p.done; i != p.next; i++ {
		ring[i&uint(len(ring)-1)] = p.ring[i&uint(len(p.ring)-1)]
	}
	p.ring = ring
}

// match returns the oldest exchange whose answer was not seen yet. The broker answers in request order, so a correlation id that is
// not the oldest's is a protocol error.
func (p *pending) match(correlationID int32) (exchange, error) {
	var x exchange
	p.mu.Lock()
	none := p.matched == p.next
	if !none {
		if x = p.ring[p.matched&uint(len(p.ring)-1)]; x.correlationID == correlationID || x.need&bareToken != 0 {
			p.matched++
		}
	}
	p.mu.Unlock()
	switch {
	case none:
		return exchange{}, fmt.Errorf("%w: an answer with correlation id %d, but no request is outstanding", errOutOfStep, correlationID)
	case x.correlationID != correlationID && x.need&bareToken == 0:
		return exchange{}, fmt.Errorf("%w: correlation id %d answered, %d was asked", errOutOfStep, correlationID, x.correlationID)
	}
	return x, nil
}

// finish lets the n oldest exchanges leave: their answers are written.
func (p *pending) finish(n int) {
	p.mu.Lock()
	for range n {
		x := &p.ring[p.done&uint(len(p.ring)-1)]
		p.kept -= x.kept
		*x = exchange{}
		p.done++
	}
	if p.taken > 0 {
		p.settle() // gives back
	}
	waiting := p.waiting
	p.waiting = false
	empty := p.empty
	if empty != nil && p.done != p.next {
		empty = nil
	}
	p.mu.Unlock()
	if waiting {
		p.room.Signal()
	}
	if empty != nil {
		empty()
	}
}

// whenEmpty has f called, by whoever calls finish, when the last exchange has left. It is false where none is there, or the queue is closed.
func (p *pending) whenEmpty(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.done == p.next {
		return false
	}
	p.empty = f
	return true
}

// close refuses further exchanges and wakes whoever waits for room.
func (p *pending) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.room.Broadcast()
}

// unanswered closes the queue and takes out the exchanges whose answers never came. Nothing is counted any more: no answer is written after it.
func (p *pending) unanswered() []exchange {
	p.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	var lost []exchange
	for i := p.matched; i != p.next; i++ {
		lost = append(lost, p.ring[i&uint(len(p.ring)-1)])
	}
	p.next = p.matched
	if p.kept, p.ahead = 0, 0; p.taken > 0 {
		p.settle()
	}
	return lost
}
