package proxy

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// What cannot be a request closes the connection, without a byte to the broker, and is counted by its reason.
func TestBadFrames(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		size := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
		for _, c := range []struct {
			name   string
			bytes  []byte
			reason string
		}{
			{"size 0", size(0), "frame"}, {"size 9", append(size(9), make([]byte, 9)...), "frame"}, {"negative", size(1<<32 - 1), "frame"},
			{"smallest int", size(1 << 31), "frame"}, {"above the limit", size(1<<20 + 1), "frame_limit"}, {"2 GiB", size(1<<31 - 1), "frame_limit"},
			{"slow header", []byte{0, 0, 0}, "slow"}, {"slow body", shareAck(1, 1, 1)[:40], "slow"},
			{"a version to come", bare(79, 3), "version"}, {"negative version", bare(78, -1), "version"},
		} {
			t.Run(c.name, func(t *testing.T) {
				var atBroker atomic.Int64
				addr := script(t, func(b *net.TCPConn) { n, _ := io.Copy(io.Discard, b); atBroker.Add(n) })
				s := start(t, Config{Upstream: []string{addr}, MaxFrame: 1 << 20, HeaderTimeout: 50 * time.Millisecond}, src)
				client := dial(t, s)
				client.Write(c.bytes)
				if p, err := closedBy(client); err != nil || len(p) > 0 {
					t.Fatalf("%v %x", err, p)
				}
				eventually(t, "counted", func() bool { return testutil.ToFloat64(s.metrics.ended.WithLabelValues(c.reason)) == 1 })
				if n := atBroker.Load(); n != 0 {
					t.Errorf("%d bytes reached the broker", n)
				}
			})
		}
	})
}

// Frames of the largest size allowed pass, and one byte at a time is as good as any.
func TestAnyPace(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		s := start(t, Config{Upstream: []string{script(t, answering(mixedAnswer))}, MaxFrame: 1 << 20}, src)
		c := dial(t, s)
		for _, f := range [][]byte{opaque(1, 30), shareAck(2, 1, 5), produce(3, 9, 1, 100), produce(4, 3, 0, 10)} {
			for i := range f {
				if _, err := c.Write(f[i : i+1]); err != nil {
					t.Fatal(err)
				}
			}
		}
		largest := opaque(4, 1<<20-10)
		if len(largest) != 1<<20+4 {
			t.Fatal(len(largest))
		}
		c.Write(largest)
		for _, id := range []int32{1, 2, 3, 4} {
			if f, err := readFrame(c); err != nil || idOf(f, true) != id {
				t.Fatal(id, err)
			}
		}
	})
}

// Frames held whole are bounded for the whole process; the connection that asks for more is closed, and nobody else.
func TestBufferedLimit(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		s := start(t, Config{Upstream: []string{script(t, answering(mixedAnswer))}, MaxBuffered: 256 << 10}, src)
		greedy, modest := dial(t, s), dial(t, s)
		go greedy.Write(shareAck(1, 1, 20_000))
		if _, err := closedBy(greedy); err != nil {
			t.Fatal(err)
		}
		modest.Write(shareAck(2, 1, 7_000))
		if f, err := readFrame(modest); err != nil || idOf(f, true) != 2 {
			t.Fatal(err, f)
		}
		eventually(t, "one end counted", func() bool { return testutil.ToFloat64(s.metrics.ended.WithLabelValues("buffer_limit")) == 1 })
		eventually(t, "held bytes given back", func() bool { return s.limits.buffered.Load() == 0 })
	})
}

