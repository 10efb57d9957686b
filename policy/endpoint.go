package policy

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// EndpointPolicy says where clients are told to find the brokers. It is asked once a connection knows who its client is, and again when that
// or the brokers change, before a request is forwarded whose answer has addresses; what it takes is latency then.
//
// It can lead clients astray, but not past the proxy: a table that names an address of a broker is refused. An error, a panic, or no answer by
// the deadline leaves everything to the mapping without it, and so does what a table does not name.
type EndpointPolicy interface {
	// Name stands in logs and metrics.
	Name() string
	// Traits say whether Endpoints may block, and for how long. They do not change.
	Traits() Traits
	// Endpoints returns the table for a client. It must neither change nor keep what it is given, and return when the context ends. It is
	// called by many connections at once.
	Endpoints(ctx context.Context, c *Client, nodes []Node) (Table, error)
}

// Client is who asks where brokers are.
type Client struct {
	Conn      *Conn
	Principal Principal
	ClientID  string // of the first request that was answered with addresses; empty when null
	Software  string // what it calls itself in ApiVersions; empty when unknown
}

// Node is one broker as it is known: where clients are told to find it without a policy, and where the proxy does.
type Node struct {
	ID       int32
	Host     string
	Port     int32
	Upstream string // host:port; never to be told to clients
}

// Table says where clients find brokers: addresses that lead to the proxy's own listeners. The zero Table leaves everything as it is.
type Table struct {
	Nodes map[int32]Endpoint
	// Host is that of all nodes that Nodes does not have, those included that are not known yet; "{id}" in it stands for the node's id. Empty: as
	// without the policy.
	Host string
	// PortBase plus its id is the port of each of those nodes. 0: as without the policy. A node for which it makes no port is left as it is.
	PortBase int32
}

// Endpoint is an address that clients are told.
type Endpoint struct {
	Host string
	Port int32
}

// String is host:port.
func (e Endpoint) String() string { return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))) }

// Of returns the address of a node, and whether the table has one. without is what clients are told without the table.
func (t *Table) Of(id int32, without Endpoint) (Endpoint, bool) {
	if e, ok := t.Nodes[id]; ok {
		return e, true
	}
	e, own := without, false
	if t.Host != "" {
		e.Host, own = strings.ReplaceAll(t.Host, "{id}", strconv.Itoa(int(id))), true
	}
	if t.PortBase != 0 {
		port := int64(t.PortBase) + int64(id)
		if port < 1 || port > 65535 {
			return without, false
		}
		e.Port, own = int32(port), true
	}
	return e, own
}

// Check says what is wrong with a table, whoever it is for.
func (t *Table) Check() error {
	if t.Host != "" && !isHost(strings.ReplaceAll(t.Host, "{id}", "1")) {
		return fmt.Errorf("%.100q is not a host", t.Host)
	}
	if t.PortBase < 0 || t.PortBase > 65535 {
		return fmt.Errorf("the ports begin at %d", t.PortBase)
	}
	for id, e := range t.Nodes {
		if !isHost(e.Host) || e.Port < 1 || e.Port > 65535 {
			return fmt.Errorf("node %d is at %.100q, port %d", id, e.Host, e.Port)
		}
	}
	return nil
}

// isHost says whether clients could take s for a host's name or address that is somewhere.
func isHost(s string) bool {
	if s == "" || len(s) > 255 {
		return false
	}
	if ip := net.ParseIP(s); ip != nil {
		return !ip.IsUnspecified()
	}
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.') {
			return false
		}
	}
	return true
}

// EndpointMember is an endpoint policy as it is asked. Of several the first whose table has a node says where it is.
type EndpointMember struct {
	Policy  EndpointPolicy
	Timeout time.Duration // of one that waits; 0 stands for its budget, else DefaultBudget
}

// Ask asks the policy, and gives up at its deadline where it waits. A panic is an error, and so is a table that Check refuses.
func (m *EndpointMember) Ask(ctx context.Context, c *Client, nodes []Node) (t Table, err error) {
	defer func() {
		if p := recover(); p != nil {
			t, err = Table{}, fmt.Errorf("panic: %v (%s)", p, panicked())
		}
	}()
	if traits := m.Policy.Traits(); traits.Waits {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cmp.Or(m.Timeout, traits.Budget, DefaultBudget))
		defer cancel()
	}
	if t, err = m.Policy.Endpoints(ctx, c, nodes); err == nil {
		err = t.Check()
	}
	if err != nil {
		return Table{}, err
	}
	return t, nil
}
