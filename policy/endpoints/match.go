package endpoints

import (
	"net/netip"
	"slices"

	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/internal/pattern"
)

// match is whom a rule is for. What it does not name it does not mind; of several values one has to fit.
type match struct {
	principal, listener, clientID []pattern.Pattern
	client                        []netip.Prefix
}

func (m *match) everyone() bool {
	return m.principal == nil && m.listener == nil && m.clientID == nil && m.client == nil
}

func (m *match) covers(c *policy.Client) bool {
	if !fitsAny(m.principal, c.Principal.Name) || !fitsAny(m.clientID, c.ClientID) {
		return false
	}
	if m.listener == nil && m.client == nil {
		return true
	}
	return c.Conn != nil && fitsAny(m.listener, c.Conn.Listener) && within(m.client, c.Conn.Client)
}

func fitsAny(patterns []pattern.Pattern, s string) bool {
	return patterns == nil || slices.ContainsFunc(patterns, func(p pattern.Pattern) bool { return p.Match(s) })
}

// within says whether the host of an address, host:port, is in one of the networks.
func within(networks []netip.Prefix, address string) bool {
	if networks == nil {
		return true
	}
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return false
	}
	for _, n := range networks {
		if n.Contains(a.Addr().Unmap().WithZone("")) {
			return true
		}
	}
	return false
}
