package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/ackproxy/ackproxy/policy"
)

// onBoth runs a test on both sources of a connection.
func onBoth(t *testing.T, test func(t *testing.T, src source)) {
	for name, src := range sources {
		t.Run(name, func(t *testing.T) { test(t, src) })
	}
}

// A client that sends its request and its FIN at once gets its answer, and then the broker's FIN.
func TestHalfClose(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		s := start(t, Config{Upstream: []string{script(t, answering(echo))}}, src)
		for i := range int32(300) {
			c := dial(t, s)
			c.Write(opaque(i, 20))
			c.CloseWrite()
			f, err := readFrame(c)
			if err != nil || idOf(f, true) != i {
				t.Fatalf("connection %d: %v %x", i, err, f)
			}
			if _, err := readFrame(c); err != io.EOF {
				t.Fatalf("connection %d: %v, want EOF", i, err)
			}
			c.Close()
		}
	})
}

// The bytes of a frame that a FIN cut short reach the broker: it decides what they are worth.
func TestFINInsideFrame(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		for _, f := range [][]byte{opaque(1, 20)[:7], opaque(1, 20)[:25], shareAck(1, 1, 10)[:50], shareAck(1, 1, 9000)[:120_000]} {
			got := make(chan []byte, 1)
			s := start(t, Config{Upstream: []string{script(t, func(c *net.TCPConn) { p, _ := io.ReadAll(c); got <- p })}}, src)
			c := dial(t, s)
			c.Write(f)
			c.CloseWrite()
			if p := <-got; !bytes.Equal(p, f) {
				t.Errorf("the broker got %d bytes of the %d sent", len(p), len(f))
			}
			eventually(t, "held bytes given back", func() bool { return s.limits.buffered.Load() == 0 })
		}
	})
}

// A broker that goes takes its client along, answers that it sent before included.
func TestBrokerCloses(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		seen := new(recorder)
		addr := script(t, func(c *net.TCPConn) {
			r := bufio.NewReader(c)
			f, _ := readFrame(r)
			c.Write(echo(f))
			readFrame(r) // the acknowledgement is never answered
		})
		s := start(t, Config{Upstream: []string{addr}, Observers: []policy.Observer{seen}}, src)
		c := dial(t, s)
		c.Write(append(opaque(1, 0), shareAck(2, 1, 3)...))
		p, err := closedBy(c)
		if err != nil || len(p) != 18 {
			t.Fatalf("%v, %d bytes", err, len(p))
		}
		eventually(t, "the lost acknowledgement observed", func() bool { return len(seen.seen()) == 1 })
		if o := seen.seen()[0]; o.Reply.State != policy.Lost || string(o.Request.GroupID) != "g" {
			t.Errorf("%+v", o)
		}
	})
}

// A broker that resets a connection before it has answered looks to the client as it would without us.
func TestBrokerResets(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		addr := script(t, func(c *net.TCPConn) { readFrame(c); c.SetLinger(0) })
		c := dial(t, start(t, Config{Upstream: []string{addr}}, src))
		c.Write(opaque(1, 0))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err, ": want a reset")
		}
	})
}

// A client that resets its connection during a long poll is passed on at once: the broker frees its records when it sees that.
func TestClientResets(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		polling, gone := make(chan bool), make(chan error, 1)
		addr := script(t, func(c *net.TCPConn) {
			readFrame(c)
			polling <- true
			_, err := c.Read(make([]byte, 1))
			gone <- err
		})
		c := dial(t, start(t, Config{Upstream: []string{addr}}, src))
		c.Write(opaque(1, 0))
		<-polling
		c.SetLinger(0)
		c.Close()
		if err := <-gone; err == nil {
			t.Error("the broker read a byte that nobody sent")
		}
	})
}

// A broker that answers late is no reason to drop anybody: a full queue holds the client back.
func TestBackpressure(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		const requests, limit = 400, 16
		var received atomic.Int32
		open := make(chan bool)
		addr := script(t, func(c *net.TCPConn) {
			frames := make(chan []byte, requests)
			go func() {
				defer close(frames)
				for r := bufio.NewReader(c); ; received.Add(1) {
					f, err := readFrame(r)
					if err != nil {
						return
					}
					frames <- f
				}
			}()
			<-open
			for f := range frames {
				c.Write(echo(f))
			}
		})
		s := start(t, Config{Upstream: []string{addr}, MaxInFlight: limit}, src)
		c := dial(t, s)
		go func() {
			for i := range int32(requests) {
				c.Write(opaque(i, 50))
			}
		}()
		eventually(t, "as many requests as the limit at the broker", func() bool { return received.Load() == limit })
		close(open)
		for i := range int32(requests) {
			if f, err := readFrame(c); err != nil || idOf(f, true) != i {
				t.Fatal(i, err, f)
			}
		}
	})
}

// An answer that is not the oldest request's ends the connection: passing it on would be worse.
func TestOutOfStep(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		for name, answer := range map[string]func(f []byte) []byte{
			"wrong id": func(f []byte) []byte { return opaqueReply(idOf(f, false)+1, 4) },
			"twice":    func(f []byte) []byte { return append(echo(f), echo(f)...) },
			"short":    func(f []byte) []byte { return frameOf([]byte{1, 2, 3}) },
		} {
			s := start(t, Config{Upstream: []string{script(t, answering(answer))}}, src)
			c := dial(t, s)
			c.Write(opaque(1, 0))
			p, err := closedBy(c)
			if err != nil {
				t.Fatal(name, err)
			}
			if name == "twice" && len(p) != 18 || name != "twice" && len(p) != 0 {
				t.Errorf("%s: %x", name, p)
			}
		}
	})
}

