package proxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// stub is a server that serves nothing, for answers that are looked at in memory. Nodes 1 to 3 have a listener; nothing can be bound
// for node 7, and 60000 is beyond the last port.
func stub(t testing.TB, cfg Config) *Server {
	t.Helper()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Bootstrap, cfg.Advertise = "127.0.0.1:0", "proxy.test"
	cfg.BrokerPortsBase = taken.Addr().(*net.TCPAddr).Port - 7
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Shutdown(context.Background())
		taken.Close()
	})
	for id := range int32(3) {
		if _, err := s.listen(id+1, fmt.Sprint("broker-", id+1), "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// stubConn is a connection without sockets.
func stubConn(s *Server) *conn {
	c := &conn{srv: s, on: s.node(bootstrapNode), broker: s.brokerAt("upstream:9092"), pending: newPending(16, &s.limits), failed: make(chan struct{})}
	c.info = &policy.Conn{ID: "c-0", Client: "192.0.2.1:1", Upstream: "upstream:9092"}
	c.principal.Store(&policy.Principal{Source: "none", VerifiedBy: "nobody"})
	return c
}

// through is what a client gets for an answer.
func through(s *Server, x exchange, frame []byte) ([]byte, error) {
	r := &responses{c: stubConn(s), x: x}
	instead, err := r.whole(frame)
	if instead == nil {
		instead = frame
	}
	return instead, err
}

// addressed is a broker's address as an answer may carry it.
type addressed struct {
	id   int32
	host string
	port int32
	ours bool // it can be mapped
}

const upstreamHosts = ".upstream.example"

// addresses are one of each kind. The ports are below those that a listener gets at random.
func addresses(s *Server) []addressed {
	own := s.node(bootstrapNode).port
	return []addressed{
		{1, "b1" + upstreamHosts, 31281, true}, {2, "b2" + upstreamHosts, 31282, true}, {3, "b3" + upstreamHosts, 31283, true},
		{-5, "b-5" + upstreamHosts, 31284, false}, {60000, "b60000" + upstreamHosts, 31285, false}, {7, "b7" + upstreamHosts, 31286, false},
		{8, "proxy.test", own, false}, {9, "localhost", own, false}, {10, "127.0.0.1", s.node(2).port, false},
	}
}

// randomize gives every field of a kmsg message a value, unknown tagged fields included, and endpoints and leaders out of all.
func randomize(rnd *rand.Rand, v reflect.Value, all []addressed) {
	switch v.Kind() {
	case reflect.Struct:
		if tags, ok := v.Addr().Interface().(*kmsg.Tags); ok {
			for range rnd.IntN(3) {
				tags.Set(100+rnd.Uint32N(50), []byte("unknown"))
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Version" {
				randomize(rnd, v.Field(i), all)
			}
		}
		if typ := v.FieldByName("EndpointType"); typ.IsValid() {
			typ.SetInt(1 + rnd.Int64N(2)) // of brokers or of controllers
		}
		if id := v.FieldByName("LeaderID"); id.IsValid() {
			id.SetInt(int64(all[rnd.IntN(len(all))].id))
		}
		if h := v.FieldByName("Host"); h.IsValid() {
			a := all[rnd.IntN(len(all))]
			v.FieldByName("NodeID").SetInt(int64(a.id))
			h.SetString(a.host)
			v.FieldByName("Port").SetInt(int64(a.port))
		}
	case reflect.Array:
		for i := range v.Len() {
			randomize(rnd, v.Index(i), all)
		}
	case reflect.Slice:
		n := rnd.IntN(4)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			randomize(rnd, v.Index(i), all)
		}
	case reflect.Pointer:
		if rnd.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			randomize(rnd, v.Elem(), all)
		}
	case reflect.String:
		v.SetString(strings.Repeat("s", rnd.IntN(3)))
	case reflect.Bool:
		v.SetBool(rnd.IntN(2) == 1)
	case reflect.Uint8:
		v.SetUint(rnd.Uint64N(256))
	default:
		v.SetInt(rnd.Int64N(200) - 100)
	}
}

func find(all []addressed, id int32, host string, port int32) addressed {
	for _, a := range all {
		if a.id == id && a.host == host && a.port == port {
			return a
		}
	}
	return addressed{}
}

// mapped turns an answer into the one that clients are to get.
func mapped(s *Server, all []addressed, m kmsg.Response, version int16) {
	if d, ok := m.(*kmsg.DescribeClusterResponse); ok && version > 0 && d.EndpointType == 2 {
		d.Brokers = nil
		return
	}
	if f, ok := m.(*kmsg.FindCoordinatorResponse); ok {
		one := func(code *int16, id *int32, host *string, port *int32) {
			switch a := find(all, *id, *host, *port); {
			case a.ours:
				*host, *port = "proxy.test", s.node(a.id).port
			case *host != "":
				*id, *host, *port = -1, "", -1
				if *code == 0 {
					*code = 15
				}
			}
		}
		one(&f.ErrorCode, &f.NodeID, &f.Host, &f.Port)
		for i := range f.Coordinators {
			c := &f.Coordinators[i]
			one(&c.ErrorCode, &c.NodeID, &c.Host, &c.Port)
		}
		return
	}
	gone := map[int64]bool{}
	mapLists(s, all, reflect.ValueOf(m).Elem(), gone)
	dropLeaders(reflect.ValueOf(m).Elem(), gone)
}

