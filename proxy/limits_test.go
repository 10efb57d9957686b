package proxy

import (
	"encoding/binary"
	"io"
	"net"
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