// A server that is shut down before it serves, as a signal may come at any time, does not, and that is no error.
func TestServeAfterShutdown(t *testing.T) {
	s, err := New(Config{Upstream: []string{"127.0.0.1:1"}, Bootstrap: "127.0.0.1:0", Advertise: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Serve(t.Context()); err != nil {
		t.Error(err)
	}
}

// Shutdown lets what is in flight finish, and ends what does not end by itself.
func TestShutdown(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		polling, answer := make(chan bool), make(chan bool)
		addr := script(t, answering(func(f []byte) []byte { polling <- true; <-answer; return echo(f) }))
		s := start(t, Config{Upstream: []string{addr}, DrainTimeout: time.Minute}, src)
		c, idle := dial(t, s), dial(t, s)
		c.Write(opaque(1, 0))
		<-polling
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- s.Shutdown(ctx) }()
		eventually(t, "no new connections", func() bool {
			late, err := net.Dial("tcp", c.RemoteAddr().String())
			if err == nil {
				late.Close()
			}
			return err != nil
		})
		answer <- true
		if f, err := readFrame(c); err != nil || idOf(f, true) != 1 {
			t.Fatal(err, f)
		}
		c.Close()
		select {
		case err := <-stopped:
			t.Fatal("stopped although a connection is open: ", err)
		default:
		}
		cancel()
		if err := <-stopped; !errors.Is(err, errDrained) {
			t.Error(err)
		}
		if _, err := closedBy(idle); err != nil {
			t.Error(err)
		}
	})
}

// While no broker can be reached, clients are closed and not left hanging, and the server is not ready.
func TestUpstreamDown(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	s, err := New(Config{Bootstrap: "127.0.0.1:0", Upstream: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, s)
	c, err := net.Dial("tcp", s.Addr())
	if err == nil { // else the reset was faster
		_, err = c.Read(make([]byte, 1))
		c.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err, ": want a reset")
	}
	if s.Ready() == nil {
		t.Error("ready")
	}
	if ln, err = net.Listen("tcp", addr); err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	eventually(t, "ready", func() bool { return s.Ready() == nil })
}

// One broker that can be reached is enough, also where it is none to begin with: clients that are led to it are served.
func TestReadyByNode(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	alive, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Bootstrap: "127.0.0.1:0", Upstream: []string{dead.Addr().String()},
		Nodes: map[int32]string{1: dead.Addr().String(), 2: alive.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, s)
	eventually(t, "ready", func() bool { return s.Ready() == nil })
	alive.Close()
	if s.reachesNode() {
		t.Error("a node is reached that is not there")
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}

// TestNothingLeft opens and closes ten thousand connections in all the ways they end, many at a time: no bytes cross from one to
// another, and no goroutine or descriptor is left.
func TestNothingLeft(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		s := start(t, Config{Upstream: []string{script(t, answering(func(f []byte) []byte { return frameOf(f[8:]) }))}}, src)
		warm := dial(t, s)
		warm.Write(opaque(1, 0))
		readFrame(warm)
		warm.Close()
		eventually(t, "quiet", func() bool { return testutil.ToFloat64(s.metrics.connections.WithLabelValues("client")) == 0 })
		goroutines, fds := runtime.NumGoroutine(), descriptors(t)
		var work sync.WaitGroup
		for w := range 20 {
			work.Go(func() {
				for i := range 500 {
					if err := oneConnection(s.Addr(), int32(w*1000+i)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		work.Wait()
		eventually(t, "all connections ended", func() bool { return testutil.ToFloat64(s.metrics.connections.WithLabelValues("client")) == 0 })
		eventually(t, fmt.Sprint("goroutines back to ", goroutines), func() bool { return runtime.NumGoroutine() <= goroutines })
		eventually(t, fmt.Sprint("descriptors back to ", fds), func() bool { return descriptors(t) <= fds })
	})
}

// oneConnection sends a request of its own, expects it back, and leaves in one of several ways.
func oneConnection(addr string, id int32) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	tcp, f := c.(*net.TCPConn), opaque(id, 100)
	copy(f[50:], fmt.Sprintf("connection %08d", id))
	if id%7 == 0 {
		tcp.SetLinger(0) // a reset, perhaps before the answer
		_, err = c.Write(f)
		return err
	}
	if _, err := c.Write(f); err != nil {
		return err
	}
	if id%3 == 0 {
		tcp.CloseWrite()
	}
	got, err := readFrame(c)
	if err != nil {
		return err
	}
	if !bytes.Equal(got[4:], f[8:]) {
		return fmt.Errorf("connection %d got another's bytes: %q", id, got)
	}
	return nil
}

// A client that resets its connection while its next request waits for room ends the connection, though the broker answers nothing.
func TestClientResetsWhileItsRequestWaitsForRoom(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		got := make(chan struct{}, 1)
		s := start(t, Config{MaxInFlight: 1, Upstream: []string{script(t, answering(func([]byte) []byte { got <- struct{}{}; return nil }))}}, src)
		c := dial(t, s)
		if !s.seesResets(c) {
			return
		}
		c.Write(append(opaque(1, 10), opaque(2, 10)...))
		<-got
		time.Sleep(100 * time.Millisecond)
		c.SetLinger(0)
		c.Close()
		eventually(t, "the connection's end", func() bool { return s.open() == 0 })
	})
}

// When an upstream was reached does not depend on what the host's clock is set to since.
func TestReachedByTheMonotonicClock(t *testing.T) {
	s := start(t, Config{Upstream: []string{script(t, answering(echo))}}, nil)
	s.reached.Store(nil)
	told(dial(t, s), opaque(1, 10))
	at := s.reached.Load()
	if at == nil || !strings.Contains(at.String(), " m=") {
		t.Error(at)
	}
	if err := s.Ready(); err != nil {
		t.Error(err)
	}
}
