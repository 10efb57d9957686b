package sdk

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/plugins/internal/wire"
	"github.com/ackproxy/ackproxy/policy"
)

func TestMain(m *testing.M) {
	if os.Getenv(wire.CookieKey) != "" || len(os.Args) > 1 && os.Args[1] == "plugin" {
		Serve(func([]byte) (policy.Policy, error) { return nil, errors.New("never asked") })
	}
	os.Exit(m.Run())
}

// TestEndsWithTheHost: the kernel tells the plugin, by the end of its standard input, on any system.
func TestEndsWithTheHost(t *testing.T) { endsWithTheHost(t) }

// endsWithTheHost starts a plugin, sends it signals, and ends its standard input.
func endsWithTheHost(t *testing.T, signals ...os.Signal) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "plugin")
	cmd.Env = []string{wire.CookieKey + "=" + wire.CookieValue, "PLUGIN_PROTOCOL_VERSIONS=1", "PLUGIN_UNIX_SOCKET_DIR=" + t.TempDir()}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "1|1|unix|") {
		t.Errorf("%q, %v", line, err)
	}
	for _, s := range signals {
		if err := cmd.Process.Signal(s); err != nil {
			t.Error(err)
		}
	}
	in.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		cmd.Process.Kill()
		t.Error("it lives on")
	}
}

func TestNotForPeople(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "plugin")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "This binary is a plugin") {
		t.Errorf("%v: %s", err, out)
	}
}

type closing struct{ order chan string }

func (c closing) Close() error { c.order <- "closed"; return nil }

func (c closing) Name() string { return "" }

func (c closing) Traits() policy.Traits { return policy.Traits{} }

func (c closing) Decide(context.Context, *policy.Request) (policy.Verdict, error) {
	return policy.Verdict{}, nil
}

func TestClosesOnce(t *testing.T) {
	c := closing{make(chan string, 2)}
	s := &server{}
	s.close()
	s = &server{}
	s.opened.Store(&parts{whole: c})
	s.close()
	s.close()
	if len(c.order) != 1 {
		t.Errorf("closed %d times", len(c.order))
	}
}
