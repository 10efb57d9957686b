//go:build linux

package peer

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ackproxy/ackproxy/e2e/kafka"
)

// AckproxyPlugin is the proxy with a policy in a process of its own, the example in Go, which is built into dir and lets pass what it is asked
// about: each acknowledgement waits for it.
func AckproxyPlugin(ctx context.Context, command, dir string) (*Peer, error) {
	root, err := kafka.ModuleRoot()
	if err != nil {
		return nil, err
	}
	program := filepath.Join(dir, "plugin-go")
	if err := kafka.Run(ctx, "go", "build", "-C", root, "-trimpath", "-buildvcs=false", "-o", program, "./examples/plugin-go"); err != nil {
		return nil, err
	}
	if err := os.Chmod(program, 0o755); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "plugin.yaml")
	policies := fmt.Sprintf("policies: [{name: example, timeout: 5s, config: {topic: none}, plugin: {path: %s, sha256: %x}}]\n", program, sha256.Sum256(content))
	if err := os.WriteFile(file, []byte(policies), 0o600); err != nil {
		return nil, err
	}
	p, err := Ackproxy("ackproxy", command, Metrics, "--config", file)
	if err != nil {
		return nil, err
	}
	p.Name, p.Title = "ackproxy-plugin", "ackproxy, metrics on, audit off, each acknowledgement decided by a plugin in Go"
	p.Note = "CPU is that of the proxy without its plugin"
	return p, nil
}
