// Package gateway builds and runs ackproxy for tests, as its users do: the program, its flags, its audit file. It knows nothing of the
// proxy's packages.
package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ackproxy/ackproxy/e2e/kafka"
)

// Host is where a gateway listens: an address of this machine that no broker has, so that a leaked broker address shows.
const Host = "127.0.0.2"

// drain is how long a gateway gets for its end, more than its own limit.
const drain = 30 * time.Second

// Options say how a gateway is run.
type Options struct {
	Upstream  string // brokers, host:port, joined by commas
	Advertise string // host that clients are told; Host when empty
	Brokers   int    // node ids go from 1 to this
	Dir       string // for its files, kept by the caller
	Args      []string
}

// Gateway is a running ackproxy. Whoever started it calls Stop.
type Gateway struct {
	Options
	Port  int    // of the bootstrap listener; node n is at Port + n
	Audit string // path of the audit file

	admin   string
	process *kafka.Process
	log     *os.File
}

// Direct says that tests go without ackproxy, straight to the brokers: $E2E_DIRECT is set. What then still fails is not the
// proxy's doing. There is no audit and nothing to compare.
func Direct() bool { return os.Getenv("E2E_DIRECT") != "" }

// build makes the program once a test binary, in the directory of its first gateway; $E2E_ACKPROXY names a ready one.
var build = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("E2E_ACKPROXY"); bin != "" {
		return bin, nil
	}
	cache, err := kafka.CacheDir()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(cache, "ackproxy")
	args := []string{"build", "-o", bin}
	if race {
		args = append(args, "-race")
	}
	return bin, kafka.Run(context.Background(), "go", append(args, "github.com/ackproxy/ackproxy/cmd/ackproxy")...)
})

// Program is the path of the program, for its other commands.
func Program() (string, error) { return build() }

// Start starts a gateway and waits until it is ready.
func Start(ctx context.Context, o Options) (*Gateway, error) {
	if Direct() {
		return &Gateway{Options: o}, nil
	}
	bin, err := build()
	if err != nil {
		return nil, err
	}
	if o.Advertise == "" {
		o.Advertise = Host
	}
	port, err := kafka.FreePorts(o.Brokers+2, Host, o.Advertise)
	if err != nil {
		return nil, err
	}
	g := &Gateway{Options: o, Port: port, Audit: filepath.Join(o.Dir, "audit.jsonl"), admin: fmt.Sprintf("%s:%d", Host, port+o.Brokers+1)}
	if g.log, err = os.OpenFile(g.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return nil, err
	}
	args := append([]string{"run", "--listen", g.listen(), "--upstream", o.Upstream, "--advertise", o.Advertise,
		"--broker-ports", fmt.Sprint(port), "--audit", "file:" + g.Audit, "--admin", g.admin, "--state", filepath.Join(o.Dir, "state")}, o.Args...)
	if g.process, err = kafka.Start(bin, args, kafka.ProcessOptions{Output: g.log}); err != nil {
		return nil, err
	}
	if err := g.ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("ackproxy: %w\n%s", err, g.Logs(40)), g.process.Kill())
	}
	return g, nil
}

func (g *Gateway) listen() string { return fmt.Sprintf("%s:%d", Host, g.Port) }

func (g *Gateway) logPath() string { return filepath.Join(g.Dir, "ackproxy.log") }

// Bootstrap is the address that clients start from.
func (g *Gateway) Bootstrap() string {
	if g.process == nil {
		return g.Upstream
	}
	return fmt.Sprintf("%s:%d", g.Advertise, g.Port)
}

// PID is the process id.
func (g *Gateway) PID() int { return g.process.PID() }

// Running says that the process has not ended.
func (g *Gateway) Running() bool {
	if g.process == nil {
		return false
	}
	select {
	case <-g.process.Done():
		return false
	default:
		return true
	}
}

// Logs is the last lines of the gateway's log.
func (g *Gateway) Logs(lines int) string { return kafka.Tail(g.logPath(), lines) }

func (g *Gateway) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var ended bool
	err := kafka.Until(ctx, "/readyz of "+g.admin, func(ctx context.Context) bool {
		if ended = !g.Running(); ended {
			return true
		}
		_, err := g.get(ctx, "/readyz")
		return err == nil
	})
	if err == nil && ended {
		err = errors.New("it ended at its start")
	}
	return err
}

// Metrics is what /metrics shows.
func (g *Gateway) Metrics(ctx context.Context) (string, error) {
	body, err := g.get(ctx, "/metrics")
	return string(body), err
}

func (g *Gateway) get(ctx context.Context, path string) ([]byte, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.admin+path, nil)
	if err != nil {
		return nil, err
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, r.Status)
	}
	return body, err
}

// Stop drains the gateway, which writes the last audit lines, and returns an error when its exit status is not 0 or the race detector
// found something.
func (g *Gateway) Stop() error {
	if g.process == nil {
		return nil
	}
	if !g.Running() {
		return fmt.Errorf("ackproxy ended by itself: %w\n%s", g.process.Wait(context.Background()), g.Logs(40))
	}
	err := g.process.Stop(drain)
	log, readErr := os.ReadFile(g.logPath())
	if bytes.Contains(log, []byte("DATA RACE")) || bytes.Contains(log, []byte("panic: ")) {
		err = errors.Join(err, fmt.Errorf("race or panic in ackproxy:\n%s", log))
	}
	if err = errors.Join(err, readErr, g.log.Close()); err != nil {
		return fmt.Errorf("stop ackproxy: %w\n%s", err, g.Logs(40))
	}
	return nil
}
