// Package wire records what passes on TCP connections and compares what entered a Kafka proxy with what left it.
package wire

import (
	"bytes"
	"io"
	"net"
	"sync"
)

// Conn is what passed on one relayed connection.
type Conn struct {
	Relay string // address that it was made to

	mu       sync.Mutex
	toServer bytes.Buffer
	toClient bytes.Buffer
}

// ToServer is what the client sent.
func (c *Conn) ToServer() []byte { return c.bytes(&c.toServer) }

// ToClient is what the server sent.
func (c *Conn) ToClient() []byte { return c.bytes(&c.toClient) }

func (c *Conn) bytes(b *bytes.Buffer) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(b.Bytes())
}

// Relay copies between the connections that it accepts and a server, and keeps what passes.
type Relay struct {
	listener net.Listener
	target   string
	wait     sync.WaitGroup

	mu    sync.Mutex
	conns []*Conn
}

// NewRelay relays from an address to a server's. Whoever made it calls Close.
func NewRelay(listen, target string) (*Relay, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	r := &Relay{listener: l, target: target}
	r.wait.Go(r.accept)
	return r, nil
}

// Conns are the connections so far, in the order in which they were made.
func (r *Relay) Conns() []*Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conns[:len(r.conns):len(r.conns)]
}

// Close stops accepting and waits until all connections have ended, which their ends decide.
func (r *Relay) Close() error {
	err := r.listener.Close()
	r.wait.Wait()
	return err
}

func (r *Relay) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.wait.Go(func() { r.serve(c.(*net.TCPConn)) })
	}
}

func (r *Relay) serve(client *net.TCPConn) {
	defer client.Close()
	s, err := net.Dial("tcp", r.target)
	if err != nil {
		return
	}
	server := s.(*net.TCPConn)
	defer server.Close()
	c := &Conn{Relay: r.listener.Addr().String()}
	r.mu.Lock()
	r.conns = append(r.conns, c)
	r.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { c.copy(server, client, &c.toServer) })
	both.Go(func() { c.copy(client, server, &c.toClient) })
	both.Wait()
}

// copy passes bytes on until from ends, records them before they leave, and passes the end on; an error ends both directions.
func (c *Conn) copy(to, from *net.TCPConn, record *bytes.Buffer) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		c.mu.Lock()
		record.Write(buf[:n])
		c.mu.Unlock()
		if _, failed := to.Write(buf[:n]); failed != nil {
			err = failed
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
