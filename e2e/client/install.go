package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/ackproxy/ackproxy/e2e/kafka"
)

// prepared is what to run for each kind, once it was asked for.
var prepared = struct {
	sync.Mutex
	commands map[Kind][]string
}{commands: map[Kind][]string{}}

// command prepares a client and returns what to run, without the arguments.
func command(ctx context.Context, k Kind) ([]string, error) {
	prepared.Lock()
	defer prepared.Unlock()
	if c := prepared.commands[k]; c != nil {
		return slices.Clone(c), nil
	}
	prepare := map[Kind]func(context.Context) ([]string, error){Java: java, Python: python, Kgo: goProgram}[k]
	c, err := prepare(ctx)
	if err != nil {
		return nil, err
	}
	prepared.commands[k] = c
	return slices.Clone(c), nil
}

// Install prepares all clients.
func Install(ctx context.Context) error {
	for _, k := range Kinds {
		if _, err := command(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// source returns the path of a file of e2e/clients and a name for what is made of it.
func source(file string) (path, hash string, err error) {
	root, err := kafka.ModuleRoot()
	if err != nil {
		return "", "", err
	}
	path = filepath.Join(root, "e2e", "clients", file)
	text, err := os.ReadFile(path)
	sum := sha256.Sum256(text)
	return path, hex.EncodeToString(sum[:4]), err
}

func java(ctx context.Context) ([]string, error) {
	jars, err := kafka.Jars(ctx, kafka.Versions[0])
	if err != nil {
		return nil, err
	}
	file, hash, err := source("java/ShareClient.java")
	if err != nil {
		return nil, err
	}
	classes, err := kafka.Cached("java-client-"+hash+"-"+filepath.Base(jars), func(dir string) error {
		return kafka.Run(ctx, "javac", "-Xlint:all", "-Werror", "-proc:none", "-cp", jars+"/*", "-d", dir, file)
	})
	log4j := filepath.Join(filepath.Dir(file), "log4j2.yaml")
	return []string{"java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.configurationFile=" + log4j,
		"-cp", classes + ":" + jars + "/*", "ShareClient"}, err
}

func python(ctx context.Context) ([]string, error) {
	file, hash, err := source("python/requirements.txt")
	if err != nil {
		return nil, err
	}
	if err := kafka.Need("python3", "python3 python3-venv"); err != nil {
		return nil, err
	}
	// An environment knows its own path, so it cannot be made under another name: a file says that it is whole.
	whole, err := kafka.Cached("python-"+hash+"-ready", func(string) error { return venv(ctx, file, hash) })
	if err != nil {
		return nil, err
	}
	script, _, err := source("python/share_client.py")
	return []string{filepath.Join(filepath.Dir(whole), "python-"+hash, "bin", "python"), script}, err
}

func venv(ctx context.Context, requirements, hash string) error {
	cache, err := kafka.CacheDir()
	if err != nil {
		return err
	}
	dir := filepath.Join(cache, "python-"+hash)
	if err := kafka.Run(ctx, "python3", "-m", "venv", "--clear", dir); err != nil {
		return errors.Join(errors.New("python3 needs its venv module (Debian: apt-get install python3-venv)"), err)
	}
	return kafka.Run(ctx, filepath.Join(dir, "bin", "python"), "-m", "pip", "install", "-q", "--no-deps", "-r", requirements)
}

// goProgram builds the client on kgo; Go's own cache makes this quick.
func goProgram(ctx context.Context) ([]string, error) {
	cache, err := kafka.CacheDir()
	if err != nil {
		return nil, err
	}
	program := filepath.Join(cache, "kgo-client")
	return []string{program}, kafka.Run(ctx, "go", "build", "-o", program, "github.com/ackproxy/ackproxy/e2e/clients/kgo")
}
