package client

import (
	"net"
	"os"
	"testing"
)

// TestWatchSockets: a peer of this process is seen.
func TestWatchSockets(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.9:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w := WatchSockets(os.Getpid())
	peers, samples, err := w.Stop()
	if err != nil || samples == 0 {
		t.Fatalf("%d samples, %v", samples, err)
	}
	if p := l.Addr().(*net.TCPAddr).AddrPort(); !peers[os.Getpid()][p] {
		t.Errorf("%v not among %v", p, peers)
	}
}

// TestParseAddr: the kernel's text on a little-endian machine, the only kind that the tests run on.
func TestParseAddr(t *testing.T) {
	for text, want := range map[string]string{
		"0200007F:4A38":                         "127.0.0.2:19000",
		"0000000000000000FFFF00000200007F:4A38": "127.0.0.2:19000", // Java's sockets are IPv6 where that is on
		"00000000000000000000000001000000:0050": "[::1]:80",
	} {
		if got, err := parseAddr(text); err != nil || got.String() != want {
			t.Errorf("%s: %v, %v; want %s", text, got, err, want)
		}
	}
}
