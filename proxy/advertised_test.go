package proxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// mapping is an endpoint policy of a test.
type mapping struct {
	waits  bool
	budget time.Duration
	asked  *atomic.Int32
	table  func(ctx context.Context, c *policy.Client, nodes []policy.Node) (policy.Table, error)
}

func (m mapping) Name() string          { return "mapping" }
func (m mapping) Traits() policy.Traits { return policy.Traits{Waits: m.waits, Budget: m.budget} }

func (m mapping) Endpoints(ctx context.Context, c *policy.Client, nodes []policy.Node) (policy.Table, error) {
	if m.asked != nil {
		m.asked.Add(1)
	}
	return m.table(ctx, c, nodes)
}

func members(all ...policy.EndpointPolicy) (out []policy.EndpointMember) {
	for _, p := range all {
		out = append(out, policy.EndpointMember{Policy: p})
	}
	return out
}

// metadataBroker believes every client, and has brokers 1 and 2 at upstream addresses.
func metadataBroker(c *net.TCPConn) {
	for {
		f, err := readFrame(c)
		if err != nil {
			return
		}
		id, version := idOf(f, false), int16(f[7])
		switch key := int16(f[4])<<8 | int16(f[5]); key {
		case codec.KeyMetadata:
			m := kmsg.NewPtrMetadataResponse()
			m.SetVersion(version)
			for node := range int32(2) {
				b := kmsg.NewMetadataResponseBroker()
				b.NodeID, b.Host, b.Port = node+1, fmt.Sprint("b", node+1, upstreamHosts), 31281+node
				m.Brokers = append(m.Brokers, b)
			}
			c.Write(reply(m, id))
		case codec.KeySASLAuthenticate:
			m := kmsg.NewPtrSASLAuthenticateResponse()
			m.SetVersion(version)
			c.Write(reply(m, id))
		case codec.KeySASLHandshake:
			m := kmsg.NewPtrSASLHandshakeResponse()
			m.SetVersion(version)
			c.Write(reply(m, id))
		default:
			c.Write(echo(f))
		}
	}
}

// ask asks for metadata and returns where the client is told to find the brokers; the ports of s are shown as "own".
func ask(t *testing.T, s *Server, c net.Conn) string {
	t.Helper()
	if _, err := c.Write(request(kmsg.NewPtrMetadataRequest(), 7, 5)); err != nil {
		t.Fatal(err)
	}
	f, err := readFrame(c)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(f, []byte(upstreamHosts)) {
		t.Errorf("an upstream host got through: %q", f)
	}
	m := kmsg.NewPtrMetadataResponse()
	m.SetVersion(7)
	if err := m.ReadFrom(f[8:]); err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, b := range m.Brokers {
		port := fmt.Sprint(b.Port)
		if l := s.node(b.NodeID); l != nil && l.port == b.Port {
			port = "own"
		}
		told = append(told, fmt.Sprintf("%d=%s:%s", b.NodeID, b.Host, port))
	}
	return strings.Join(told, " ")
}

