package proxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// freePort is a port of 127.0.0.1 that nobody listened on a moment ago, below those that are given out at random.
func freePort(t *testing.T, span int) int {
	t.Helper()
next:
	for port := 20000 + rand.IntN(10_000); port < 32000; port += span + 1 {
		for i := range span {
			ln, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port+i))
			if err != nil {
				continue next
			}
			ln.Close()
		}
		return port
	}
	t.Fatal("no free port")
	return 0
}

// nothingBound fails when one of the ports is still taken.
func nothingBound(t *testing.T, ports ...int) {
	t.Helper()
	for _, port := range ports {
		ln, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			t.Errorf("left bound: %v", err)
			continue
		}
		ln.Close()
	}
}

// A restarted proxy serves the brokers' ports, at the same place, before anyone asks for metadata.
func TestStateFileServesNodesAtOnce(t *testing.T) {
	dir := t.TempDir()
	base := freePort(t, 8)
	cfg := Config{Bootstrap: fmt.Sprint("127.0.0.1:", base), Advertise: "127.0.0.1", BrokerPortsBase: base + 1, StateDir: dir}
	first, second := script(t, answering(echo)), script(t, answering(echo))
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for id, addr := range map[int32]string{2: first, 5: second} {
		to, _ := net.ResolveTCPAddr("tcp", addr)
		if host, port, ok := s.advertise(id, "127.0.0.1", int32(to.Port)); !ok || host != "127.0.0.1" || int(port) != base+1+int(id) {
			t.Fatal(host, port, ok)
		}
	}
	s.Shutdown(context.Background())
	text, err := os.ReadFile(filepath.Join(dir, "nodes.json"))
	if want := fmt.Sprintf(`{"version":1,"nodes":{"2":%q,"5":%q}}`, first, second); err != nil || strings.TrimSpace(string(text)) != want {
		t.Errorf("%v, %s, want %s", err, text, want)
	}
	if s, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	serve(t, s)
	for id, addr := range map[int32]string{2: first, 5: second} {
		c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", base+1+int(id)))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Minute))
		c.Write(opaque(1, 0))
		if f, err := readFrame(c); err != nil || idOf(f, true) != 1 {
			t.Errorf("node %d: %v", id, err)
		}
		if l := s.Listeners(); len(l) != 3 || l[1].Name != "broker-2" || l[2].Name != "broker-5" || id == 5 && l[2].Upstream != fmt.Sprint([]string{addr}) {
			t.Errorf("%+v", l)
		}
	}
}

// A state that cannot be used is an error that says what to do, and leaves no port bound.
func TestUnusableState(t *testing.T) {
	port := freePort(t, 1)
	file := filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, nil, 0o600)
	asDir := t.TempDir()
	os.Mkdir(filepath.Join(asDir, "nodes.json"), 0o700)
	for dir, says := range map[string]string{filepath.Join(file, "state"): "state.dir", "/dev/null": "state.dir", asDir: "nodes.json"} {
		_, err := New(Config{Bootstrap: fmt.Sprint("127.0.0.1:", port), StateDir: dir})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	for _, text := range []string{"", "{", "[]", "nodes", `{"version":2}`, `{"version":1,"nodes":{"x":"a:1"}}`, `{"version":1,"nodes":{"-1":"a:1"}}`,
		`{"version":1,"nodes":{"1":"no port"}}`, `{"version":1,"nodes":{"1":7}}`} {
		dir := t.TempDir()
		os.WriteFile(filepath.Join(dir, "nodes.json"), []byte(text), 0o600)
		_, err := New(Config{Bootstrap: fmt.Sprint("127.0.0.1:", port), StateDir: dir})
		if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "nodes.json")) || !strings.Contains(err.Error(), "remove it") || strings.Contains(err.Error(), "nil") {
			t.Errorf("%q: %v", text, err)
		}
		if left, _ := os.ReadFile(filepath.Join(dir, "nodes.json")); string(left) != text {
			t.Errorf("%q was replaced with %q", text, left)
		}
	}
	nothingBound(t, port)
}

