package proxy

import (
	"encoding/hex"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
)

// foreignBytes are what other protocols start with, the words that people are told, and the kind that is counted.
var foreignBytes = []struct{ bytes, words, kind string }{
	{"\x16\x03\x01\x01\x28\x01\x00\x01", "TLS ClientHello on a plaintext listener", "tls"},
	{"\x16\x03\x03\x01\x7a\x01\x00\x01", "TLS ClientHello on a plaintext listener", "tls"},
	{"\x15\x03\x03\x00\x02\x02\x46", "TLS alert", "tls"},
	{"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n", "HTTP request", "http"},
	{"POST /topics HTTP/1.1\r\n\r\n", "HTTP request", "http"},
	{"PUT / HTTP/1.1\r\n\r\n", "HTTP request", "http"},
	{"HEAD / HTTP/1.0\r\n\r\n", "HTTP request", "http"},
	{"OPTIONS * HTTP/1.1\r\n\r\n", "HTTP request", "http"},
	{"DELETE / HTTP/1.1\r\n\r\n", "HTTP request", "http"},
	{"PATCH / HTTP/1.1\r\n\r\n", "HTTP request", "http"},
	{"CONNECT kafka:9092 HTTP/1.1\r\n\r\n", "HTTP request", "http"},
	{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2", "http"},
	{"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP response", "http"},
	{"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", "PROXY protocol header but it is not enabled on this listener", "proxy"},
	{"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c", "PROXY protocol header but it is not enabled on this listener", "proxy"},
	{"SSH-2.0-OpenSSH_9.6\r\n", "SSH", "ssh"},
}

// TestNotKafka sends what is not the Kafka protocol, from a client or from a broker: the connection ends, nothing is passed on, the log
// says once what it was, and every one is counted.
func TestNotKafka(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		for _, f := range foreignBytes {
			for _, from := range []side{clientSide, brokerSide} {
				heardOf, passed := new(heard), make(chan int, 2)
				addr := script(t, func(c *net.TCPConn) {
					if from == brokerSide {
						readFrame(c)
						c.Write([]byte(f.bytes))
					}
					p, _ := io.ReadAll(c)
					passed <- len(p)
				})
				s := start(t, Config{Upstream: []string{addr}, Log: zerolog.New(heardOf).Level(zerolog.WarnLevel)}, src)
				for range 2 {
					c := dial(t, s)
					if from == clientSide {
						c.Write([]byte(f.bytes))
					} else {
						c.Write(opaque(1, 0))
					}
					if p, err := closedBy(c); err != nil || len(p) > 0 {
						t.Errorf("%q from the %s: %v, the client got %q", f.bytes, from, err, p)
					}
					if n := <-passed; n > 0 {
						t.Errorf("%q from the %s: the broker got %d bytes", f.bytes, from, n)
					}
				}
				eventually(t, "both counted", func() bool { return testutil.ToFloat64(s.metrics.nonKafka.WithLabelValues(f.kind)) == 2 })
				eventually(t, "a line in the log", func() bool { return heardOf.String() != "" })
				eventually(t, "both connections gone", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.conns) == 0 })
				if text := heardOf.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, f.words) || !strings.Contains(text, "from the "+string(from)) {
					t.Errorf("%q from the %s: logged %s", f.bytes, from, text)
				}
			}
		}
	})
}

// The log has a line for each peer: for two clients' hosts two, for one broker behind both of them one.
func TestNotKafkaPeers(t *testing.T) {
	for from, want := range map[side]int{clientSide: 2, brokerSide: 1} {
		log := new(heard)
		s := start(t, Config{Upstream: []string{script(t, func(c *net.TCPConn) {
			readFrame(c)
			c.Write([]byte("HTTP/1.1 400 Bad Request\r\n"))
		})}, Log: zerolog.New(log).Level(zerolog.WarnLevel)}, nil)
		first := opaque(1, 0)
		if from == clientSide {
			first = []byte("GET / HTTP/1.1\r\n")
		}
		for _, host := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.2"} {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
			c, err := d.Dial("tcp", s.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(time.Minute))
			c.Write(first)
			closedBy(c)
		}
		eventually(t, "all counted", func() bool { return testutil.ToFloat64(s.metrics.nonKafka.WithLabelValues("http")) == 3 })
		eventually(t, "all gone", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.conns) == 0 })
		if n := strings.Count(log.String(), "\n"); n != want {
			t.Errorf("from the %s: %d lines, want %d: %s", from, n, want, log)
		}
	}
}

// What a Kafka client or broker sends first is never taken for another protocol, nor is what comes later.
func TestKafkaIsKafka(t *testing.T) {
	for _, g := range goldenFrames(t) {
		if err := sniff(g.frame, clientSide); err != nil {
			t.Errorf("%s: %v", g.Name, err)
		}
	}
	first, _ := hex.DecodeString("00000013271100000000000200056170702d31deadbeef")
	get := frameOf(append(opaque(3, 0)[4:], "GET / HTTP/1.1"...))
	s := start(t, Config{Upstream: []string{script(t, answering(echo))}}, nil)
	if n := told(dial(t, s), first, get, opaque(5, 4)); n != 3 {
		t.Errorf("%d of 3 answered", n)
	}
}

// A probe that connects and leaves, or starts to say something, is no reason for a warning.
func TestProbes(t *testing.T) {
	log := new(heard)
	s := start(t, Config{Upstream: []string{script(t, func(c *net.TCPConn) { io.Copy(io.Discard, c) })}, Log: zerolog.New(log).Level(zerolog.WarnLevel)}, nil)
	for _, text := range []string{"", "G", "\x16\x03"} {
		c := dial(t, s)
		c.Write([]byte(text))
		c.CloseWrite()
		if _, err := closedBy(c); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "all gone", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.conns) == 0 })
	if log.String() != "" {
		t.Error(log)
	}
}
