//go:build linux

// Command pluginkill kills a plugin of a running ackproxy again and again, under load, and counts what is missing afterwards: requests
// that were not answered, or that never reached the broker, and goroutines and descriptors that stay. The broker is a stand-in on loopback.
//
//	go run ./e2e/pluginkill -runs 100
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ackproxy/ackproxy/e2e/gateway"
	"github.com/ackproxy/ackproxy/e2e/kafka"
)

const conns = 16

var (
	runs = flag.Int("runs", 100, "how often the plugin is killed")
	rate = flag.Int("rate", 5000, "acknowledgement requests a second, all connections together")
	mode = flag.String("on-failure", "forward", "the failure mode of the policy: forward, or respond")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "pluginkill:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "pluginkill-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l := &load{}
	broker, err := l.broker()
	if err != nil {
		return err
	}
	conf, err := configure(ctx, dir)
	if err != nil {
		return err
	}
	g, err := gateway.Start(ctx, gateway.Options{Upstream: broker, Brokers: 1, Dir: dir, Args: []string{"--config", conf, "--log-level", "error"}})
	if err != nil {
		return err
	}
	defer g.Stop()
	var clients sync.WaitGroup
	errs := make(chan error, conns)
	for range conns {
		clients.Go(func() { errs <- l.client(g.Bootstrap()) })
	}
	if err := l.progress(errs); err != nil {
		return err
	}
	before, err := metrics(ctx, g)
	if err != nil {
		return err
	}
	kills := 0
	for ; kills < *runs; kills++ {
		if err := l.kill(ctx, g, errs); err != nil {
			return fmt.Errorf("after %d kills: %w", kills, err)
		}
		if kills%10 == 9 {
			fmt.Fprintf(os.Stderr, "%d kills, %d requests\n", kills+1, l.answered.Load())
		}
	}
	after, err := settled(ctx, g, before)
	if err != nil {
		return err
	}
	l.stop.Store(true)
	clients.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	fmt.Printf("requests=%d failed_over=%.0f told_to_retry=%d\n", l.answered.Load(), after["ackproxy_policy_failures_total"]-before["ackproxy_policy_failures_total"],
		l.retry.Load())
	unanswered, lost := l.sent.Load()-l.answered.Load(), l.sent.Load()-l.forwarded.Load()
	goroutines, fds := after["go_goroutines"]-before["go_goroutines"], after["process_open_fds"]-before["process_open_fds"]
	fmt.Printf("kills=%d unanswered=%d lost=%d goroutines=%+.0f fds=%+.0f\n", kills, unanswered, lost, goroutines, fds)
	if unanswered != 0 || lost != 0 || goroutines > 0 || fds > 0 {
		return fmt.Errorf("not as it must be")
	}
	return nil
}

// configure builds the example plugin and writes a configuration that runs it.
func configure(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "plugin-go")
	if err := kafka.Run(ctx, "go", "build", "-buildvcs=false", "-o", program, "github.com/ackproxy/ackproxy/examples/plugin-go"); err != nil {
		return "", err
	}
	if err := os.Chmod(program, 0o755); err != nil {
		return "", err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	text, err := json.Marshal(map[string]any{"policies": []any{map[string]any{
		"name": "example", "on_failure": *mode, "config": map[string]string{"topic": "orders"}, "timeout": "1s",
		"plugin": map[string]any{"path": program, "sha256": hex.EncodeToString(sum[:]), "socket_dir": "/tmp"},
	}}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "ackproxy.yaml") // JSON is YAML
	return path, os.WriteFile(path, text, 0o600)
}

const (
	patience = 30 * time.Second
	lookAt   = 20 * time.Millisecond // between two looks at something that changes
)

// progress waits until each connection has had some more answers. An error of a client's ends the wait.
func (l *load) progress(errs <-chan error) error {
	until, end := l.answered.Load()+20*conns, time.Now().Add(patience)
	for l.answered.Load() < until {
		select {
		case err := <-errs:
			return fmt.Errorf("a client has ended: %w", err)
		case <-time.After(lookAt):
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d answers, and no more within %v", l.answered.Load(), patience)
		}
	}
	return nil
}

// kill kills the plugin, and waits until its successor decides: no request has failed over for a while.
func (l *load) kill(ctx context.Context, g *gateway.Gateway, errs <-chan error) error {
	was, err := child(g.PID())
	if err != nil {
		return err
	}
	before, err := metrics(ctx, g)
	if err != nil {
		return err
	}
	if err := syscall.Kill(was, syscall.SIGKILL); err != nil {
		return err
	}
	const failures = "ackproxy_policy_failures_total"
	last := before
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if err := l.progress(errs); err != nil {
			return err
		}
		now, err := metrics(ctx, g)
		if err != nil {
			return err
		}
		if next, err := child(g.PID()); err == nil && next != was && now[failures] == last[failures] {
			if now[failures] == before[failures] {
				return fmt.Errorf("no request met the failure mode")
			}
			return nil
		}
		last = now
	}
	return fmt.Errorf("the plugin was not started again within %v", patience)
}

// settled waits until no more goroutines and descriptors are in use than before, and returns what is when it is so, or when patience ends.
func settled(ctx context.Context, g *gateway.Gateway, before map[string]float64) (map[string]float64, error) {
	for end := time.Now().Add(patience); ; time.Sleep(lookAt) {
		now, err := metrics(ctx, g)
		if err != nil || time.Now().After(end) || now["go_goroutines"] <= before["go_goroutines"] && now["process_open_fds"] <= before["process_open_fds"] {
			return now, err
		}
	}
}

// child is the process that pid has started.
func child(pid int) (int, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return 0, err
	}
	for _, task := range tasks {
		text, _ := os.ReadFile(task) // of a thread that has ended: nothing
		if fields := strings.Fields(string(text)); len(fields) > 0 {
			return strconv.Atoi(fields[0])
		}
	}
	return 0, fmt.Errorf("process %d has no child", pid)
}

// metrics sums the series of each metric.
func metrics(ctx context.Context, g *gateway.Gateway) (map[string]float64, error) {
	text, err := g.Metrics(ctx)
	sums := map[string]float64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if i := strings.LastIndexByte(line, ' '); i >= 0 {
			value = strings.TrimSpace(line[i:])
		}
		name, _, _ = strings.Cut(name, "{")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			sums[name] += v
		}
	}
	return sums, err
}
