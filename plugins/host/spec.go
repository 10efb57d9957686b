package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ackproxy/ackproxy/codec"
)

// Spec is how a plugin is run.
type Spec struct {
	Name   string   // of the policy, unique in a configuration
	Path   string   // of the executable, absolute
	SHA256 string   // of the executable, 64 hexadecimal digits
	Args   []string // without the program's name
	Files  []File   // what else is code: an interpreter's scripts
	Env    []string // names of environment variables that are passed on, beside PATH, LANG, LC_ALL, TZ and TMPDIR
	Config []byte   // JSON; empty where there is none

	SocketDir    string        // where sockets are made, an absolute path; os.TempDir when empty
	StartTimeout time.Duration // from fork to healthy; 10 s when 0
	HostVersion  string        // of ackproxy, for plugins to know
	// TopicName names topics in what the plugin observes; nil: nothing does. It is called once something is observed, and not before.
	TopicName func(codec.UUID) (string, bool)
	Backoff   Backoff

	healthEvery time.Duration // 5 s when 0
}

// File is a file whose content must be known.
type File struct {
	Path   string // absolute
	SHA256 string // 64 hexadecimal digits
}

// Backoff is the wait before a process is started again. It doubles from Min to Max, and is Min again once a process was healthy for a
// minute.
type Backoff struct {
	Min   time.Duration // 100 ms when 0
	Max   time.Duration // after a process that had been healthy; 1 s when 0
	Break time.Duration // after five starts in a row that never became healthy; 30 s when 0
}

// Mistake is what is wrong with one field of a Spec.
type Mistake struct {
	Field string // "path", "files[1].sha256": the keys of the configuration
	Err   error
}

// Error names the field.
func (m Mistake) Error() string { return m.Field + ": " + m.Err.Error() }

// Unwrap returns Err.
func (m Mistake) Unwrap() error { return m.Err }

// Check returns all that is wrong with s on this machine, before anything is started: nil when it can be tried.
func (s *Spec) Check() (mistakes []Mistake) {
	add := func(field string, err error) {
		if err != nil {
			mistakes = append(mistakes, Mistake{field, err})
		}
	}
	if err := supported(); err != nil {
		return []Mistake{{"path", err}}
	}
	if s.Name == "" {
		add("name", errors.New("is empty"))
	}
	mistakes = append(mistakes, checkFile("", s.Path, s.SHA256, true)...)
	for i, f := range s.Files {
		mistakes = append(mistakes, checkFile(fmt.Sprintf("files[%d].", i), f.Path, f.SHA256, false)...)
	}
	for i, name := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			add(fmt.Sprintf("env[%d]", i), fmt.Errorf("%q is no variable's name", name))
		}
	}
	add("socket_dir", checkSocketDir(s.socketDir()))
	return mistakes
}

func (s *Spec) socketDir() string {
	if s.SocketDir == "" {
		return os.TempDir()
	}
	return s.SocketDir
}

func (s *Spec) fill() {
	set := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	set(&s.StartTimeout, 10*time.Second)
	set(&s.healthEvery, 5*time.Second)
	set(&s.Backoff.Min, 100*time.Millisecond)
	set(&s.Backoff.Max, time.Second)
	set(&s.Backoff.Break, 30*time.Second)
}

func checkFile(prefix, path, sum string, executable bool) (mistakes []Mistake) {
	add := func(field string, err error) { mistakes = append(mistakes, Mistake{prefix + field, err}) }
	want, err := hex.DecodeString(sum)
	if err != nil || len(want) != sha256.Size {
		add("sha256", fmt.Errorf("%q is not a SHA-256: 64 hexadecimal digits are wanted, as sha256sum prints them", sum))
	}
	if !filepath.IsAbs(path) {
		add("path", fmt.Errorf("%q is not an absolute path", path))
		return mistakes
	}
	got, err := readFile(path, executable)
	switch {
	case err != nil:
		add("path", err)
	case len(mistakes) == 0 && got != [sha256.Size]byte(want):
		add("sha256", fmt.Errorf("%s has %x", path, got))
	}
	return mistakes
}

// readFile checks what the file system says of a file, and returns the checksum of the content.
func readFile(path string, executable bool) (sum [sha256.Size]byte, err error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return sum, err
	}
	f, err := os.Open(real)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return sum, err
	case !info.Mode().IsRegular():
		return sum, fmt.Errorf("%s is not a file", path)
	case executable && info.Mode()&0o111 == 0:
		return sum, fmt.Errorf("%s is not executable", path)
	}
	if err := onlyOurs(real, info); err != nil {
		return sum, err
	}
	for _, file := range []string{path, real} { // whoever may change a link may change what it leads to
		if err := onlyOurFolders(file); err != nil {
			return sum, err
		}
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	return [sha256.Size]byte(h.Sum(nil)), err
}

func onlyOurFolders(file string) error {
	for dir := filepath.Dir(file); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if err := onlyOurs(dir, info); err != nil {
			return err
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// maxSocketDir leaves room for what is appended within the 104 bytes that a socket's path may have on every system.
const maxSocketDir = 50

func checkSocketDir(dir string) error {
	switch info, err := os.Stat(dir); {
	case !filepath.IsAbs(dir):
		return fmt.Errorf("%q is not an absolute path", dir)
	case len(dir) > maxSocketDir:
		return fmt.Errorf("%s is too long for sockets: %d bytes, more than %d", dir, len(dir), maxSocketDir)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", dir)
	}
	probe, err := os.MkdirTemp(dir, "ackproxy-")
	if err != nil {
		return fmt.Errorf("plugins need a folder that can be written to for their sockets: %w", err)
	}
	return os.Remove(probe)
}
