//go:build unix

// Package plugin makes the example plugins ready to run, for tests.
package plugin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ackproxy/ackproxy/e2e/kafka"
	"github.com/ackproxy/ackproxy/plugins/host"
)

// Go builds the example in Go.
func Go(t testing.TB) host.Spec {
	program := filepath.Join(private(t), "plugin-go")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, "github.com/ackproxy/ackproxy/examples/plugin-go").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	return host.Spec{Path: program, SHA256: sum(t, program)}
}

// Python runs the example in Python: the system's interpreter with the libraries of an environment that the cache keeps.
func Python(t testing.TB) host.Spec {
	if err := kafka.Need("python3", "python3 python3-venv"); err != nil {
		t.Fatal(err)
	}
	root, err := kafka.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	examples := filepath.Join(root, "examples", "plugin-python")
	cache, err := kafka.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	environment := "plugin-python-" + sum(t, filepath.Join(examples, "requirements.txt"))[:8]
	dir := filepath.Join(cache, environment)
	_, err = kafka.Cached(environment+"-ready", func(string) error {
		return errors.Join(
			kafka.Run(t.Context(), "python3", "-m", "venv", "--clear", dir),
			kafka.Run(t.Context(), filepath.Join(dir, "bin", "python"), "-m", "pip", "install", "-q", "--no-deps", "-r", filepath.Join(examples, "requirements.txt")))
	})
	if err != nil {
		t.Fatal("the Python example cannot be tested without its libraries (python3 with venv, and a package index): ", err)
	}
	libraries, err := filepath.Glob(filepath.Join(dir, "lib", "python3*", "site-packages"))
	if err != nil || len(libraries) != 1 {
		t.Fatal(libraries, err)
	}
	t.Setenv("PYTHONPATH", libraries[0])
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	interpreter, err := exec.Command("python3", "-c", "import os, sys; print(os.path.realpath(sys.executable))").Output()
	if err != nil {
		t.Fatal(err)
	}
	s := host.Spec{Path: strings.TrimSpace(string(interpreter)), Env: []string{"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}}
	s.SHA256 = sum(t, s.Path)
	here := private(t)
	for _, name := range []string{"plugin.py", "policy_pb2.py"} {
		text, err := os.ReadFile(filepath.Join(examples, name))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(here, name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		s.Files = append(s.Files, host.File{Path: file, SHA256: sum(t, file)})
	}
	s.Args = []string{s.Files[0].Path}
	return s
}

// private is a folder that only we may write to, whatever the umask is.
func private(t testing.TB) string {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func sum(t testing.TB, path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}
