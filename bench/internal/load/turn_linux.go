package load

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/ackproxy/ackproxy/bench/internal/epoll"
)

// turnUntil serves the connections until a moment, and until so many requests are measured.
func (l *loop) turnUntil(end time.Time, least uint64) error {
	l.progress, l.lastAt = time.Now(), time.Now()
	for {
		left := time.Until(end)
		if left <= 0 && l.hist.N() >= least {
			return nil
		}
		wait := min(max(int(left.Milliseconds()), 0)+1, 100)
		if l.spec.Rate > 0 {
			wait = 1
		}
		if err := l.once(wait); err != nil {
			return err
		}
	}
}

// once waits at most ms and serves what happened.
func (l *loop) once(ms int) error {
	events, err := l.poll.Wait(ms)
	if err != nil {
		return err
	}
	if len(events) == 0 && l.spec.Rate == 0 && time.Since(l.progress) > stall {
		return errStalled
	}
	for i := range events {
		c := l.conns[events[i].Fd]
		if err := l.serve(c, events[i].Events); err != nil {
			return err
		}
	}
	if l.spec.Rate > 0 && !l.stopping {
		return l.pace()
	}
	return nil
}

func (l *loop) serve(c *conn, events uint32) error {
	if events&epoll.Writable != 0 {
		c.full = false
	}
	if events&(epoll.Readable|epoll.Gone) != 0 {
		l.current, l.now, l.answered = c, time.Now(), 0
		if err := c.in.Drain(c.fd, l.buf, events&epoll.Gone != 0, l.whole); err != nil {
			return err
		}
		if l.answered > 0 {
			l.progress = l.now
		}
		if l.spec.Rate == 0 && !l.stopping {
			c.owed += l.answered
		}
	}
	return l.send(c)
}

// frame takes one whole answer.
func (l *loop) frame(h *epoll.Head) error {
	c := l.current
	if h.Size() != l.answer {
		return fmt.Errorf("an answer of %d bytes, not %d", h.Size(), l.answer)
	}
	if id := int32(binary.BigEndian.Uint32(h[4:])); id != c.expect {
		return fmt.Errorf("an answer to request %d, not %d", id, c.expect)
	}
	if l.measuring {
		l.hist.Add(l.now.Sub(c.sent[int(c.expect)%len(c.sent)]))
	}
	c.expect++
	l.answered++
	return nil
}

// send sends what the connection owes, as far as there is room.
func (l *loop) send(c *conn) error {
	if c.owed == 0 || c.full {
		return nil
	}
	now := time.Now()
	ids := c.ids[:c.owed]
	for i := range ids {
		ids[i] = c.next + int32(i)
		if i > 0 || c.off == 0 {
			c.sent[int(ids[i])%len(c.sent)] = now
		}
	}
	n, off, err := l.train.Send(c.fd, ids, c.off)
	c.next, c.owed, c.off = c.next+int32(n), c.owed-n, off
	if errors.Is(err, epoll.Again) {
		c.full, err = true, nil
	}
	return err
}

// pace hands out the requests that Rate allows since the last time, to connections in turn. What no connection has room for is lost:
// the rate is an upper bound.
func (l *loop) pace() error {
	now := time.Now()
	l.tokens = min(l.tokens+now.Sub(l.lastAt).Seconds()*l.spec.Rate, float64(len(l.conns)*l.spec.Depth))
	l.lastAt = now
	for tried := 0; l.tokens >= 1 && tried < len(l.conns); tried++ {
		c := l.conns[l.turn]
		l.turn = (l.turn + 1) % len(l.conns)
		room := l.spec.Depth - int(c.next-c.expect) - c.owed
		if n := min(room, int(l.tokens)); n > 0 {
			c.owed += n
			l.tokens -= float64(n)
			if err := l.send(c); err != nil {
				return err
			}
		}
	}
	return nil
}
