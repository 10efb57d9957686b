package proxy

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

// Reading ends when a connection fails, also where a half takes back a deadline just then.
func TestFailureOutlivesDeadlines(t *testing.T) {
	s := stub(t, Config{})
	for _, on := range []bool{false, true} {
		client, far := pair(t)
		broker, _ := pair(t)
		c := newConn(s, s.node(bootstrapNode), client, broker, s.brokerAt("upstream:9092"))
		c.fail(syscall.ECONNRESET)
		if err := c.up.setDeadline(on); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			client.Read(make([]byte, 1))
		}()
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			t.Error("the client is still read from")
			far.Close()
			<-ended
		}
	}
}

// pair are both ends of a TCP connection.
func pair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if a, err = net.Dial("tcp", ln.Addr().String()); err == nil {
		b, err = ln.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// Clients that have not got a byte yet when the server stops are reset, as by a broker that is not there: some give up for good after a FIN.
func TestStopsBeforeTheFirstAnswer(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		t.Run("while the broker is dialled", func(t *testing.T) {
			addr, connected := script(t, answering(echo)), make(chan struct{})
			s := start(t, Config{Upstream: []string{addr}}, func(s *Server) {
				src(s)
				wrap := s.wrap
				s.wrap = func(c net.Conn) net.Conn { // which is when the broker has been dialled
					<-connected
					s.mu.Lock()
					s.stopped = true
					s.mu.Unlock()
					return wrap(c)
				}
			})
			c := dial(t, s)
			close(connected)
			wantReset(t, c)
		})
		t.Run("while the broker thinks", func(t *testing.T) {
			asked := make(chan struct{})
			addr := script(t, answering(func([]byte) []byte { close(asked); return nil }))
			s := start(t, Config{Upstream: []string{addr}, DrainTimeout: time.Nanosecond}, src)
			c := dial(t, s)
			c.Write(opaque(1, 10))
			<-asked
			if err := s.Shutdown(t.Context()); !errors.Is(err, errDrained) {
				t.Error(err)
			}
			wantReset(t, c)
		})
	})
}

func wantReset(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%d bytes, %v: want a reset", n, err)
	}
}
