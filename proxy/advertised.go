package proxy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/ackproxy/ackproxy/policy"
)

var errLeak = errors.New("the table has an address of a broker")

// advertised is where the client of one connection is told to find brokers, beyond what holds for everyone. The request loop makes it,
// before it forwards a request whose answer has addresses; the response loop only reads it. It does not change.
type advertised struct {
	tables     []policy.Table // of the policies that answered, in order
	principal  policy.Principal
	generation uint64    // of the nodes that were shown
	again      time.Time // when to ask again, since a policy failed; zero: none did
}

// current says whether there is no need to ask again.
func (a *advertised) current(p *policy.Principal, generation uint64) bool {
	return a != nil && a.generation == generation && a.principal == *p && (a.again.IsZero() || time.Now().Before(a.again))
}

// of is where the client finds a node. without is what holds for everyone.
func (a *advertised) of(id int32, without policy.Endpoint) policy.Endpoint {
	if a != nil {
		for i := range a.tables {
			if e, ok := a.tables[i].Of(id, without); ok {
				return e
			}
		}
	}
	return without
}

// askEndpoints brings the connection's table up to date, before x is forwarded. What policies wait for is waited for here.
func (r *requests) askEndpoints(x *exchange) error {
	s := r.c.srv
	if x.need&needEndpoints == 0 || len(s.cfg.Endpoints) == 0 {
		return nil
	}
	principal, generation := r.c.principal.Load(), s.nodes.generation.Load()
	if r.c.advertised.Load().current(principal, generation) {
		return nil
	}
	ctx := context.Background()
	if s.endpointsWait {
		if err := r.h.readyToWait(); err != nil {
			return err
		}
		watched, stop := r.c.watch()
		defer stop()
		ctx = watched
	}
	client := policy.Client{Conn: r.c.info, Principal: *principal, Software: r.software}
	if r.clientID != nil {
		client.ClientID = *r.clientID
	}
	a := &advertised{principal: *principal, generation: generation}
	a.tables, a.again = s.askEndpoints(ctx, &client)
	r.c.advertised.Store(a)
	return nil
}

// learnClientID notes the client id of a request, an old nullable string in every version, of whose frame bytes p has come; false when p ends
// before it.
func (r *requests) learnClientID(p []byte, frame int) bool {
	if r.clientID != nil {
		return true
	}
	if len(p) < min(14, frame) {
		return false
	}
	id := ""
	if frame >= 14 {
		end := 14 + max(0, int(int16(binary.BigEndian.Uint16(p[12:]))))
		if len(p) < min(end, frame) {
			return false
		}
		if end <= frame {
			id = string(p[14:end])
		}
	}
	r.clientID = &id
	return true
}

// askEndpoints asks every policy. again is zero unless one failed.
func (s *Server) askEndpoints(ctx context.Context, c *policy.Client) (tables []policy.Table, again time.Time) {
	nodes := s.known()
	for i := range s.cfg.Endpoints {
		m := &s.cfg.Endpoints[i]
		t, err := m.Ask(ctx, c, nodes)
		if ctx.Err() != nil { // the client is gone
			return nil, time.Time{}
		}
		result := "failed"
		if err == nil {
			err, result = s.leaks(&t, nodes), "refused"
		}
		if err == nil {
			s.metrics.tables.WithLabelValues(m.Policy.Name(), "used").Inc()
			tables = append(tables, t)
			continue
		}
		again = time.Now().Add(s.askAgain)
		s.metrics.tables.WithLabelValues(m.Policy.Name(), result).Inc()
		if !s.quiet("endpoints "+m.Policy.Name(), result) {
			s.log.Error().Err(err).Str("policy", m.Policy.Name()).Str("connection", c.Conn.ID).
				Msg("no table of endpoints: clients are told what they would be told without this policy")
		}
	}
	return tables, again
}

// known lists the brokers that are known, each with where clients find it without a policy.
func (s *Server) known() []policy.Node {
	var nodes []policy.Node
	for _, id := range s.nodes.ids() {
		n := policy.Node{ID: id, Host: s.cfg.Advertise}
		n.Upstream, _ = s.nodes.addr(id)
		if l := s.node(id); l != nil {
			n.Port = l.port
		} else if port, ok := s.portOf(id); ok {
			n.Port = int32(port)
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// leaks is an error where a table would lead a client past the proxy.
func (s *Server) leaks(t *policy.Table, nodes []policy.Node) error {
	for id, e := range t.Nodes {
		if s.nodes.upstream(e) {
			return fmt.Errorf("%w: %v, for node %d", errLeak, e, id)
		}
	}
	for _, n := range nodes {
		if e, ok := t.Of(n.ID, policy.Endpoint{Host: n.Host, Port: n.Port}); ok && s.nodes.upstream(e) {
			return fmt.Errorf("%w: %v, for node %d", errLeak, e, n.ID)
		}
	}
	return nil
}

// upstream says whether an address is a broker's: configured, made by the pattern, or learnt.
func (n *nodes) upstream(e policy.Endpoint) bool {
	addr := plainAddr(e.String())
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, a := range n.bootstrap {
		if plainAddr(a) == addr {
			return true
		}
	}
	for _, known := range []map[int32]string{n.static, n.learnt} {
		for _, a := range known {
			if plainAddr(a) == addr {
				return true
			}
		}
	}
	return n.pattern != "" && made(plainAddr(n.pattern), addr)
}

// made says whether a pattern makes an address, of whatever id.
func made(pattern, addr string) bool {
	before, _, _ := strings.Cut(pattern, "{id}")
	rest, ok := strings.CutPrefix(addr, before)
	if !ok {
		return false
	}
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	for i := 1; i <= len(digits); i++ { // what follows {id} may begin with a digit
		if strings.ReplaceAll(pattern, "{id}", digits[:i]) == addr {
			return true
		}
	}
	return false
}

// plainAddr is host:port as it is compared: names have no case, and may end with a dot.
func plainAddr(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return strings.ToLower(addr)
	}
	if ip := net.ParseIP(host); ip != nil {
		host = ip.String()
	}
	if n, err := strconv.Atoi(port); err == nil {
		port = strconv.Itoa(n)
	}
	return net.JoinHostPort(strings.ToLower(strings.TrimSuffix(host, ".")), port)
}
