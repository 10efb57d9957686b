package kafka

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// pom names the jars of one release; the release is its property kafka.version.
//
//go:embed pom.xml
var pom []byte

// Versions are the releases that the end-to-end tests run on, newest first. The first is also that of the Java client.
var Versions = []string{"4.4.0", "4.2.2", "4.1.2"}

// CacheDir is where jars, the Python environment and compiled clients are kept: $E2E_CACHE, or e2e/.cache of this module.
func CacheDir() (string, error) {
	if d := os.Getenv("E2E_CACHE"); d != "" {
		return filepath.Abs(d)
	}
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, "e2e", ".cache"), nil
}

// ModuleRoot is the directory of the go.mod above the working directory.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = up
	}
}

// Need says what to install when a program is missing.
func Need(program, install string) error {
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("%s is not installed, and the end-to-end tests cannot run without it: install %s (Debian: apt-get install %s)",
			program, install, install)
	}
	return nil
}

// Jars returns the directory with the jars of a release, and fetches them through Maven when the cache does not have them.
func Jars(ctx context.Context, version string) (string, error) {
	if err := errors.Join(Need("java", "openjdk-17-jdk-headless"), Need("javac", "openjdk-17-jdk-headless")); err != nil {
		return "", err
	}
	sum := sha256.Sum256(pom)
	return Cached("kafka-"+version+"-"+hex.EncodeToString(sum[:4]), func(dir string) error {
		if err := Need("mvn", "maven"); err != nil {
			return err
		}
		file := filepath.Join(dir, "pom.xml")
		if err := os.WriteFile(file, pom, 0o644); err != nil {
			return err
		}
		return Run(ctx, "mvn", "-q", "-B", "-ntp", "-f", file, "-Dkafka.version="+version, "dependency:copy-dependencies",
			"-DoutputDirectory="+dir, "-DincludeScope=runtime")
	})
}

// Cached returns the directory of that name in the cache. When it is missing, fill makes its contents in a directory beside it that is
// renamed when fill succeeds, so that an interrupted fill leaves no half of it.
func Cached(name string, fill func(dir string) error) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(cache, "."+name+"-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if err := fill(tmp); err != nil {
		return "", fmt.Errorf("filling %s: %w", dir, err)
	}
	if err := os.Rename(tmp, dir); err != nil && !exists(dir) { // another test binary may have been first
		return "", err
	}
	return dir, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Run runs a program to its end; its output is in the error when it fails.
func Run(ctx context.Context, name string, args ...string) error {
	var out bytes.Buffer
	p, err := Start(name, args, ProcessOptions{Output: &out})
	if err != nil {
		return err
	}
	if err := p.Wait(ctx); err != nil {
		return fmt.Errorf("%s %q: %w\n%s", name, args, err, out.Bytes())
	}
	return nil
}
