package endpoints

import (
	"net/netip"
	"strings"

	"github.com/ackproxy/ackproxy/policy"
)

// match is whom a rule is for. What it does not name it does not mind; of several values one has to fit.
type match struct {
	principal, listener, clientID []string // * stands for any run of characters
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

func fitsAny(patterns []string, s string) bool {
	for _, p := range patterns {
		if fits(p, s) {
			return true
		}
	}
	return patterns == nil
}

// fits says whether a pattern stands for all of s. It takes no longer than the product of their lengths.
func fits(pattern, s string) bool {
	pieces := strings.Split(pattern, "*")
	if len(pieces) == 1 {
		return pattern == s
	}
	s, ok := strings.CutPrefix(s, pieces[0])
	if !ok {
		return false
	}
	last := len(pieces) - 1
	for _, piece := range pieces[1:last] {
		if _, s, ok = strings.Cut(s, piece); !ok {
			return false
		}
	}
	return strings.HasSuffix(s, pieces[last])
}

// meet says whether there may be a text that both patterns stand for: they begin with the same letters, as far as both have any.
func meet(a, b string) bool {
	x, _, openA := strings.Cut(a, "*")
	y, _, openB := strings.Cut(b, "*")
	switch {
	case !openA:
		return fits(b, a)
	case !openB:
		return fits(a, b)
	}
	return strings.HasPrefix(x, y) || strings.HasPrefix(y, x)
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
