package wire

import (
	"fmt"

	"github.com/ackproxy/ackproxy/plugins/pluginpb/ackproxy/policy/v1"
	"github.com/ackproxy/ackproxy/policy"
)

// FromClient translates who asks where brokers are, and which are known.
func FromClient(c *policy.Client, nodes []policy.Node) *policyv1.EndpointsRequest {
	m := &policyv1.EndpointsRequest{Connection: fromConn(c.Conn), Principal: fromPrincipal(c.Principal), Software: text(c.Software)}
	if c.ClientID != "" {
		m.ClientId = nullable([]byte(c.ClientID))
	}
	for _, n := range nodes {
		m.Nodes = append(m.Nodes, &policyv1.Node{Id: n.ID, Host: text(n.Host), Port: n.Port, Upstream: text(n.Upstream)})
	}
	return m
}

// ToClient translates back.
func ToClient(m *policyv1.EndpointsRequest) (*policy.Client, []policy.Node) {
	c := &policy.Client{
		Conn: toConn(m.GetConnection()), Principal: toPrincipal(m.GetPrincipal()), ClientID: m.GetClientId(), Software: m.GetSoftware(),
	}
	var nodes []policy.Node
	for _, n := range m.GetNodes() {
		nodes = append(nodes, policy.Node{ID: n.GetId(), Host: n.GetHost(), Port: n.GetPort(), Upstream: n.GetUpstream()})
	}
	return c, nodes
}

// FromTable translates a table.
func FromTable(t *policy.Table) *policyv1.EndpointsResponse {
	m := &policyv1.EndpointsResponse{Host: text(t.Host), PortBase: t.PortBase}
	for id, e := range t.Nodes {
		m.Nodes = append(m.Nodes, &policyv1.NodeEndpoint{Id: id, Host: text(e.Host), Port: e.Port})
	}
	return m
}

// ToTable translates back. A node that is there twice is an error: one of them was meant.
func ToTable(m *policyv1.EndpointsResponse) (policy.Table, error) {
	t := policy.Table{Host: m.GetHost(), PortBase: m.GetPortBase()}
	for _, e := range m.GetNodes() {
		if t.Nodes == nil {
			t.Nodes = make(map[int32]policy.Endpoint, len(m.GetNodes()))
		}
		if _, twice := t.Nodes[e.GetId()]; twice {
			return policy.Table{}, fmt.Errorf("node %d is in the table twice", e.GetId())
		}
		t.Nodes[e.GetId()] = policy.Endpoint{Host: e.GetHost(), Port: e.GetPort()}
	}
	return t, nil
}
