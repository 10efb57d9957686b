package demo

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A client that talks to brokers without a proxy is told of all of them, and that is noticed in the bytes of the answers.
func TestLookoutReadsAnswers(t *testing.T) {
	k, err := kfake.NewCluster(kfake.NumBrokers(3))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	l, err := newLookout(k.ListenAddrs(), func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.ListenAddrs()[0]), kgo.Dialer(l.dialer("a")))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := cl.Request(t.Context(), kmsg.NewPtrMetadataRequest()); err != nil {
		t.Fatal(err)
	}
	if n := l.escapes(); n != 3 {
		t.Errorf("%d escapes, 3 brokers", n)
	}
}

func TestLookoutCountsDials(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	own := ""
	l, err := newLookout([]string{"127.0.0.1:1"}, func(addr string) bool { return addr == own })
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{1, 1, 1} { // the last time it is the proxy's
		c, err := l.dialer("a")(t.Context(), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if l.escapes() != want {
			t.Errorf("%d escapes", l.escapes())
		}
		own = ln.Addr().String()
	}
}

// address is host and port as Kafka writes them.
func address(host string, port uint32) []byte {
	return binary.BigEndian.AppendUint32(append([]byte{byte(len(host) + 1)}, host...), port)
}

func TestLookoutFindsSplitAddresses(t *testing.T) {
	l, err := newLookout([]string{"127.0.0.1:9092", "127.0.0.1:9093"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	stream := bytes.Repeat([]byte("127.0.0.1"), 50)
	stream = append(stream, address("127.0.0.1", 19092)...) // the proxy's
	stream = append(stream, address("127.0.0.1", 9093)...)
	stream = append(stream, address("localhost", 9092)...)
	for size := 1; size <= len(stream); size++ {
		found := map[string]bool{}
		w := &watched{Conn: &chunks{rest: stream, size: size}, lookout: l, found: func(addr string) { found[addr] = true }}
		for buf := make([]byte, 1000); ; {
			if _, err := w.Read(buf); err != nil {
				break
			}
		}
		if len(found) != 2 || !found["127.0.0.1:9093"] || !found["localhost:9092"] {
			t.Fatalf("in pieces of %d bytes: %v", size, found)
		}
	}
}

// chunks is a connection that gives its bytes piece by piece.
type chunks struct {
	net.Conn
	rest []byte
	size int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, net.ErrClosed
	}
	n := copy(p, c.rest[:min(c.size, len(c.rest))])
	c.rest = c.rest[n:]
	return n, nil
}
