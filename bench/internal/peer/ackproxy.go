//go:build linux

package peer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ackproxy/ackproxy/bench/internal/frames"
	"github.com/ackproxy/ackproxy/e2e/kafka"
)

// BuildAckproxy builds the proxy of this checkout as it is released, into dir, and returns the program's path.
func BuildAckproxy(ctx context.Context, dir string) (string, error) {
	root, err := kafka.ModuleRoot()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "ackproxy")
	return bin, kafka.Run(ctx, "env", "CGO_ENABLED=0", "go", "build", "-C", root, "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", bin, "./cmd/ackproxy")
}

// Observed is what of the proxy looks at acknowledgements.
type Observed uint8

// What may be looked at.
const (
	Nothing Observed = iota
	Metrics          // without an audit log
	Audit            // and an audit log in a file
)

// Suffix is what Ackproxy puts behind the name.
func (o Observed) Suffix() string { return [...]string{"", "-metrics", "-audit"}[o] }

// Ackproxy is the proxy by a command, such as "/bin/ackproxy" or "env GOMAXPROCS=1 /bin/ackproxy", with further flags.
func Ackproxy(name, command string, observed Observed, flags ...string) (*Peer, error) {
	words := strings.Fields(command)
	if len(words) == 0 {
		return nil, errors.New("an empty command")
	}
	title := name + [...]string{", metrics and audit off", ", metrics on, audit off", ", metrics on, audit to a file"}[observed]
	p := &Peer{Name: name + observed.Suffix(), Title: title, Version: version(words), ShareVersion: frames.ShareVersion, Descriptors: 2,
		Audited: observed == Audit}
	p.command = func(at Place) (Command, error) {
		sink, admin := "none", "none"
		if observed != Nothing {
			admin = at.admin()
		}
		if observed == Audit {
			sink = "file:" + at.audit()
		}
		args := append(append([]string{}, words...), "run", "--listen", fmt.Sprintf("127.0.0.1:%d", at.Listen), "--upstream",
			fmt.Sprintf("127.0.0.1:%d", at.Upstream), "--broker-ports", fmt.Sprint(at.brokers()), "--audit", sink, "--admin", admin,
			"--state", filepath.Join(at.Dir, "state"), "--log-level", "warn")
		return Command{Args: append(args, flags...)}, nil
	}
	return p, nil
}

func version(words []string) string {
	args := append(append([]string{}, words[1:]...), "version")
	s, err := output(words[0], args...)
	if err != nil {
		return "unknown"
	}
	s, _, _ = strings.Cut(s, "\n")
	return strings.TrimPrefix(s, "ackproxy ")
}
