// Package policytest has the tests of the stock policies that run in process and out of it alike: the package of a policy runs its suite with
// what it makes, and the package of its plugin with what the plugin makes.
package policytest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/policy"
)

// Endpoints tests the endpoint policy that open makes of a configuration, as JSON.
func Endpoints(t *testing.T, open func(t *testing.T, config string) (policy.EndpointPolicy, error)) {
	t.Run("rules", func(t *testing.T) { endpointRules(t, open) })
	t.Run("mistakes", func(t *testing.T) { endpointMistakes(t, open) })
}

const endpointConfig = `{"rules": [
	{"match": {"principal": "User:edge-*"}, "advertise": "edge.example.com", "ports": {"base": 29100}},
	{"match": {"client": ["10.0.0.0/8", "2001:db8::/32", "192.0.2.7"], "client_id": ["app-*-a", "app-*-b"]}, "advertise": "{id}.zone-{id}.example.com"},
	{"match": {"listener": "broker-3"}, "nodes": {"1": "one.example.com:9001", "2": "[2001:db8::2]:9002"}, "ports": {"base": 500}},
	{"match": {"listener": ["bootstrap"], "principal": ["User:CN=*,O=*", "User:x"]}, "ports": {"base": 65530}},
	{"match": {"principal": "User:nodes"}, "nodes": {"2": "two.example.com:9002"}}
]}`

func endpointRules(t *testing.T, open func(t *testing.T, config string) (policy.EndpointPolicy, error)) {
	p, err := open(t, endpointConfig)
	if err != nil {
		t.Fatal(err)
	}
	const without = "proxy:19101 proxy:19102 proxy:19109"
	for _, c := range []struct{ principal, clientID, client, listener, want string }{
		{"User:edge-7", "", "198.51.100.1:5", "bootstrap", "edge.example.com:29101 edge.example.com:29102 edge.example.com:29109"},
		{"User:edge-", "app-1-a", "10.1.2.3:5", "bootstrap", "edge.example.com:29101 edge.example.com:29102 edge.example.com:29109"},
		{"User:edge", "app-1-a", "10.1.2.3:5", "bootstrap", "1.zone-1.example.com:19101 2.zone-2.example.com:19102 9.zone-9.example.com:19109"},
		{"", "app-a-b-b", "[::ffff:10.1.2.3]:5", "bootstrap", "1.zone-1.example.com:19101 2.zone-2.example.com:19102 9.zone-9.example.com:19109"},
		{"", "app--b", "[2001:db8::9]:5", "bootstrap", "1.zone-1.example.com:19101 2.zone-2.example.com:19102 9.zone-9.example.com:19109"},
		{"", "app--b", "192.0.2.7:5", "bootstrap", "1.zone-1.example.com:19101 2.zone-2.example.com:19102 9.zone-9.example.com:19109"},
		{"", "app-b", "192.0.2.7:5", "bootstrap", without},
		{"", "app-1-c", "10.1.2.3:5", "bootstrap", without},
		{"", "app-1-a", "11.1.2.3:5", "bootstrap", without},
		{"", "app-1-a", "not an address", "bootstrap", without},
		{"", "", "11.1.2.3:5", "broker-3", "one.example.com:9001 [2001:db8::2]:9002 proxy:509"},
		{"", "", "11.1.2.3:5", "broker-33", without},
		{"User:CN=a,OU=b,O=c", "", "11.1.2.3:5", "bootstrap", "proxy:65531 proxy:65532 proxy:19109"},
		{"User:CN=a,OU=b", "", "11.1.2.3:5", "bootstrap", without},
		{"User:x", "", "11.1.2.3:5", "broker-1", without},
		{"User:nodes", "", "11.1.2.3:5", "broker-1", "proxy:19101 two.example.com:9002 proxy:19109"},
	} {
		client := &policy.Client{
			Conn:      &policy.Conn{ID: "c-1", Listener: c.listener, Client: c.client, Upstream: "kafka-1:9092", Opened: time.Now()},
			Principal: policy.Principal{Name: c.principal}, ClientID: c.clientID,
		}
		known := []policy.Node{{ID: 1, Host: "proxy", Port: 19101, Upstream: "kafka-1:9092"}}
		table, err := p.Endpoints(within(t), client, known)
		if err == nil {
			err = table.Check()
		}
		var told []string
		for _, id := range []int32{1, 2, 9} {
			e, _ := table.Of(id, policy.Endpoint{Host: "proxy", Port: 19100 + id})
			told = append(told, e.String())
		}
		if got := strings.Join(told, " "); err != nil || got != c.want {
			t.Errorf("%+v is told %s, %v, want %s", client, got, err, c.want)
		}
	}
}

func endpointMistakes(t *testing.T, open func(t *testing.T, config string) (policy.EndpointPolicy, error)) {
	for config, want := range map[string][]string{
		``:                                {`rules: there is no rule (write rules: [{match: {client: [10.0.0.0/8]}, advertise: kafka.example.com}])`},
		`{"rules": [{}]}`:                 {`rules[0]: the rule changes nothing (write advertise, ports or nodes)`},
		`{"rules": [{"advertize": "x"}]}`: {`rules[0].advertize: unknown key (the keys here are advertise, match, nodes, ports)`},
		`{"rules": [{"advertise": "a"}, {"match": {"listener": "x"}, "advertise": "b"}]}`: {
			`rules[1]: the rule is never used: rules[0] is for everyone (put it before that one)`},
		`{"rules": [{"match": {"client": ["10.0.0.0/33", "10.1.0.0/8", "x"], "principal": []}, "advertise": "a:1", "ports": {"base": 70000}, "nodes": {"-1": "a:1", "1": "a", "2": "0.0.0.0:1", "3": "a:0"}}]}`: {
			`rules[0].match.principal: nothing fits an empty list`,
			`rules[0].match.client[0]: "10.0.0.0/33" is not a network (write 10.0.0.0/8, or an address)`,
			`rules[0].match.client[1]: "10.1.0.0/8" is an address in a network (write 10.0.0.0/8, or the address alone)`,
			`rules[0].match.client[2]: "x" is not a network`,
			`rules[0].advertise: "a:1" is not a host (write a name or an address, without a port; {id} stands for the broker's id)`,
			`rules[0].ports.base: the port 70000 is out of range (write 1 to 65535)`,
			`rules[0].nodes.-1: no broker has a negative id`,
			`rules[0].nodes.1: "a" is not an address that clients can connect to (write host:port)`,
			`rules[0].nodes.2: "0.0.0.0:1" is not an address that clients can connect to`,
			`rules[0].nodes.3: "a:0" is not an address that clients can connect to`},
	} {
		p, err := open(t, config)
		if err == nil {
			t.Errorf("%s makes %v", config, p)
			continue
		}
		for _, w := range want {
			if !strings.Contains(fmt.Sprint(err), w) {
				t.Errorf("%s: %v\nlacks %s", config, err, w)
			}
		}
	}
}

// within is a context that a policy keeps to if it works at all.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
