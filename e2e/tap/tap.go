package tap

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Tap passes frames between the connections that it accepts and a broker.
type Tap struct {
	listener net.Listener
	target   string
	asked    func(*Exchange) // may be nil
	saw      func(*Exchange)
	wait     sync.WaitGroup

	mu    sync.Mutex
	wrong []error
}

// Listen passes what comes to an address on to a broker's, and tells saw of each share exchange before its answer goes on. saw is called by
// many connections at once. Whoever made the Tap calls Close.
//
// asked, which may be nil, is told of each share request before it goes on, also of those whose answers never come.
func Listen(listen, target string, asked, saw func(*Exchange)) (*Tap, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	t := &Tap{listener: l, target: target, asked: asked, saw: saw}
	t.wait.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.wait.Go(func() { t.serve(c.(*net.TCPConn)) })
		}
	})
	return t, nil
}

// Addr is where it listens.
func (t *Tap) Addr() net.Addr { return t.listener.Addr() }

// Close stops accepting, and waits until all connections have ended, which their ends decide. The error is about frames that could not
// be read.
func (t *Tap) Close() error {
	err := t.listener.Close()
	t.wait.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(append(t.wrong, err)...)
}

func (t *Tap) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.wrong) < 10 {
		t.wrong = append(t.wrong, err)
	}
}

// outstanding is how many requests of a connection may wait for their answers, more than any client sends.
const outstanding = 4096

func (t *Tap) serve(client *net.TCPConn) {
	defer client.Close()
	s, err := net.Dial("tcp", t.target)
	if err != nil {
		return
	}
	server := s.(*net.TCPConn)
	defer server.Close()
	requests := make(chan *Exchange, outstanding) // all of them; nil where it is no share request
	var both sync.WaitGroup
	both.Go(func() {
		defer close(requests)
		pass(server, client, func(frame []byte) {
			x, share, err := ReadRequest(frame)
			if err != nil {
				t.fail(err)
			}
			if !share || err != nil {
				x = nil
			} else if t.asked != nil {
				t.asked(x)
			}
			requests <- x
		})
	})
	both.Go(func() {
		pass(client, server, func(frame []byte) { t.answer(<-requests, frame) })
	})
	both.Wait()
}

func (t *Tap) answer(x *Exchange, frame []byte) {
	if x == nil {
		return
	}
	if err := x.ReadAnswer(frame); err != nil {
		t.fail(err)
		return
	}
	t.saw(x)
}

// pass passes frames on until from ends, and passes the end on; an error ends both directions.
func pass(to, from *net.TCPConn, see func([]byte)) {
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		frame, err := ReadFrame(r)
		if err == nil {
			see(frame)
			_, err = to.Write(frame)
		}
		if err != nil {
			if err != io.EOF {
				from.CloseRead()
				to.CloseRead()
			}
			to.CloseWrite()
			return
		}
	}
}

// longest is a bound for frames: no test sends more.
const longest = 64 << 20

// ReadFrame reads one frame, size prefix included. Its end on a frame's boundary is io.EOF.
func ReadFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > longest {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	frame := make([]byte, 4+n)
	copy(frame, head[:])
	if _, err := io.ReadFull(r, frame[4:]); err != nil {
		return nil, fmt.Errorf("inside a frame: %w", err)
	}
	return frame, nil
}
