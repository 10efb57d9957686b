//go:build unix

package examples

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/e2e/kafka"
	"github.com/ackproxy/ackproxy/plugins/host"
	"github.com/ackproxy/ackproxy/policy"
)

func TestGo(t *testing.T) { tryExample(t, goPlugin(t)) }

func TestPython(t *testing.T) { tryExample(t, pythonPlugin(t)) }

// TestDocumentation: what docs/plugins.md shows is what TestGo runs.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile("../docs/plugins.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("plugin-go/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "```go\n"+string(program)+"```\n") {
		t.Error("docs/plugins.md does not show examples/plugin-go/main.go as it is")
	}
}

func goPlugin(t testing.TB) host.Spec {
	program := filepath.Join(private(t), "plugin-go")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, "./plugin-go").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	return host.Spec{Path: program, SHA256: sum(t, program)}
}

// pythonPlugin runs the system's interpreter with the libraries of an environment that the cache keeps.
func pythonPlugin(t testing.TB) host.Spec {
	if err := kafka.Need("python3", "python3 python3-venv"); err != nil {
		t.Fatal(err)
	}
	cache, err := kafka.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	environment := "plugin-python-" + sum(t, "plugin-python/requirements.txt")[:8]
	dir := filepath.Join(cache, environment)
	_, err = kafka.Cached(environment+"-ready", func(string) error {
		return errors.Join(
			kafka.Run(t.Context(), "python3", "-m", "venv", "--clear", dir),
			kafka.Run(t.Context(), filepath.Join(dir, "bin", "python"), "-m", "pip", "install", "-q", "--no-deps", "-r", "plugin-python/requirements.txt"))
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
		text, err := os.ReadFile(filepath.Join("plugin-python", name))
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

func start(t testing.TB, s host.Spec) *host.Plugin {
	t.Helper()
	s.Name, s.Config, s.SocketDir, s.StartTimeout = "example", []byte(`{"topic": "orders"}`), "/tmp", time.Minute
	p, err := host.Start(context.Background(), s, zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.InfoLevel))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

var ids = map[string]codec.UUID{"orders": {1}, "returns": {2}}

// request accepts and rejects in two topics.
func request() *policy.Request {
	r := &policy.Request{Conn: &policy.Conn{}, Carrier: policy.ShareFetch, GroupID: []byte("g\xff"), SessionEpoch: 5, Received: time.Now()}
	for _, topic := range []string{"orders", "returns"} {
		r.Partitions = append(r.Partitions, policy.Partition{TopicID: ids[topic], Topic: topic, Index: 7, Ranges: []policy.Range{
			{First: 0, Last: 4, Type: policy.Accept}, {First: 5, Last: 5, Type: policy.Reject}, {First: 9, Last: 1<<63 - 2, Type: policy.Reject},
		}})
	}
	return r
}

// tryExample wants the rejects of one topic released, and nothing else.
func tryExample(t *testing.T, s host.Spec) {
	edit := policy.Edit{TopicID: ids["orders"], Partition: 7, First: 5, Last: 5, Type: policy.Release, Reason: "no record of orders is given up"}
	rest := edit
	rest.First, rest.Last = 9, 1<<63-2
	want := policy.Verdict{Edits: []policy.Edit{edit, rest}}
	p := start(t, s)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if got, err := p.Decide(ctx, request()); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	all.Wait()
	s.Name, s.Config = "example", []byte(`{}`)
	s.SocketDir = "/tmp"
	if _, err := host.Start(t.Context(), s, zerolog.Nop()); err == nil || !strings.Contains(err.Error(), "it refuses its configuration") {
		t.Errorf("a configuration without a topic: %v", err)
	}
}
