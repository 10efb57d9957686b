// Package endpoints is the stock endpoint policy: it tells clients where to find the brokers by rules, for what one advertised host does not
// cover. Clients of another network, listener or principal may be told another name, and each broker a name of its own, as in zones.
//
// All names and ports lead to the proxy's own listeners: what forwards them there (a load balancer, DNS) is the operator's.
package endpoints

import (
	"context"

	"github.com/ackproxy/ackproxy/policy"
)

// Policy maps endpoints. It does not change, and many connections may use it at once.
type Policy struct {
	name  string
	rules []rule
}

// rule is one table and whom it is for.
type rule struct {
	match match
	table policy.Table
}

var _ policy.EndpointPolicy = (*Policy)(nil)

// Name is that of the configuration.
func (p *Policy) Name() string { return p.name }

// Traits say that a table is made at once.
func (p *Policy) Traits() policy.Traits { return policy.Traits{} }

// Endpoints returns the table of the first rule that is for the client; one that leaves everything as it is where none is.
func (p *Policy) Endpoints(_ context.Context, c *policy.Client, _ []policy.Node) (policy.Table, error) {
	for i := range p.rules {
		if p.rules[i].match.covers(c) {
			return p.rules[i].table, nil
		}
	}
	return policy.Table{}, nil
}