func mapLists(s *Server, all []addressed, v reflect.Value, gone map[int64]bool) {
	for i := range v.NumField() {
		list := v.Field(i)
		if list.Kind() != reflect.Slice || list.Type().Elem().Kind() != reflect.Struct || list.Len() == 0 || !list.Index(0).FieldByName("Host").IsValid() {
			continue
		}
		kept := reflect.MakeSlice(list.Type(), 0, 0)
		for j := range list.Len() {
			e := list.Index(j)
			a := find(all, int32(e.FieldByName("NodeID").Int()), e.FieldByName("Host").String(), int32(e.FieldByName("Port").Int()))
			if !a.ours {
				gone[e.FieldByName("NodeID").Int()] = true
				continue
			}
			e.FieldByName("Host").SetString("proxy.test")
			e.FieldByName("Port").SetInt(int64(s.node(a.id).port))
			kept = reflect.Append(kept, e)
		}
		list.Set(kept)
	}
}

func dropLeaders(v reflect.Value, gone map[int64]bool) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			dropLeaders(v.Index(i), gone)
		}
	case reflect.Struct:
		if l := v.FieldByName("CurrentLeader"); l.IsValid() && gone[l.FieldByName("LeaderID").Int()] {
			l.FieldByName("LeaderID").SetInt(-1)
			l.FieldByName("LeaderEpoch").SetInt(-1)
		}
		for i := range v.NumField() {
			dropLeaders(v.Field(i), gone)
		}
	}
}

// noUpstream fails when an upstream host or port is anywhere in p.
func noUpstream(t *testing.T, p []byte, all []addressed) {
	t.Helper()
	if bytes.Contains(p, []byte(upstreamHosts)) {
		t.Errorf("an upstream host got through: %q", p)
	}
	for _, a := range all {
		if strings.HasSuffix(a.host, upstreamHosts) && bytes.Contains(p, binary.BigEndian.AppendUint32(nil, uint32(a.port))) {
			t.Errorf("upstream port %d got through: %x", a.port, p)
		}
	}
}

// TestEndpoints builds random answers of every kind that carries addresses, in every version, and compares what comes out with what
// kmsg writes for the same answer with our own addresses in it: nothing else may change.
func TestEndpoints(t *testing.T) {
	s := stub(t, Config{})
	all := addresses(s)
	for _, span := range []struct{ key, from, to int16 }{
		{codec.KeyMetadata, 0, 13}, {codec.KeyFindCoordinator, 0, 6}, {codec.KeyDescribeCluster, 0, 2}, {codec.KeyProduce, 10, 13},
		{codec.KeyFetch, 16, 18}, {codec.KeyShareFetch, 0, 2}, {codec.KeyShareAcknowledge, 0, 2},
	} {
		for version := span.from; version <= span.to; version++ {
			t.Run(fmt.Sprint(codec.Name(span.key), " v", version), func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(uint64(span.key), uint64(version)))
				for range 200 {
					randomAnswer(t, s, rnd, all, span.key, version)
				}
			})
		}
	}
}

func randomAnswer(t *testing.T, s *Server, rnd *rand.Rand, all []addressed, key, version int16) {
	m := kmsg.ResponseForKey(key)
	randomize(rnd, reflect.ValueOf(m).Elem(), all)
	m.SetVersion(version)
	frame := reply(m, 77)
	mapped(s, all, m, version)
	want := reply(m, 77)
	got, err := through(s, exchange{correlationID: 77, key: key, version: version, need: carriesEndpoints(key, version)}, bytes.Clone(frame))
	if err != nil {
		t.Fatalf("%v\n%x", err, frame)
	}
	noUpstream(t, got, all)
	if key == codec.KeyProduce || key == codec.KeyFetch {
		got = rewritten(t, got, m) // their leaders are overwritten in place, where kmsg leaves out a tagged field at its default
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("answer\n%x became\n%x, want\n%x", frame, got, want)
	}
}

// rewritten is an answer, of the kind and version of m, read and written again by kmsg.
func rewritten(t *testing.T, frame []byte, m kmsg.Response) []byte {
	t.Helper()
	again := kmsg.ResponseForKey(m.Key())
	again.SetVersion(m.GetVersion())
	if err := again.ReadFrom(frame[9:]); err != nil || int(binary.BigEndian.Uint32(frame)) != len(frame)-4 {
		t.Fatalf("%v, size prefix %x of %d bytes", err, frame[:4], len(frame))
	}
	return reply(again, 77)
}

// Versions below those that carry endpoints pass unread.
func TestNoEndpointsBelow(t *testing.T) {
	for _, x := range []exchange{{key: codec.KeyProduce, version: 9}, {key: codec.KeyFetch, version: 15}, {key: codec.KeyHeartbeat, version: 4}} {
		if n := carriesEndpoints(x.key, x.version); n != 0 {
			t.Errorf("%s v%d: need %b", codec.Name(x.key), x.version, n)
		}
	}
}
