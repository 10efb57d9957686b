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
	for !p.closed && int(p.next-p.done) >= p.limit {
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
	}
	p.mu.Unlock() // no defer: this is on every request's path
	if closed {
		return false, errClosed
	}
	return true, nil
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
		p.ring[p.done&uint(len(p.ring)-1)] = exchange{}
		p.done++
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

// unanswered closes the queue and takes out the exchanges whose answers never came.
func (p *pending) unanswered() []exchange {
	p.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	var lost []exchange
	for i := p.matched; i != p.next; i++ {
		lost = append(lost, p.ring[i&uint(len(p.ring)-1)])
	}
	p.next = p.matched
	return lost
}
