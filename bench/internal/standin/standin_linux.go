// Package standin is the benchmark's broker: one thread that answers the requests of package frames with their answers, in order, and
// nothing else.
package standin

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ackproxy/ackproxy/bench/internal/epoll"
	"github.com/ackproxy/ackproxy/bench/internal/frames"
)

// kind of request: the upper half of what follows a frame's size.
type kind struct{ key, version int16 }

// conn is one connection. Answers that are owed wait in ids, all of one kind.
type conn struct {
	fd   int
	in   epoll.Inbox
	out  *epoll.Train // of ids
	ids  []int32
	off  int // bytes of the first answer that are sent
	full bool
}

type loop struct {
	poll    *epoll.Poll
	answers map[kind]*epoll.Train
	known   kind // the kind that lastOut answers: most requests are like the one before
	lastOut *epoll.Train
	conns   []*conn // by descriptor
	current *conn
	whole   func(*epoll.Head) error
	buf     []byte
}

// Run listens on ports of 127.0.0.1, calls ready and serves for ever. report is told of connections that ended with an error.
func Run(ports []uint16, ready func(), report func(error)) error {
	l := &loop{answers: map[kind]*epoll.Train{}, buf: make([]byte, 64<<10)}
	l.whole = l.frame
	for _, p := range frames.All() {
		l.answers[kind{p.Key, p.Version}] = epoll.NewTrain(p.Response, frames.ResponseID)
	}
	var err error
	if l.poll, err = epoll.New(); err != nil {
		return err
	}
	for _, port := range ports {
		fd, err := epoll.Listen(port)
		if err != nil {
			return err
		}
		if err := l.poll.AddListener(fd, int32(-fd)); err != nil {
			return err
		}
	}
	ready()
	for {
		events, err := l.poll.Wait(-1)
		if err != nil {
			return err
		}
		for i := range events {
			if fd := int(events[i].Fd); fd < 0 {
				l.accept(-fd, report)
			} else if err := l.serve(l.conns[fd], events[i].Events); err != nil {
				l.close(fd)
				if !errors.Is(err, epoll.ErrEnd) {
					report(err)
				}
			}
		}
	}
}

func (l *loop) accept(listener int, report func(error)) {
	for {
		fd, err := epoll.Accept(listener)
		if errors.Is(err, epoll.Again) {
			return
		}
		if err == nil {
			err = l.poll.Add(fd, int32(fd))
		}
		if err != nil {
			report(fmt.Errorf("accept: %w", err))
			return
		}
		for len(l.conns) <= fd {
			l.conns = append(l.conns, nil)
		}
		if c := l.conns[fd]; c != nil { // what the one before had is taken over: nothing is collected here
			*c = conn{fd: fd, ids: c.ids[:0]}
			continue
		}
		l.conns[fd] = &conn{fd: fd}
	}
}

func (l *loop) close(fd int) { epoll.Close(fd) } // and with it its events; the conn is kept for the next of that number

func (l *loop) serve(c *conn, events uint32) error {
	if events&epoll.Writable != 0 {
		c.full = false
		if err := l.flush(c); err != nil {
			return err
		}
	}
	if events&(epoll.Readable|epoll.Gone) == 0 {
		return nil
	}
	l.current = c
	if err := c.in.Drain(c.fd, l.buf, events&epoll.Gone != 0, l.whole); err != nil {
		return err
	}
	return l.flush(c)
}

// frame notes one whole request.
func (l *loop) frame(h *epoll.Head) error {
	c := l.current
	k := kind{int16(binary.BigEndian.Uint16(h[4:])), int16(binary.BigEndian.Uint16(h[6:]))}
	if k != l.known || l.lastOut == nil {
		out, ok := l.answers[k]
		if !ok {
			return fmt.Errorf("a request of key %d, version %d, which the stand-in does not answer", k.key, k.version)
		}
		l.known, l.lastOut = k, out
	}
	if c.out != l.lastOut && len(c.ids) > 0 {
		if err := l.flush(c); err != nil {
			return err
		}
		if len(c.ids) > 0 {
			return errors.New("two kinds of requests at once on a connection that takes no answers")
		}
	}
	c.out = l.lastOut
	c.ids = append(c.ids, int32(binary.BigEndian.Uint32(h[frames.RequestID:])))
	return nil
}

// flush sends what is owed, as far as there is room.
func (l *loop) flush(c *conn) error {
	if len(c.ids) == 0 || c.full {
		return nil
	}
	n, off, err := c.out.Send(c.fd, c.ids, c.off)
	c.ids, c.off = c.ids[:copy(c.ids, c.ids[n:])], off
	if errors.Is(err, epoll.Again) {
		c.full, err = true, nil
	}
	return err
}
