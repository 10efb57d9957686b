package proxy

import "testing"

// TestSystemCalls: one request and its answer take two system calls a direction, a read and a write. What Go's poller does comes on top, as
// in any program; the benchmark counts that.
func TestSystemCalls(t *testing.T) {
	for _, name := range []string{"tcp", "loop"} {
		t.Run(name, func(t *testing.T) {
			s := start(t, Config{Upstream: []string{script(t, answering(func(f []byte) []byte { return shareAckReply(idOf(f, false), 0) }))}}, sources[name])
			c := dial(t, s)
			const n = 200
			var on *conn
			for id := range int32(n) {
				if _, err := c.Write(shareAck(id, 1, 3)); err != nil {
					t.Fatal(err)
				}
				if _, err := readFrame(c); err != nil {
					t.Fatal(err)
				}
				s.mu.Lock()
				for on = range s.conns {
				}
				s.mu.Unlock()
			}
			c.CloseWrite()
			closedBy(c)
			eventually(t, "ended", func() bool { return on.left.Load() == 0 })
			const ends = 8 // the first read finds nothing, the last a FIN
			if calls := on.up.calls + on.down.calls; calls > 4*n+ends || calls < 4*n {
				t.Errorf("%d system calls for %d requests", calls, n)
			}
		})
	}
}