// What clients are told, by what the policies say. The first answer of a proxy that knows no broker yet is mapped as well.
func TestAdvertised(t *testing.T) {
	const builtin = "1=127.0.0.1:own 2=127.0.0.1:own"
	table := func(tab policy.Table) func(context.Context, *policy.Client, []policy.Node) (policy.Table, error) {
		return func(context.Context, *policy.Client, []policy.Node) (policy.Table, error) { return tab, nil }
	}
	node := func(id int32, host string, port int32) policy.Table {
		return policy.Table{Nodes: map[int32]policy.Endpoint{id: {Host: host, Port: port}}}
	}
	for name, c := range map[string]struct {
		tables        []func(context.Context, *policy.Client, []policy.Node) (policy.Table, error)
		first, second string // answers
		result        string
	}{
		"nothing":        {nil, builtin, builtin, ""},
		"empty":          {tables(table(policy.Table{})), builtin, builtin, "used"},
		"host":           {tables(table(policy.Table{Host: "b{id}.edge"})), "1=b1.edge:own 2=b2.edge:own", "1=b1.edge:own 2=b2.edge:own", "used"},
		"ports":          {tables(table(policy.Table{PortBase: 500})), "1=127.0.0.1:501 2=127.0.0.1:502", "1=127.0.0.1:501 2=127.0.0.1:502", "used"},
		"no such port":   {tables(table(policy.Table{Host: "edge", PortBase: 65534})), "1=edge:65535 2=127.0.0.1:own", "1=edge:65535 2=127.0.0.1:own", "used"},
		"one node":       {tables(table(node(2, "edge", 9))), "1=127.0.0.1:own 2=edge:9", "1=127.0.0.1:own 2=edge:9", "used"},
		"first wins":     {tables(table(node(2, "edge", 9)), table(policy.Table{Host: "rest"})), "1=rest:own 2=edge:9", "1=rest:own 2=edge:9", "used"},
		"leak, by name":  {tables(table(node(2, "B2"+upstreamHosts+".", 31282))), builtin, builtin, "refused"},
		"leak, of other": {tables(table(node(1, "b2"+upstreamHosts, 31282))), builtin, builtin, "refused"},
		"leak, made":     {tables(table(policy.Table{Host: "b{id}" + upstreamHosts, PortBase: 31280})), builtin, builtin, "refused"},
		"error": {tables(func(context.Context, *policy.Client, []policy.Node) (policy.Table, error) {
			return node(1, "x", 1), errors.New("no")
		}), builtin, builtin, "failed"},
		"panic":    {tables(func(context.Context, *policy.Client, []policy.Node) (policy.Table, error) { panic("no") }), builtin, builtin, "failed"},
		"no host":  {tables(table(node(1, "", 1))), builtin, builtin, "failed"},
		"no port":  {tables(table(node(1, "edge", 65536))), builtin, builtin, "failed"},
		"odd host": {tables(table(policy.Table{Host: "edge:9092"})), builtin, builtin, "failed"},
		"any host": {tables(table(policy.Table{Host: "0.0.0.0"})), builtin, builtin, "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			onBothCalls(t, func(t *testing.T, src source, waits bool) {
				cfg := Config{Upstream: []string{script(t, metadataBroker)}}
				for _, f := range c.tables {
					cfg.Endpoints = append(cfg.Endpoints, policy.EndpointMember{Policy: mapping{waits: waits, table: f}, Timeout: 20 * time.Second})
				}
				s := start(t, cfg, src)
				client := dial(t, s)
				if got := ask(t, s, client); got != c.first {
					t.Errorf("told %s, want %s", got, c.first)
				}
				if got := ask(t, s, client); got != c.second {
					t.Errorf("told %s then, want %s", got, c.second)
				}
				if c.result != "" && testutil.ToFloat64(s.metrics.tables.WithLabelValues("mapping", c.result)) == 0 {
					t.Errorf("not counted as %s", c.result)
				}
			})
		})
	}
}

func tables(f ...func(context.Context, *policy.Client, []policy.Node) (policy.Table, error)) []func(context.Context, *policy.Client, []policy.Node) (policy.Table, error) {
	return f
}

// A policy is asked once a connection has a client, and again when that proves to be someone, or when brokers turn up.
func TestAdvertisedAgain(t *testing.T) {
	onBothCalls(t, func(t *testing.T, src source, waits bool) {
		var asked atomic.Int32
		p := mapping{waits: waits, budget: 20 * time.Second, asked: &asked, table: func(_ context.Context, c *policy.Client, nodes []policy.Node) (policy.Table, error) {
			if c.ClientID != "test" || c.Conn.Listener != "bootstrap" {
				return policy.Table{}, fmt.Errorf("client %+v", c)
			}
			who := "nobody"
			if c.Principal.Name != "" {
				who = strings.TrimPrefix(c.Principal.Name, "User:")
			}
			for _, n := range nodes {
				if n.Host != "127.0.0.1" || n.Port == 0 || !strings.Contains(n.Upstream, upstreamHosts) {
					return policy.Table{}, fmt.Errorf("node %+v", n)
				}
			}
			return policy.Table{Host: fmt.Sprintf("%s.%d", who, len(nodes))}, nil
		}}
		s := start(t, Config{Upstream: []string{script(t, metadataBroker)}, Endpoints: members(p)}, src)
		c := dial(t, s)
		check := func(host string, times int32) {
			t.Helper()
			if got, want := ask(t, s, c), fmt.Sprintf("1=%s:own 2=%s:own", host, host); got != want || asked.Load() != times {
				t.Errorf("told %s after %d questions, want %s after %d", got, asked.Load(), want, times)
			}
		}
		told(c, opaque(1, 3))
		check("nobody.0", 1)
		check("nobody.2", 2) // the answer has taught two brokers
		check("nobody.2", 2)
		told(c, handshake("PLAIN", 1), token(2, "\x00alice\x00"+secret))
		check("alice.2", 3)
		check("alice.2", 3)
		c = dial(t, s)
		check("nobody.2", 4)
	})
}

