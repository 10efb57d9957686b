package capture

import (
	"net/netip"
	"slices"
	"time"
)

const (
	// maxHeld is how many bytes of one direction wait for a missing segment before it is given up.
	maxHeld = 16 << 20
	// lateBy is how long they wait where the other side has got it: it will not be sent again, but packets may be captured in another order.
	lateBy = time.Second
)

// flow is one direction of a connection.
type flow struct{ from, to netip.AddrPort }

func (f flow) reverse() flow { return flow{f.to, f.from} }

// conn is what the assembler knows of a connection. Both its flows lead to it.
type conn struct {
	Conn
	client netip.AddrPort // the zero value until it is known
	sides  []*side        // in the order in which they appeared
}

// side is one sender of a connection.
type side struct {
	from    netip.AddrPort
	started bool
	next    uint32 // the sequence number wanted
	held    []segment
	size    int // bytes held
	last    time.Time
}

type assembler struct {
	conns   map[flow]*conn
	all     []*conn
	request func([]byte) bool
	emit    func(Chunk) error
}

// add puts a segment into its connection and emits what is in order then. It keeps nothing of g.data.
func (a *assembler) add(g segment) error {
	f := flow{g.from, g.to}
	c := a.conns[f]
	if c != nil && g.syn && !g.ack && c.reused(g) {
		if err := a.end(c); err != nil {
			return err
		}
		c = nil
	}
	if c == nil {
		c = &conn{}
		a.conns[f], a.conns[f.reverse()] = c, c
		a.all = append(a.all, c)
	}
	if g.syn {
		c.opened(f, !g.ack)
		g.seq++ // a SYN has a sequence number
	}
	if err := a.missed(c, g); err != nil {
		return err
	}
	s := c.side(g.from)
	if !s.started && (g.syn || len(g.data) > 0) {
		s.started, s.next = true, g.seq
	}
	if len(g.data) == 0 {
		return nil
	}
	if !c.known() {
		c.opened(f, a.request(g.data))
	}
	s.hold(g)
	if err := a.deliver(c, s); err != nil {
		return err
	}
	for s.size > maxHeld {
		if err := a.skip(c, s); err != nil {
			return err
		}
	}
	return nil
}

// missed gives up segments that g's sender has got and the capture has not.
func (a *assembler) missed(c *conn, g segment) error {
	for _, s := range c.sides {
		for g.ack && s.from != g.from && len(s.held) > 0 && int32(g.acked-s.held[0].seq) > 0 && g.at.Sub(s.held[0].at) >= lateBy {
			if err := a.skip(c, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// reused says whether a SYN begins another connection between the same ports.
func (c *conn) reused(g segment) bool {
	s := c.side(g.from)
	return s.started && g.seq+1 != s.next
}

// side is the sender at from.
func (c *conn) side(from netip.AddrPort) *side {
	for _, s := range c.sides {
		if s.from == from {
			return s
		}
	}
	s := &side{from: from}
	c.sides = append(c.sides, s)
	return s
}

func (c *conn) known() bool { return c.client.IsValid() }

// opened says who the client is, unless that is known.
func (c *conn) opened(f flow, fromClient bool) {
	if c.known() {
		return
	}
	if !fromClient {
		f = f.reverse()
	}
	c.client = f.from
	c.Client, c.Server = f.from.String(), f.to.String()
}

// hold keeps a segment in its place by sequence number. One that brings nothing new is dropped.
func (s *side) hold(g segment) {
	if int32(g.seq+uint32(len(g.data))-s.next) <= 0 {
		return
	}
	g.data = slices.Clone(g.data)
	i, _ := slices.BinarySearchFunc(s.held, g, func(a, b segment) int { return int(int32(a.seq - b.seq)) })
	s.held = slices.Insert(s.held, i, g)
	s.size += len(g.data)
}

// deliver emits what is in order.
func (a *assembler) deliver(c *conn, s *side) error {
	for len(s.held) > 0 {
		g := s.held[0]
		ahead := int32(g.seq - s.next)
		if ahead > 0 {
			return nil
		}
		s.take()
		if known := int(-ahead); known < len(g.data) {
			s.next += uint32(len(g.data) - known)
			if err := a.emit(Chunk{Conn: &c.Conn, FromClient: s.from == c.client, Time: g.at, Data: g.data[known:]}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *side) take() {
	s.size -= len(s.held[0].data)
	s.last = s.held[0].at
	s.held = s.held[1:]
}

// skip gives up the missing bytes before the first held segment, and goes on with it.
func (a *assembler) skip(c *conn, s *side) error {
	g := s.held[0]
	s.take()
	missing := int(g.seq - s.next)
	s.next = g.seq + uint32(len(g.data))
	if err := a.emit(Chunk{Conn: &c.Conn, FromClient: s.from == c.client, Time: g.at, Missing: missing, Data: g.data}); err != nil {
		return err
	}
	return a.deliver(c, s)
}

// end emits what is left of a connection.
func (a *assembler) end(c *conn) error {
	for _, s := range c.sides {
		for len(s.held) > 0 {
			if err := a.skip(c, s); err != nil {
				return err
			}
		}
		if !c.known() {
			continue // no byte was seen
		}
		if err := a.emit(Chunk{Conn: &c.Conn, FromClient: s.from == c.client, Time: s.last, End: true}); err != nil {
			return err
		}
	}
	c.sides = nil
	return nil
}

func (a *assembler) finish() error {
	for _, c := range a.all {
		if err := a.end(c); err != nil {
			return err
		}
	}
	return nil
}
