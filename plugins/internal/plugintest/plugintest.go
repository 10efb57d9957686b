//go:build unix

// Package plugintest builds plugins and starts them in the real host, for tests.
package plugintest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/ackproxy/ackproxy/plugins/host"
)

// Build builds a main package.
func Build(t testing.TB, pkg string) host.Spec {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "plugin")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, pkg).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	content, err := os.ReadFile(program)
	if err = errors.Join(err, os.Chmod(dir, 0o700), os.Chmod(program, 0o755)); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	return host.Spec{Path: program, SHA256: hex.EncodeToString(sum[:])}
}

// Start starts a plugin until the end of the test.
func Start(t testing.TB, s host.Spec, config string) (*host.Plugin, error) {
	t.Helper()
	s.Name, s.Config = "test", []byte(config)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	p, err := host.Start(ctx, s, zerolog.New(zerolog.NewTestWriter(t)))
	if err == nil {
		t.Cleanup(func() { p.Close() })
	}
	return p, err
}
