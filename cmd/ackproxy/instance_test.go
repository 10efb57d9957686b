package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// instance is a running ackproxy.
type instance struct {
	t       *testing.T
	cmd     *exec.Cmd
	log     chan map[string]any // lines of standard error
	out     io.ReadCloser
	ended   chan struct{}
	address string // of the bootstrap listener
	admin   string
}

// start runs ackproxy on free ports until it has said what it does.
func start(t *testing.T, args ...string) *instance {
	t.Helper()
	cmd := command(t, append([]string{"run", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...)
	p := &instance{t: t, cmd: cmd, log: make(chan map[string]any, 1000), ended: make(chan struct{})}
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.out, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.log)
		for s := bufio.NewScanner(errs); s.Scan(); {
			line := map[string]any{}
			if json.Unmarshal(s.Bytes(), &line) != nil {
				line["raw"] = s.Text()
			}
			p.log <- line
		}
	}()
	t.Cleanup(func() { cmd.Process.Kill(); p.out.Close(); p.wait() })
	p.address = p.line("listener", "bootstrap")["address"].(string)
	p.admin = p.line("listener", "admin")["address"].(string)
	return p
}

// line waits for a line of the log with such a field.
func (p *instance) line(field, value string) map[string]any {
	p.t.Helper()
	late := time.After(patience)
	for {
		select {
		case l, ok := <-p.log:
			if !ok {
				p.t.Fatalf("ended without a line with %s %s", field, value)
			}
			if s, _ := l[field].(string); strings.Contains(s, value) {
				return l
			}
		case <-late:
			p.t.Fatalf("no line with %s %s", field, value)
		}
	}
}

// wait returns the exit status.
func (p *instance) wait() int {
	late := time.AfterFunc(patience, func() { p.cmd.Process.Kill() })
	defer late.Stop()
	for range p.log {
	}
	p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

func (p *instance) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

func (p *instance) get(path string) (int, string) {
	p.t.Helper()
	r, err := http.Get("http://" + p.admin + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// answers waits until a path of the admin server has this status.
func (p *instance) answers(path string, want int) {
	p.t.Helper()
	tick, late := time.NewTicker(10*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for {
		if status, _ := p.get(path); status == want {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			p.t.Fatalf("%s is never %d", path, want)
		}
	}
}

// dial connects a client.
func (p *instance) dial() net.Conn {
	p.t.Helper()
	c, err := net.Dial("tcp", p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c
}

// ask sends a request and reads its answer.
func ask(t *testing.T, c net.Conn, request []byte) []byte {
	t.Helper()
	if _, err := c.Write(request); err != nil {
		t.Fatal(err)
	}
	size := make([]byte, 4)
	if _, err := io.ReadFull(c, size); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, binary.BigEndian.Uint32(size))
	if _, err := io.ReadFull(c, answer); err != nil {
		t.Fatal(err)
	}
	return append(size, answer...)
}

func cluster(t *testing.T, options ...kfake.Opt) string {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()[0]
}

// hangsUp is the address of a broker that closes every connection: clients give up on it sooner than on one that is not there.
func hangsUp(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	return l.Addr().String()
}