// A full disk keeps nobody from starting, with what is known.
func TestStateDiskFull(t *testing.T) {
	createTemp = func(dir, _ string) (*os.File, error) {
		return nil, &os.PathError{Op: "open", Path: dir, Err: syscall.ENOSPC}
	}
	defer func() { createTemp = os.CreateTemp }()
	dir, log := t.TempDir(), new(heard)
	known := `{"version":1,"nodes":{"7":"kafka-7.example:9092"}}`
	os.WriteFile(filepath.Join(dir, "nodes.json"), []byte(known), 0o600)
	s, err := New(Config{Bootstrap: "127.0.0.1:0", StateDir: dir, Log: zerolog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(context.Background())
	if s.node(7) == nil || !strings.Contains(log.String(), "disk of state.dir is full") {
		t.Errorf("%+v\n%s", s.Listeners(), log)
	}
	if left, _ := os.ReadFile(filepath.Join(dir, "nodes.json")); string(left) != known {
		t.Errorf("the state is %q", left)
	}
}

// While a disk takes its time over the state file, nobody but the one who learnt a node waits: others dial, and are told where brokers are.
func TestStateDiskHangs(t *testing.T) {
	s, err := New(Config{Bootstrap: "127.0.0.1:0", StateDir: t.TempDir(), Nodes: map[int32]string{1: "kafka-1.example:9092"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(context.Background())
	writing, written := make(chan struct{}), make(chan struct{})
	createTemp = func(dir, pattern string) (*os.File, error) {
		close(writing)
		<-written
		return os.CreateTemp(dir, pattern)
	}
	defer func() { createTemp = os.CreateTemp }()
	learnt := make(chan struct{})
	go func() { defer close(learnt); s.learn(7, "kafka-7.example:9092") }()
	<-writing
	asked := make(chan []int32)
	go func() {
		s.nodes.knows(7, "kafka-7.example:9092")
		s.nodes.addr(1)
		asked <- s.nodes.ids()
	}()
	select {
	case ids := <-asked:
		if !slices.Equal(ids, []int32{1, 7}) {
			t.Error(ids)
		}
	case <-time.After(10 * time.Second):
		t.Error("others wait for the disk")
		defer func() { <-asked }()
	}
	close(written)
	<-learnt
	if text, err := os.ReadFile(s.nodes.file); err != nil || !strings.Contains(string(text), "kafka-7.example:9092") {
		t.Errorf("%q, %v", text, err)
	}
}

func TestPortInUse(t *testing.T) {
	base := freePort(t, 4)
	taken, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", base+3))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = New(Config{Bootstrap: fmt.Sprint("127.0.0.1:", base), BrokerPortsBase: base, Nodes: map[int32]string{1: "a:1", 2: "b:1", 3: "c:1"}})
	if err == nil || !strings.Contains(err.Error(), "broker-3") {
		t.Errorf("error %v", err)
	}
	nothingBound(t, base, base+1, base+2)
}

// A node without a port is left out of answers; it does not keep the proxy from starting, whoever named it.
func TestNodeBeyondLastPort(t *testing.T) {
	cfg := Config{Bootstrap: "127.0.0.1:0", BrokerPortsBase: 60000, StateDir: t.TempDir(), Nodes: map[int32]string{5536: "static:1"}}
	for range 2 {
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []int32{5536, 2147483647} {
			if _, _, ok := s.advertise(id, "far.example", 9092); ok {
				t.Errorf("node %d is mapped", id)
			}
		}
		s.Shutdown(context.Background())
	}
}

func TestPrecedence(t *testing.T) {
	n := &nodes{static: map[int32]string{1: "static:1"}, pattern: "kafka-{id}.{id}:9092", learnt: map[int32]string{1: "learnt:1", 2: "learnt:2", 3: "learnt:3"}}
	for id, want := range map[int32]string{1: "static:1", 2: "kafka-2.2:9092", 7: "kafka-7.7:9092"} {
		if addr, ok := n.addr(id); !ok || addr != want {
			t.Errorf("node %d at %q, want %q", id, addr, want)
		}
	}
	n.pattern = ""
	if addr, ok := n.addr(3); !ok || addr != "learnt:3" {
		t.Errorf("%q %v", addr, ok)
	}
	if addr, ok := n.addr(7); ok {
		t.Errorf("node 7 at %q, of which nobody told", addr)
	}
}

// A broker that an answer shows at another address is dialled there from then on, behind the same port.
func TestNodeMoves(t *testing.T) {
	hello := func(name string) string {
		return script(t, answering(func(f []byte) []byte { return frameOf(append(f[8:12:12], name...)) }))
	}
	where := make(chan string, 1)
	bootstrap := script(t, answering(func(f []byte) []byte {
		m := kmsg.NewPtrMetadataResponse()
		m.SetVersion(9)
		b := kmsg.NewMetadataResponseBroker()
		to, _ := net.ResolveTCPAddr("tcp", <-where)
		b.NodeID, b.Host, b.Port = 4, "127.0.0.1", int32(to.Port)
		m.Brokers = append(m.Brokers, b)
		return reply(m, idOf(f, false))
	}))
	s := start(t, Config{Upstream: []string{bootstrap}, StateDir: t.TempDir()}, nil)
	c := dial(t, s)
	port := int32(0)
	for _, name := range []string{"old", "new"} {
		where <- hello(name)
		c.Write(request(kmsg.NewPtrMetadataRequest(), 9, 1))
		f, err := readFrame(c)
		m := kmsg.NewPtrMetadataResponse()
		m.SetVersion(9)
		if err != nil || m.ReadFrom(f[9:]) != nil || len(m.Brokers) != 1 || port != 0 && m.Brokers[0].Port != port {
			t.Fatal(err, m.Brokers)
		}
		port = m.Brokers[0].Port
		n, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		n.SetDeadline(time.Now().Add(time.Minute))
		n.Write(opaque(2, 0))
		if f, err = readFrame(n); err != nil || string(f[8:]) != name {
			t.Errorf("%v, answered by %q, want %q", err, f, name)
		}
	}
}

// A state directory that goes away is logged, and answers are rewritten all the same.
func TestStateLost(t *testing.T) {
	log := new(heard)
	dir := t.TempDir()
	s, err := New(Config{Bootstrap: "127.0.0.1:0", StateDir: filepath.Join(dir, "state"), Log: zerolog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(context.Background())
	os.RemoveAll(filepath.Join(dir, "state"))
	for range 3 {
		if _, port, ok := s.advertise(4, "kafka-4.example", 9092); !ok || port != s.node(4).port {
			t.Error("the node is not mapped")
		}
	}
	if n := strings.Count(log.String(), "state file not written"); n != 1 {
		t.Errorf("%d lines: %s", n, log)
	}
}
