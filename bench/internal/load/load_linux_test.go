package load

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/bench/internal/epoll"
	"github.com/ackproxy/ackproxy/bench/internal/frames"
	"github.com/ackproxy/ackproxy/bench/internal/standin"
)

const role = "BENCH_TEST_STANDIN"

// TestMain: the stand-in runs in a process of its own, as it does in a benchmark. It ends with its standard input's other end.
func TestMain(m *testing.M) {
	port := os.Getenv(role)
	if port == "" {
		os.Exit(m.Run())
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	var n uint16
	fmt.Sscan(port, &n)
	err := standin.Run([]uint16{n}, func() { fmt.Println("ready") }, func(err error) { fmt.Fprintln(os.Stderr, err) })
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// startBroker returns the address of a stand-in, and what it complains of once it has ended.
func startBroker(t *testing.T) (addr string, complaints func() string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"="+port)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdin, _ := cmd.StdinPipe()
	stdout, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v: %s", line, err, stderr.String())
	}
	ended := false
	end := func() string {
		if !ended {
			stdin.Close()
			_ = cmd.Wait()
		}
		ended = true
		return stderr.String()
	}
	t.Cleanup(func() { end() })
	return addr, end
}

func noGate(string) error { return nil }

func TestEveryKind(t *testing.T) {
	if err := epoll.RaiseDescriptorLimit(); err != nil {
		t.Fatal(err)
	}
	addr, complaints := startBroker(t)
	for _, kind := range frames.Kinds {
		for _, version := range []int16{frames.ShareOldest, frames.ShareVersion} {
			for _, shape := range [][2]int{{1, 1}, {5, 3}, {20, 32}} {
				spec := Spec{Addr: addr, Kind: kind, ShareVersion: version, Conns: shape[0], Depth: shape[1], Warm: time.Millisecond,
					Run: time.Millisecond, AtLeast: 40, Watch: map[string]int{"me": os.Getpid()}}
				r, err := Run(spec, noGate)
				if err != nil || r.Requests < 40 || r.P50 <= 0 || r.P50 > r.P99 || r.P99 > r.Max || r.CPU["me"] <= 0 {
					t.Errorf("%s v%d, %v: %+v, %v", kind, version, shape, r, err)
				}
			}
		}
	}
	if c := complaints(); c != "" {
		t.Error(c)
	}
}

// TestRate: the rate is an upper bound.
func TestRate(t *testing.T) {
	addr, _ := startBroker(t)
	r, err := Run(Spec{Addr: addr, Kind: frames.Ack, Conns: 4, Depth: 8, Rate: 1000, AtLeast: 100}, noGate)
	if err != nil || r.Requests < 100 || float64(r.Requests) > 1000*r.Seconds+32 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestHoldAndGate(t *testing.T) {
	addr, _ := startBroker(t)
	var words []string
	gate := func(w string) error { words = append(words, w); return nil }
	if _, err := Run(Spec{Addr: addr, Kind: frames.Ack, Hold: []int{3, 150}}, gate); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(Spec{Addr: addr, Kind: frames.Ack, Conns: 1, Depth: 1, Run: time.Millisecond, Gate: true}, gate); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(words, ", "); !strings.HasPrefix(got, "held 3, held 150, warm, done ") {
		t.Error(got)
	}
}

// TestBrokerGone: a closed connection and a port that nobody listens on are errors, not silence.
func TestBrokerGone(t *testing.T) {
	addr, end := startBroker(t)
	gate := func(string) error { end(); return nil }
	if r, err := Run(Spec{Addr: addr, Kind: frames.Ack, Conns: 2, Depth: 2, Run: time.Hour, Gate: true}, gate); err == nil {
		t.Errorf("%+v", r)
	}
	if r, err := Run(Spec{Addr: addr, Kind: frames.Ack, Conns: 1, Depth: 1}, noGate); err == nil {
		t.Errorf("%+v", r)
	}
}
