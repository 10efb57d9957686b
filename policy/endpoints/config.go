package endpoints

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/internal/pattern"
	"github.com/ackproxy/ackproxy/policy/internal/settings"
)

// ruleConfig is a rule as it is written.
type ruleConfig struct {
	Match struct {
		Principal []pattern.Pattern `json:"principal"`
		Listener  []pattern.Pattern `json:"listener"`
		Client    []string          `json:"client"`
		ClientID  []pattern.Pattern `json:"client_id"`
	} `json:"match"`
	Advertise string `json:"advertise"`
	Ports     *struct {
		Base int `json:"base"`
	} `json:"ports"`
	Nodes map[int32]string `json:"nodes"`
}

// New makes a policy of its configuration:
//
//	{"rules": [
//	  {"match": {"principal": "User:edge-*", "listener": "bootstrap", "client": ["10.0.0.0/8"], "client_id": "edge-*"},
//	   "advertise": "{id}.zone-a.example.com", "ports": {"base": 29100}, "nodes": {"1": "special.example.com:9092"}}]}
//
// The first rule whose match covers the client is the one. advertise is the host of every broker, {id} in it its id; ports.base plus its id
// is its port; nodes has whole addresses, and wins. Whatever is left out stays as the proxy has it. Every mistake is a *policy.ConfigError.
func New(name string, config []byte) (*Policy, error) {
	var c struct {
		Rules []ruleConfig `json:"rules"`
	}
	m := settings.Read(config, &c)
	if len(c.Rules) == 0 && m.Err() == nil {
		m.Add("rules", "there is no rule", "write rules: [{match: {client: [10.0.0.0/8]}, advertise: kafka.example.com}]")
	}
	p := &Policy{name: name}
	all := -1 // the rule that is for everyone
	for i := range c.Rules {
		key := fmt.Sprintf("rules[%d]", i)
		if all >= 0 {
			m.Add(key, fmt.Sprintf("the rule is never used: rules[%d] is for everyone", all), "put it before that one")
		}
		r := rule{match: c.Rules[i].match(&m, key+".match"), table: c.Rules[i].table(&m, key)}
		if r.match.everyone() && !m.Has(key) {
			all = i
		}
		p.rules = append(p.rules, r)
	}
	if err := m.Err(); err != nil {
		return nil, err
	}
	return p, nil
}

func (r *ruleConfig) match(m *settings.Mistakes, key string) match {
	in := &r.Match
	for _, list := range []struct {
		name  string
		empty bool
	}{{"principal", isEmpty(in.Principal)}, {"listener", isEmpty(in.Listener)}, {"client", isEmpty(in.Client)}, {"client_id", isEmpty(in.ClientID)}} {
		if list.empty {
			m.Add(settings.Join(key, list.name), "nothing fits an empty list", "write a value, or remove the key")
		}
	}
	for i, p := range in.Principal {
		m.Principal(fmt.Sprintf("%s.principal[%d]", key, i), p)
	}
	for i, p := range in.Listener {
		m.Possible(fmt.Sprintf("%s.listener[%d]", key, i), p, "no listener: they are called bootstrap and broker-1, by the broker's id",
			"write bootstrap, broker-1 or broker-*", "bootstrap", "broker-*")
	}
	return match{principal: in.Principal, listener: in.Listener, clientID: in.ClientID, client: networks(m, settings.Join(key, "client"), in.Client)}
}

func isEmpty[T any](list []T) bool { return list != nil && len(list) == 0 }

func (r *ruleConfig) table(m *settings.Mistakes, key string) policy.Table {
	t := policy.Table{Host: r.Advertise}
	if err := t.Check(); err != nil {
		m.Add(key+".advertise", err.Error(), "write a name or an address, without a port; {id} stands for the broker's id")
	}
	if r.Ports != nil {
		t.PortBase = int32(r.Ports.Base)
		if (r.Ports.Base < 1 || r.Ports.Base > 65535) && !m.Has(key+".ports") {
			m.Add(key+".ports.base", fmt.Sprintf("the port %d is out of range", r.Ports.Base), "write 1 to 65535")
		}
	}
	t.Nodes = nodes(m, key+".nodes", r.Nodes)
	if r.Advertise == "" && r.Ports == nil && len(r.Nodes) == 0 && !m.Has(key) {
		m.Add(key, "the rule changes nothing", "write advertise, ports or nodes")
	}
	return t
}

// networks reads networks, 10.0.0.0/8, and single addresses.
func networks(m *settings.Mistakes, key string, texts []string) (out []netip.Prefix) {
	for i, text := range texts {
		at := fmt.Sprintf("%s[%d]", key, i)
		if m.Has(at) {
			continue
		}
		n, err := netip.ParsePrefix(text)
		if a, single := netip.ParseAddr(text); single == nil && a.Zone() == "" {
			n, err = netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
		}
		switch {
		case err != nil:
			m.Add(at, fmt.Sprintf("%q is not a network", text), "write 10.0.0.0/8, or an address")
		case n != n.Masked():
			m.Add(at, fmt.Sprintf("%q is an address in a network", text), "write "+n.Masked().String()+", or the address alone")
		default:
			out = append(out, n)
		}
	}
	return out
}

// nodes reads addresses by the ids of brokers.
func nodes(m *settings.Mistakes, key string, in map[int32]string) map[int32]policy.Endpoint {
	out := map[int32]policy.Endpoint{}
	for _, id := range slices.Sorted(maps.Keys(in)) {
		at := settings.Join(key, strconv.Itoa(int(id)))
		host, text, err := net.SplitHostPort(in[id])
		port, bad := strconv.ParseUint(text, 10, 16)
		e := policy.Endpoint{Host: host, Port: int32(port)}
		one := policy.Table{Nodes: map[int32]policy.Endpoint{id: e}}
		switch {
		case id < 0:
			m.Add(at, "no broker has a negative id", "")
		case err != nil || bad != nil || one.Check() != nil || strings.Contains(host, "{"):
			m.Add(at, fmt.Sprintf("%q is not an address that clients can connect to", in[id]), "write host:port")
		default:
			out[id] = e
		}
	}
	return out
}