// A client is slow that leaves one frame unfinished for too long, not one whose every segment ends inside of a frame.
func TestSlowIsAboutOneFrame(t *testing.T) {
	const timeout, step = 500 * time.Millisecond, 50 * time.Millisecond
	onBoth(t, func(t *testing.T, src source) {
		begin := func(t *testing.T) (*Server, *net.TCPConn) {
			s := start(t, Config{Upstream: []string{script(t, answering(mixedAnswer))}, HeaderTimeout: timeout}, src)
			c := dial(t, s)
			c.SetNoDelay(true)
			return s, c
		}
		t.Run("frame after frame", func(t *testing.T) {
			t.Parallel()
			_, c := begin(t)
			const n = 3 * int32(timeout/step)
			go func() {
				f := shareAck(0, 1, 10)
				half := len(f) / 2
				c.Write(f[:half])
				for i := range n { // the rest of one, and half of the next
					next := shareAck(i+1, 1, 10)
					if _, err := c.Write(append(append([]byte(nil), f[half:]...), next[:half]...)); err != nil {
						return
					}
					f = next
					time.Sleep(step)
				}
			}()
			for i := range n {
				if f, err := readFrame(c); err != nil || idOf(f, true) != i {
					t.Fatalf("after %d answers: %v", i, err)
				}
			}
		})
		t.Run("byte after byte", func(t *testing.T) {
			t.Parallel()
			s, c := begin(t)
			go func() {
				for _, b := range shareAck(0, 1, 10) { // in 13 s
					if _, err := c.Write([]byte{b}); err != nil {
						return
					}
					time.Sleep(step)
				}
			}()
			before := time.Now()
			if p, err := closedBy(c); err != nil || len(p) > 0 {
				t.Fatalf("%v %x", err, p)
			}
			if took := time.Since(before); took < timeout/2 || took > 10*timeout {
				t.Errorf("closed after %v", took)
			}
			eventually(t, "counted", func() bool { return testutil.ToFloat64(s.metrics.ended.WithLabelValues("slow")) == 1 })
		})
		t.Run("a large frame that grows", func(t *testing.T) {
			t.Parallel()
			s, c := begin(t)
			f := shareAck(7, 1, 20_000)
			parts := 3 * int(timeout/step)
			go func() {
				for i := range parts {
					c.Write(f[i*len(f)/parts : (i+1)*len(f)/parts])
					time.Sleep(step)
				}
				rest := f[:100] // half a frame behind it is late by itself
				c.Write(rest)
			}()
			if f, err := readFrame(c); err != nil || idOf(f, true) != 7 {
				t.Fatal(err)
			}
			if _, err := closedBy(c); err != nil {
				t.Fatal(err)
			}
			eventually(t, "counted", func() bool { return testutil.ToFloat64(s.metrics.ended.WithLabelValues("slow")) == 1 })
		})
	})
}

// endless is a connection from which frames come faster than they can be read, after a part of one.
type endless struct {
	net.Conn
	frame []byte
	until time.Time
	at    int
	began bool
	late  atomic.Bool
	timer *time.Timer
}

func (e *endless) Read(p []byte) (int, error) {
	if e.late.Load() {
		return 0, os.ErrDeadlineExceeded
	}
	if !e.began {
		e.began, e.at = true, 100
		return copy(p, e.frame[:e.at]), nil
	}
	if time.Now().After(e.until) {
		return 0, io.EOF
	}
	n := 0
	for n < len(p) {
		k := copy(p[n:], e.frame[e.at:])
		n, e.at = n+k, (e.at+k)%len(e.frame)
	}
	return n, nil
}

func (e *endless) SetReadDeadline(t time.Time) error {
	if e.timer != nil {
		e.timer.Stop()
	}
	e.late.Store(false)
	if !t.IsZero() {
		e.timer = time.AfterFunc(time.Until(t), func() { e.late.Store(true) })
	}
	return nil
}

// A direction whose reads are always full never parks, and is not slow.
func TestSaturatedIsNotSlow(t *testing.T) {
	const timeout = 50 * time.Millisecond
	src := &endless{frame: opaque(1, 1000), until: time.Now().Add(4 * timeout)}
	h := &half{src: src, side: clientSide, d: passes{}, limits: &limits{maxFrame: 1 << 20, headerTimeout: timeout}}
	h.send = func([]byte) error { return nil }
	if err := h.runConn(); err != nil {
		t.Fatal(err)
	}
}

// passes lets every frame pass once it is whole.
type passes struct{}

func (passes) check([]byte, int32) error         { return nil }
func (passes) begin([]byte, int) (action, error) { return holdWhole, nil }
func (passes) whole([]byte) ([]byte, error)      { return nil, nil }
func (passes) stream(*half, int) error           { return nil }
func (passes) written(int)                       {}
func (passes) headerSize() int                   { return 12 }
