package capture

import (
	"net"
	"slices"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// maxHeld is how many bytes of one direction wait for a missing segment before it is given up.
const maxHeld = 16 << 20

// flow is one direction of a connection.
type flow struct{ from, to string }

func (f flow) reverse() flow { return flow{f.to, f.from} }

// conn is what the assembler knows of a connection. Both its flows lead to it.
type conn struct {
	Conn
	known bool // who the client is
	sides map[string]*side
	order []string // in which the sides appeared
}

// side is one sender of a connection.
type side struct {
	started bool
	next    uint32 // the sequence number wanted
	held    []segment
	size    int // bytes held
	last    time.Time
}

type segment struct {
	seq  uint32
	data []byte
	at   time.Time
}

type assembler struct {
	conns   map[flow]*conn
	all     []*conn
	request func([]byte) bool
	emit    func(Chunk) error
}

func (a *assembler) packet(network gopacket.Flow, tcp *layers.TCP, at time.Time) error {
	port := func(p layers.TCPPort) string { return layers.NewTCPPortEndpoint(p).String() }
	f := flow{net.JoinHostPort(network.Src().String(), port(tcp.SrcPort)), net.JoinHostPort(network.Dst().String(), port(tcp.DstPort))}
	c := a.conns[f]
	if c != nil && tcp.SYN && !tcp.ACK && c.reused(f.from, tcp.Seq) {
		if err := a.end(c); err != nil {
			return err
		}
		c = nil
	}
	if c == nil {
		c = &conn{sides: map[string]*side{}}
		a.conns[f], a.conns[f.reverse()] = c, c
		a.all = append(a.all, c)
	}
	if tcp.SYN && !c.known {
		c.known = true
		c.Client, c.Server = f.from, f.to
		if tcp.ACK {
			c.Client, c.Server = f.to, f.from
		}
	}
	return a.segment(c, f, tcp, at)
}

// reused says whether a SYN begins another connection between the same ports.
func (c *conn) reused(from string, seq uint32) bool {
	s := c.sides[from]
	return s != nil && s.started && seq+1 != s.next
}

func (a *assembler) segment(c *conn, f flow, tcp *layers.TCP, at time.Time) error {
	s := c.sides[f.from]
	if s == nil {
		s = &side{}
		c.sides[f.from] = s
		c.order = append(c.order, f.from)
	}
	seq := tcp.Seq
	if tcp.SYN {
		seq++
		if !s.started {
			s.started, s.next = true, seq
		}
	}
	if len(tcp.Payload) == 0 {
		return nil
	}
	if !s.started {
		s.started, s.next = true, seq
	}
	if !c.known {
		c.known = true
		c.Client, c.Server = f.from, f.to
		if !a.request(tcp.Payload) {
			c.Client, c.Server = f.to, f.from
		}
	}
	s.hold(segment{seq: seq, data: slices.Clone(tcp.Payload), at: at})
	if err := a.deliver(c, f.from); err != nil {
		return err
	}
	for s.size > maxHeld {
		if err := a.skip(c, f.from); err != nil {
			return err
		}
	}
	return nil
}

// hold keeps a segment in its place by sequence number. One that brings nothing new is dropped.
func (s *side) hold(g segment) {
	if int32(g.seq+uint32(len(g.data))-s.next) <= 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(s.held, g, func(a, b segment) int { return int(int32(a.seq - b.seq)) })
	s.held = slices.Insert(s.held, i, g)
	s.size += len(g.data)
}

// deliver emits what is in order.
func (a *assembler) deliver(c *conn, from string) error {
	s := c.sides[from]
	for len(s.held) > 0 {
		g := s.held[0]
		ahead := int32(g.seq - s.next)
		if ahead > 0 {
			return nil
		}
		s.take()
		if known := int(-ahead); known < len(g.data) {
			s.next += uint32(len(g.data) - known)
			if err := a.emit(Chunk{Conn: &c.Conn, FromClient: from == c.Client, Time: g.at, Data: g.data[known:]}); err != nil {
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
func (a *assembler) skip(c *conn, from string) error {
	s := c.sides[from]
	g := s.held[0]
	s.take()
	missing := int(g.seq - s.next)
	s.next = g.seq + uint32(len(g.data))
	if err := a.emit(Chunk{Conn: &c.Conn, FromClient: from == c.Client, Time: g.at, Missing: missing, Data: g.data}); err != nil {
		return err
	}
	return a.deliver(c, from)
}

// end emits what is left of a connection.
func (a *assembler) end(c *conn) error {
	for _, from := range c.order {
		s := c.sides[from]
		for len(s.held) > 0 {
			if err := a.skip(c, from); err != nil {
				return err
			}
		}
		if !c.known {
			continue // no byte was seen
		}
		if err := a.emit(Chunk{Conn: &c.Conn, FromClient: from == c.Client, Time: s.last, End: true}); err != nil {
			return err
		}
	}
	c.order = nil
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
