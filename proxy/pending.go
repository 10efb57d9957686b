package proxy

import (
	"errors"
	"fmt"
	"sync"

	"github.com/ackproxy/ackproxy/policy"
)

var errClosed = errors.New("connection closed")

// exchange is one request that is owed an answer, and what that answer needs. It is decided once, when the request passes.
type exchange struct {
	correlationID int32
	key, version  int16
	need          need
	txn           bool            // of key 80: the answer is one to a TxnShareAcknowledge
	outcome       *policy.Outcome // what the observers get, nil when they get nothing
	sasl          *saslStep       // for SaslHandshake and SaslAuthenticate
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
}

func newPending(limit int) *pending {
	p := &pending{limit: limit}
	p.room.L = &p.mu
	return p
}

// push enters x. With wait it blocks until there is room; without, it reports false when the queue is full, so that the caller can
// flush what it has before it waits.
func (p *pending) push(x exchange, wait bool) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed && int(p.next-p.done) >= p.limit {
		if !wait {
			return false, nil
		}
		p.room.Wait()
	}
	if p.closed {
		return false, errClosed
	}
	if int(p.next-p.done) == len(p.ring) {
		p.grow()
	}
	p.ring[p.next%uint(len(p.ring))] = x
	p.next++
	return true, nil
}

func (p *pending) grow() {
	ring := make([]exchange, max(4, 2*len(p.ring)))
	for i := p.done; i != p.next; i++ {
		ring[i%uint(len(ring))] = p.ring[i%uint(len(p.ring))]
	}
	p.ring = ring
}

// match returns the oldest exchange whose answer was not seen yet. The broker answers in request order, so a correlation id that is
// not the oldest's is a protocol error.
func (p *pending) match(correlationID int32) (exchange, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.matched == p.next {
		return exchange{}, fmt.Errorf("%w: an answer with correlation id %d, but no request is outstanding", errOutOfStep, correlationID)
	}
	x := p.ring[p.matched%uint(len(p.ring))]
	if x.need&bareToken == 0 && x.correlationID != correlationID { // a bare token has none
		return exchange{}, fmt.Errorf("%w: correlation id %d answered, %d was asked", errOutOfStep, correlationID, x.correlationID)
	}
	p.matched++
	return x, nil
}

// finish lets the n oldest exchanges leave: their answers are written.
func (p *pending) finish(n int) {
	p.mu.Lock()
	for range n {
		p.ring[p.done%uint(len(p.ring))] = exchange{}
		p.done++
	}
	p.mu.Unlock()
	p.room.Signal()
}

// close refuses further exchanges and wakes whoever waits for room.
func (p *pending) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.room.Broadcast()
}

// unanswered closes the queue and takes out the exchanges whose answers never came.
func (p *pending) unanswered() []exchange {
	p.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	var lost []exchange
	for i := p.matched; i != p.next; i++ {
		lost = append(lost, p.ring[i%uint(len(p.ring))])
	}
	p.next = p.matched
	return lost
}
