package proxy

import (
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// socket is one end of a connection on a loop: a descriptor that Go's poller does not know. The connection owns it. Reading and writing
// are the half's, on the loop; all else may be called from anywhere.
type socket struct {
	late atomic.Bool // the read deadline has passed

	mu     sync.Mutex // over what follows: no call may meet a descriptor that is someone else's by now
	fd     int
	closed bool
	timer  *time.Timer // of the read deadline; nil until there is one
	until  time.Time   // zero: none
}

// use calls f with the descriptor, unless it is closed.
func (s *socket) use(f func(fd int) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	return f(s.fd)
}

// Close gives the descriptor back.
func (s *socket) Close() error {
	return s.use(func(fd int) error {
		s.closed = true
		if s.timer != nil {
			s.timer.Stop()
		}
		return os.NewSyscallError("close", syscall.Close(fd))
	})
}

// CloseRead ends reading, and wakes the loop.
func (s *socket) CloseRead() error { return s.shutdown(syscall.SHUT_RD) }

// CloseWrite sends a FIN.
func (s *socket) CloseWrite() error { return s.shutdown(syscall.SHUT_WR) }

func (s *socket) shutdown(how int) error {
	return s.use(func(fd int) error { return os.NewSyscallError("shutdown", syscall.Shutdown(fd, how)) })
}

// SetLinger is (*net.TCPConn).SetLinger.
func (s *socket) SetLinger(sec int) error {
	return s.use(func(fd int) error {
		return os.NewSyscallError("setsockopt", syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1, Linger: int32(sec)}))
	})
}

// SetReadDeadline sets until when something has to come; the zero time takes it back. After it reading ends, and late is set.
func (s *socket) SetReadDeadline(t time.Time) error {
	return s.use(func(int) error {
		s.until = t
		switch {
		case t.IsZero():
		case s.timer == nil:
			s.timer = time.AfterFunc(time.Until(t), s.expire)
		default:
			s.timer.Reset(time.Until(t))
		}
		return nil
	})
}

func (s *socket) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.until.IsZero() || time.Now().Before(s.until) {
		return
	}
	s.late.Store(true)
	syscall.Shutdown(s.fd, syscall.SHUT_RD)
}

// SetDeadline is for one in the past, which ends reading: nothing else waits on a loop.
func (s *socket) SetDeadline(t time.Time) error {
	if t.IsZero() || time.Now().Before(t) {
		return errors.ErrUnsupported
	}
	return s.CloseRead()
}

// SetWriteDeadline completes net.Conn, as those below do: the half on the loop has no use for them.
func (s *socket) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }

// Read is of no use: see SetWriteDeadline.
func (s *socket) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

// Write is of no use: see SetWriteDeadline.
func (s *socket) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }

// LocalAddr is of no use: see SetWriteDeadline.
func (s *socket) LocalAddr() net.Addr { return nil }

// RemoteAddr is of no use: see SetWriteDeadline.
func (s *socket) RemoteAddr() net.Addr { return nil }

// conn is a *net.TCPConn with a duplicate of the descriptor.
func (s *socket) conn() (c net.Conn, err error) {
	err = s.use(func(fd int) error {
		d, err := dup(fd)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(d), "socket")
		defer f.Close()
		c, err = net.FileConn(f)
		return err
	})
	return c, err
}

// onLoop readies h for reading on a loop.
func (h *half) onLoop(c *conn, src, dst *socket) {
	h.src, h.dst = src, dst
	h.in.epoll = true
	h.leave = func() error { return c.detach(h) }
	h.send = func(p []byte) error {
		n, err := trySend(dst.fd, p)
		if err != nil || n == len(p) {
			return err
		}
		if err := h.leave(); err != nil {
			return err
		}
		_, err = h.dst.Write(p[n:])
		return err
	}
}

// offLoop readies h for a goroutine of its own.
func (h *half) offLoop(src, dst net.Conn) error {
	h.src, h.dst, h.leave, h.in, h.deadline = src, dst, nil, inq{}, false
	var err error
	h.send, err = sender(dst)
	return err
}

// detach takes the connection off its loop, because h has to wait. The goroutine that calls it serves h alone from then on.
func (c *conn) detach(h *half) error {
	l := c.loop
	client, err := c.ends.client.(*socket).conn()
	if err != nil {
		return err
	}
	broker, err := c.ends.broker.(*socket).conn()
	if err != nil {
		client.Close()
		return err
	}
	l.drop(c)
	old := c.ends
	c.loop = nil
	c.swap(client, broker)
	old.client.Close()
	old.broker.Close()
	l.turn = slices.DeleteFunc(l.turn, func(r ready) bool { return r.c == c }) // of its other half
	l.work.Add(1)
	go l.run()
	err = errors.Join(c.up.offLoop(client, broker), c.down.offLoop(broker, client))
	other := c.up
	if h == c.up {
		other = c.down
	}
	if !other.over {
		go c.direction(other)
	}
	return err
}

// swap puts duplicates in the place of both ends.
func (c *conn) swap(client, broker net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends.client, c.ends.broker = client, broker
	select {
	case <-c.failed: // shutting down has reached the duplicates as well; a deadline has not
		client.SetDeadline(time.Unix(1, 0))
		broker.SetDeadline(time.Unix(1, 0))
	default:
	}
}

// leaveLoop ends what take began, for a connection that ends on its loop.
func (c *conn) leaveLoop() {
	if c.loop != nil {
		c.loop.drop(c)
	}
}
