package demo

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"strconv"
	"sync"
)

// lookout watches all connections of all clients for addresses of brokers. A client may only dial the proxy; and nothing that a client
// receives may hold a broker's address as Kafka writes it: the host's text, followed by the port in four bytes. That covers every answer of every
// API, decoded or not, whether the client would use the address or not.
type lookout struct {
	hosts   [][]byte
	brokers map[string]bool // host:port
	own     func(addr string) bool

	mu   sync.Mutex
	seen map[escape]bool
}

// escape is an address of a broker that a client has.
type escape struct{ client, addr string }

// newLookout watches for brokers, given as host:port. own says whether an address is one of the proxy's listeners.
func newLookout(brokers []string, own func(addr string) bool) (*lookout, error) {
	l := &lookout{brokers: map[string]bool{}, own: own, seen: map[escape]bool{}}
	hosts := map[string]bool{}
	for _, b := range brokers {
		host, port, err := net.SplitHostPort(b)
		if err != nil {
			return nil, err
		}
		for _, name := range []string{host, "localhost"} {
			hosts[name] = true
			l.brokers[net.JoinHostPort(name, port)] = true
		}
	}
	for name := range hosts {
		l.hosts = append(l.hosts, []byte(name))
	}
	return l, nil
}

// escapes is how many addresses reached clients, each counted once for a client.
func (l *lookout) escapes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.seen))
}

func (l *lookout) report(client, addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[escape{client, addr}] = true
}

// dialer is for a client's kgo.Dialer. An address that is not the proxy's is reported, and dialled all the same.
func (l *lookout) dialer(client string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !l.own(addr) {
			l.report(client, addr)
		}
		var d net.Dialer
		c, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &watched{Conn: c, found: func(addr string) { l.report(client, addr) }, lookout: l}, nil
	}
}

// watched is a connection whose incoming bytes are searched.
type watched struct {
	net.Conn
	lookout *lookout
	found   func(addr string)
	window  []byte // the end of what came before, and what has come now; used by the one reader
}

// longest is the longest text that is searched for, and a port.
const longest = 64

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if n > 0 {
		w.window = append(w.window, p[:n]...)
		w.lookout.search(w.window, w.found)
		w.window = append(w.window[:0], w.window[max(0, len(w.window)-longest):]...)
	}
	return n, err
}

// search finds brokers' addresses in b.
func (l *lookout) search(b []byte, found func(addr string)) {
	for _, host := range l.hosts {
		for rest := b; ; {
			i := bytes.Index(rest, host)
			if i < 0 {
				break
			}
			if rest = rest[i+len(host):]; len(rest) < 4 {
				break
			}
			addr := net.JoinHostPort(string(host), strconv.FormatUint(uint64(binary.BigEndian.Uint32(rest)), 10))
			if l.brokers[addr] {
				found(addr)
			}
		}
	}
}
