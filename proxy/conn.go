package proxy

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackproxy/ackproxy/policy"
)

// conn is one client connection and its one broker connection. It owns both sockets and closes them when both halves have ended, so that
// no descriptor number is reused under one.
type conn struct {
	srv      *Server
	on       *listener
	broker   *brokerState
	info     *policy.Conn
	up, down *half
	answers  *responses

	mu   sync.Mutex // over ends, which change when the connection leaves a loop
	ends struct{ client, broker net.Conn }
	loop *loop // while it is on one: then both halves run on the loop's goroutine, and nothing of theirs is shared

	pending    *pending
	principal  atomic.Pointer[policy.Principal] // set by the response loop, read by the request loop
	advertised atomic.Pointer[advertised]       // set by the request loop, read by the response loop; nil: nothing of its own
	spoke      atomic.Bool                      // a byte of the broker's reached the client
	relay      atomic.Bool                      // after a SaslHandshake v0 that cannot be followed: frames pass unread

	watching atomic.Pointer[watch] // of a decision that waits
	left     atomic.Int32          // halves that have not ended
	patience *time.Timer           // of a refusal that waits; set by the request half as it ends
	answered chan struct{}         // closed when the response half has ended

	once   sync.Once
	failed chan struct{} // closed by fail
	err    error         // why; read after failed
}

func newConn(srv *Server, on *listener, client, broker net.Conn, state *brokerState) *conn {
	c := &conn{srv: srv, on: on, broker: state, pending: newPending(srv.cfg.MaxInFlight, &srv.limits), answered: make(chan struct{}), failed: make(chan struct{})}
	c.ends.client, c.ends.broker = client, broker
	c.info = &policy.Conn{
		ID: fmt.Sprintf("c-%d", srv.ids.Add(1)), Listener: on.name, BrokerID: on.node,
		Client: client.RemoteAddr().String(), Upstream: state.addr, Opened: time.Now(),
	}
	c.principal.Store(&policy.Principal{Source: "none", VerifiedBy: "nobody"})
	c.up = &half{src: client, dst: broker, side: clientSide, limits: &srv.limits}
	c.up.d = &requests{c: c, h: c.up}
	c.down = &half{src: broker, dst: client, side: brokerSide, limits: &srv.limits}
	c.answers = &responses{c: c, h: c.down}
	c.down.d = c.answers
	c.left.Store(2)
	return c
}

// start lets both halves run, each on a goroutine of its own. finish is called when they have ended.
func (c *conn) start() {
	go c.direction(c.up)
	go c.direction(c.down)
}

// direction runs one half to its end.
func (c *conn) direction(h *half) {
	var err error
	if h.send, err = sender(h.dst); err == nil {
		err = h.run()
	}
	c.ended(h, err)
}

// ended is called once for each half. A clean end is passed on as a FIN, and the other half runs on to its own; an error ends both.
func (c *conn) ended(h *half, err error) {
	h.over = true
	h.close()
	if h == c.down {
		c.pending.close() // before anybody learns of the end: what is read after it is not sent, and told of as that
	}
	if err == nil && !c.hasFailed() { // else it is fail that ended it, and has said what there is to say
		err = closeWrite(h.dst)
	}
	if err != nil && !(h == c.up && c.refuse(err)) {
		c.fail(err)
	}
	if h == c.down {
		close(c.answered)
		c.answers.verdict(policy.Reply{State: policy.Lost}) // to what was only answered in part
		c.answers.ended()
		c.lose()
	}
	if c.left.Add(-1) == 0 {
		c.finish()
	}
}

// hasFailed says whether the connection has failed.
func (c *conn) hasFailed() bool {
	select {
	case <-c.failed:
		return true
	default:
		return false
	}
}

// refusalPatience is how long answers may take to requests before one that the proxy refuses: longer than any broker holds one.
const refusalPatience = 10 * time.Minute

// refuse ends the connection for a reason of the proxy's own, once the requests before are answered: a broker serves them first, too. It is
// false where there is nothing to wait for.
func (c *conn) refuse(err error) bool {
	if why := reason(err); why == "io" || why == "drained" || !c.pending.whenEmpty(func() { c.fail(err) }) {
		return false
	}
	c.patience = time.AfterFunc(refusalPatience, func() { c.fail(err) })
	return true
}

// finish is the end of the connection, whatever it was.
func (c *conn) finish() {
	if c.patience != nil {
		c.patience.Stop()
	}
	c.lose() // what the request half registered after the broker had gone
	c.leaveLoop()
	c.ends.client.Close()
	c.ends.broker.Close()
	c.srv.leave(c)
	if c.hasFailed() {
		c.report(c.err)
	} else {
		c.report(nil)
	}
	c.srv.work.Done()
}

// resetOnClose makes the end of c a reset. That is how a broker looks that is not there; clients take a FIN before the first answer for
// a sign of misconfiguration, and some give up for good.
func resetOnClose(c net.Conn) {
	if tcp, ok := c.(interface{ SetLinger(int) error }); ok {
		tcp.SetLinger(0)
	}
}

// fail shuts both sockets down, which wakes both halves; finish closes them.
func (c *conn) fail(err error) {
	c.once.Do(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.err = err
		close(c.failed)
		if w := c.watching.Load(); w != nil {
			w.cancel()
		}
		c.pending.close()
		past := time.Unix(1, 0)
		for _, end := range []net.Conn{c.ends.client, c.ends.broker} {
			if tcp, ok := end.(interface{ CloseRead() error }); ok {
				tcp.CloseRead() // a deadline does not last: its half may be about to set one of its own
			}
			if why := reason(err); end == c.ends.client && (why == "io" || why == "drained") && !c.spoke.Load() {
				resetOnClose(end)
			} else {
				closeWrite(end)
			}
			end.SetDeadline(past)
		}
	})
}

// lose tells the observers of the requests whose answers will not come.
func (c *conn) lose() {
	for _, x := range c.pending.unanswered() {
		if x.outcome != nil {
			x.outcome.Reply.State, x.outcome.Reply.Received = policy.Lost, time.Now()
			c.srv.observe(x.outcome)
		}
	}
}

// closeWrite passes a FIN on. Where a connection has no such thing, closing it is all that can be said.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		err := half.CloseWrite()
		if err != nil && everyday(err) {
			return nil // the other side has gone already
		}
		return err
	}
	return c.Close()
}

// report says once, in one line, why a connection ended in another way than clients and brokers end them all day.
func (c *conn) report(err error) {
	why := reason(err)
	c.srv.metrics.closed(why)
	var foreign *notKafka
	peer := c.info.Client
	if errors.As(err, &foreign) {
		c.srv.metrics.nonKafka.WithLabelValues(foreign.kind).Inc()
		if foreign.from == brokerSide {
			peer = c.info.Upstream
		}
	}
	log := c.srv.log.With().Str("connection", c.info.ID).Str("listener", c.on.name).Str("client", c.info.Client).Str("upstream", c.info.Upstream).Logger()
	switch {
	case err == nil || everyday(err) && why == "io":
		log.Debug().AnErr("why", err).Msg("connection ended")
	case c.srv.quiet(peer, why):
	default:
		log.Warn().Err(err).Str("reason", why).Msg("connection closed")
	}
}