// While a policy does not answer, the request waits no longer than its deadline; what follows is not made to wait again at once.
func TestAdvertisedLate(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		var asked atomic.Int32
		p := mapping{waits: true, budget: 20 * time.Millisecond, asked: &asked, table: func(ctx context.Context, _ *policy.Client, _ []policy.Node) (policy.Table, error) {
			<-ctx.Done()
			return policy.Table{Host: "late"}, ctx.Err()
		}}
		addr := script(t, metadataBroker)
		s := start(t, Config{Upstream: []string{addr}, Nodes: map[int32]string{1: "b1" + upstreamHosts + ":31281", 2: "b2" + upstreamHosts + ":31282"},
			Endpoints: members(p)}, src)
		s.askAgain = time.Hour
		c := dial(t, s)
		ask(t, s, c) // learns
		n := asked.Load()
		for range 3 {
			if got := ask(t, s, c); got != "1=127.0.0.1:own 2=127.0.0.1:own" {
				t.Error(got)
			}
		}
		if now := asked.Load(); now > n+1 { // once more, since brokers were learnt
			t.Errorf("asked %d times, then %d", n, now)
		}
	})
}

// Whatever is in a connection's table, no upstream address gets through: the table may be older than what is known now.
func TestAdvertisedNeverLeaks(t *testing.T) {
	s := stub(t, Config{})
	all := addresses(s)
	leaky := &advertised{tables: []policy.Table{{Host: "b{id}" + upstreamHosts, PortBase: 31280, Nodes: map[int32]policy.Endpoint{}}}}
	leaky.tables[0].Nodes[1] = policy.Endpoint{Host: "B3" + strings.ToUpper(upstreamHosts), Port: 31283}
	for _, span := range []struct{ key, from, to int16 }{
		{codec.KeyMetadata, 0, 13}, {codec.KeyFindCoordinator, 0, 6}, {codec.KeyDescribeCluster, 0, 2}, {codec.KeyProduce, 10, 13},
		{codec.KeyFetch, 16, 18}, {codec.KeyShareFetch, 0, 2}, {codec.KeyShareAcknowledge, 0, 2},
	} {
		for version := span.from; version <= span.to; version++ {
			rnd := rand.New(rand.NewPCG(uint64(span.key), uint64(version)))
			for range 50 {
				s.nodes.learnt = map[int32]string{} // answers teach them anew
				m := kmsg.ResponseForKey(span.key)
				randomize(rnd, reflect.ValueOf(m).Elem(), all)
				m.SetVersion(version)
				c := stubConn(s)
				c.advertised.Store(leaky)
				x := exchange{correlationID: 77, key: span.key, version: version, need: carriesEndpoints(span.key, version)}
				r := &responses{c: c, x: x}
				got, err := r.whole(reply(m, 77))
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range all { // host with port: the table may well make the host alone
					addr := net.JoinHostPort(a.host, fmt.Sprint(a.port))
					if learnt := s.nodes.upstream(policy.Endpoint{Host: a.host, Port: a.port}); learnt && carries(bytes.ToLower(got), a) {
						t.Fatalf("%s v%d: %s got through: %q", codec.Name(span.key), version, addr, got)
					}
				}
			}
		}
	}
}

// carries says whether host and port follow each other in p, as they do in every answer.
func carries(p []byte, a addressed) bool {
	port := binary.BigEndian.AppendUint32(nil, uint32(a.port))
	return bytes.Contains(p, append([]byte(a.host), port...))
}

func TestMade(t *testing.T) {
	for _, c := range []struct {
		pattern, addr string
		want          bool
	}{
		{"kafka-{id}:9092", "kafka-12:9092", true}, {"kafka-{id}:9092", "kafka-x:9092", false}, {"kafka-{id}:9092", "kafka-:9092", false},
		{"kafka-{id}:9092", "kafka-1:9093", false}, {"k{id}.z{id}:1", "k7.z7:1", true}, {"k{id}.z{id}:1", "k7.z8:1", false}, {"k{id}0:1", "k70:1", true},
	} {
		if got := made(c.pattern, c.addr); got != c.want {
			t.Errorf("%s makes %s: %v", c.pattern, c.addr, got)
		}
	}
}
