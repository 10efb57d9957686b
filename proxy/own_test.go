package proxy

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// An address that is one of ours is never learnt, also where its listener is still to come; static configuration leads out of it.
func TestOwnAddress(t *testing.T) {
	base := freePort(t, 4)
	s, err := New(Config{Bootstrap: fmt.Sprint("127.0.0.1:", base), Advertise: "proxy.test", BrokerPortsBase: base, Nodes: map[int32]string{3: "kafka-3:9092"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(context.Background())
	for _, own := range []struct {
		id   int32
		host string
		port int
	}{{1, "proxy.test", base}, {1, "localhost", base}, {1, "127.0.0.1", base + 3}, {1, "proxy.test", base + 1}, {2, "127.0.0.1", base + 2}, {2, "::1", base + 2}} {
		if host, port, ok := s.advertise(own.id, own.host, int32(own.port)); ok || host != "" || port != -1 {
			t.Errorf("%+v became %s:%d", own, host, port)
		}
	}
	if len(s.nodes.learnt) != 0 {
		t.Errorf("learnt %v", s.nodes.learnt)
	}
	if _, port, ok := s.advertise(3, "proxy.test", int32(base+3)); !ok || int(port) != base+3 {
		t.Errorf("a node that is configured became port %d", port)
	}
	if _, _, ok := s.advertise(2, "127.0.0.2", int32(base)); !ok {
		t.Error("another address of this machine was taken for ours")
	}
}

// On all addresses of this machine we are reached by any of them.
func TestOwnAddressUnspecified(t *testing.T) {
	s, err := New(Config{Bootstrap: "0.0.0.0:0", Advertise: "proxy.test"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(context.Background())
	port := s.node(bootstrapNode).port
	all, err := net.InterfaceAddrs()
	if err != nil || len(all) == 0 {
		t.Fatal(err)
	}
	hosts := []string{"127.0.0.9"}
	for _, a := range all {
		hosts = append(hosts, a.(*net.IPNet).IP.String())
	}
	for _, host := range hosts {
		if !s.own(1, host, port) || s.own(1, host, port-1) {
			t.Errorf("%s is not taken for ours", host)
		}
		if err := s.refuseOwn("tcp", net.JoinHostPort(host, fmt.Sprint(port)), nil); err == nil {
			t.Errorf("%s is dialled", host)
		}
	}
	if s.own(1, "192.0.2.1", port) || s.own(1, "broker.example", port) || s.refuseOwn("tcp", fmt.Sprint("192.0.2.1:", port), nil) != nil {
		t.Error("another machine is taken for ours")
	}
}

// Under whatever name our own listener is configured, we do not connect to ourselves for ever.
func TestDialsItself(t *testing.T) {
	s, err := New(Config{Bootstrap: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(s.Addr())
	s.cfg.Upstream = []string{"localhost:" + port}
	s.calm = time.Hour
	s.reached.Store(new(time.Now()))
	serve(t, s)
	if c, err := net.Dial("tcp", s.Addr()); err == nil { // unless it is reset at once
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Minute))
		if p, err := closedBy(c); err != nil || len(p) != 0 {
			t.Errorf("%v %q", err, p)
		}
	}
	eventually(t, "the refusal", func() bool { return testutil.ToFloat64(s.metrics.total.WithLabelValues("broker", "dial_error")) > 0 })
	if n := testutil.ToFloat64(s.metrics.total.WithLabelValues("broker", "ok")); n != 0 {
		t.Errorf("connected to itself %v times", n)
	}
}

// A host name that no address can be made of is not kept: the state file has to be readable again.
func TestOddHosts(t *testing.T) {
	cfg := Config{Bootstrap: "127.0.0.1:0", StateDir: t.TempDir()}
	for _, host := range []string{"a]b", "[", "a b", "::1", "\xff", strings.Repeat("h", 3000)} {
		s, err := New(cfg)
		if err != nil {
			t.Fatalf("before %q: %v", host, err)
		}
		s.advertise(9, host, 9092)
		s.Shutdown(context.Background())
	}
}
