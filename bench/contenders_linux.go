package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ackproxy/ackproxy/bench/internal/peer"
	"github.com/ackproxy/ackproxy/bench/internal/report"
	"github.com/ackproxy/ackproxy/e2e/kafka"
)

// observations are the ways in which ackproxy is measured.
var observations = []peer.Observed{peer.Nothing, peer.Metrics, peer.Audit}

// peerNames are the contenders, in the order of tables.
var peerNames = []string{"direct", "relay", "haproxy", "envoy", "kroxylicious", "ackproxy", "ackproxy-metrics", "ackproxy-audit", "ackproxy-plugin"}

// find looks for the chosen contenders. One that is missing is said to be, here and in the report.
func (b *bench) find(ctx context.Context) error {
	for name := range strings.SplitSeq(b.peersOptions.peers, ",") {
		p, err := findPeer(ctx, name, b.ackproxy, b.dir)
		if errors.As(err, &misuse{}) {
			return err
		}
		if err != nil {
			b.say.loud("LEFT OUT: %s: %v", name, err)
			b.report.Missing = append(b.report.Missing, report.Missing{Name: name, Why: err.Error()})
			continue
		}
		b.peers = append(b.peers, p)
	}
	for _, v := range b.variants {
		for _, observed := range observations {
			p, err := peer.Ackproxy(v[0], v[1], observed)
			if err != nil {
				return misuse{fmt.Errorf("-variant %s: %w", v[0], err)}
			}
			b.peers = append(b.peers, p)
		}
	}
	for _, p := range b.peers {
		b.report.Peers = append(b.report.Peers, report.Peer{Name: p.Name, Title: p.Title, Version: p.Version, Note: p.Note})
	}
	if len(b.peers) == 0 {
		return errors.New("no contender is there")
	}
	return nil
}

func findPeer(ctx context.Context, name, ackproxy, dir string) (*peer.Peer, error) {
	switch name {
	case "direct":
		return peer.Direct(), nil
	case "relay":
		return peer.Relay()
	case "haproxy":
		return peer.HAProxy()
	case "envoy":
		return peer.Envoy(ctx, false)
	case "kroxylicious":
		return peer.Kroxylicious(ctx, false, fenced())
	case "ackproxy-plugin":
		return peer.AckproxyPlugin(ctx, ackproxy, dir)
	}
	for _, observed := range observations {
		if name == "ackproxy"+observed.Suffix() {
			return peer.Ackproxy("ackproxy", ackproxy, observed)
		}
	}
	return nil, misuse{fmt.Errorf("no contender is called %q; there are %s", name, strings.Join(peerNames, ", "))}
}

const installUsage = `Fetch the contenders that PyPI and Maven Central have into e2e/.cache ($E2E_CACHE). HAProxy comes from Debian: apt-get install haproxy.

  go run ./bench install`

// installCommand fetches what it can, and says what it could not.
func installCommand(ctx context.Context, args []string) error {
	if err := parse(newFlags(installUsage), args, 0); err != nil {
		return err
	}
	_, envoyErr := peer.Envoy(ctx, true)
	_, kroxyliciousErr := peer.Kroxylicious(ctx, true, false)
	_, haproxyErr := peer.HAProxy()
	missing := 0
	for _, r := range []struct {
		name string
		err  error
	}{{"haproxy", haproxyErr}, {"envoy", envoyErr}, {"kroxylicious", kroxyliciousErr}} {
		if r.err != nil {
			missing++
			fmt.Fprintf(os.Stderr, "MISSING: %s: %v\n", r.name, r.err)
			continue
		}
		fmt.Printf("%s is there\n", r.name)
	}
	if missing > 0 {
		return fmt.Errorf("%d contenders are missing", missing)
	}
	return nil
}

// startBroker starts the broker stand-in on ports and returns when it listens. Its complaints go to a file in dir.
func startBroker(ctx context.Context, dir string, ports []int) (*kafka.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"_broker"}
	for _, p := range ports {
		args = append(args, fmt.Sprint(p))
	}
	out, err := os.Create(complaints(dir))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p, err := kafka.Start(self, args, kafka.ProcessOptions{Output: out})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	last := fmt.Sprintf("127.0.0.1:%d", slices.Max(ports))
	if err := kafka.Until(ctx, "the broker stand-in", func(context.Context) bool {
		c, err := net.DialTimeout("tcp", last, time.Second)
		if err == nil {
			c.Close()
		}
		return err == nil
	}); err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return p, nil
}

// complaints is the file with what the broker stand-in could not do.
func complaints(dir string) string { return filepath.Join(dir, "broker.out") }

// commit is the checkout's, with "-dirty" when its files differ from it.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
