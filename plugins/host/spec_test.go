//go:build unix

package host

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	write := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const text = "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1" // SHA-256 of "text"
	good := write("good", 0o700)
	link := filepath.Join(open, "link")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Spec)
		want   string // of the only mistake; all of them when there are more
	}{
		"nothing":             {func(*Spec) {}, ""},
		"no name":             {func(s *Spec) { s.Name = "" }, "name: is empty"},
		"relative":            {func(s *Spec) { s.Path = "good" }, `path: "good" is not an absolute path`},
		"missing":             {func(s *Spec) { s.Path = dir + "/none" }, "path: lstat " + dir + "/none: no such file"},
		"a folder":            {func(s *Spec) { s.Path = dir }, "path: " + dir + " is not a file"},
		"not executable":      {func(s *Spec) { s.Path = write("data", 0o600) }, "path: " + dir + "/data is not executable"},
		"writable by others":  {func(s *Spec) { s.Path = write("shared", 0o702) }, "path: " + dir + "/shared may be written to by others"},
		"writable by a group": {func(s *Spec) { s.Path = write("grouped", 0o720) }, "chmod go-w " + dir + "/grouped"},
		"a link in the open":  {func(s *Spec) { s.Path = link }, "path: " + open + " may be written to by others"},
		"no checksum":         {func(s *Spec) { s.SHA256 = "" }, `sha256: "" is not a SHA-256`},
		"another checksum":    {func(s *Spec) { s.SHA256 = strings.Repeat("00", 32) }, "sha256: " + good + " has " + text},
		"a file":              {func(s *Spec) { s.Files = []File{{write("script", 0o600), text}} }, ""},
		"another file": {
			func(s *Spec) { s.Files = []File{{good, text}, {good, strings.Repeat("00", 32)}} }, "files[1].sha256: " + good + " has " + text},
		"a relative file":  {func(s *Spec) { s.Files = []File{{"script", text}} }, "files[0].path: "},
		"no variable":      {func(s *Spec) { s.Env = []string{"A", "B=C"} }, `env[1]: "B=C" is no variable's name`},
		"no socket folder": {func(s *Spec) { s.SocketDir = dir + "/none" }, "socket_dir: "},
		"a relative one":   {func(s *Spec) { s.SocketDir = "." }, "socket_dir: "},
		"a long one":       {func(s *Spec) { s.SocketDir = "/" + strings.Repeat("x", 60) }, "is too long for sockets"},
		"a file for it":    {func(s *Spec) { s.SocketDir = "/dev/null" }, "socket_dir: /dev/null is not a folder"},
		"all at once":      {func(s *Spec) { s.Name, s.Path, s.SHA256 = "", "x", "y" }, "name: |sha256: |path: "},
	} {
		t.Run(name, func(t *testing.T) {
			s := Spec{Name: "n", Path: good, SHA256: text, SocketDir: "/tmp"}
			c.change(&s)
			got := s.Check()
			want := strings.Split(c.want, "|")
			if c.want == "" {
				want = nil
			}
			if len(got) != len(want) {
				t.Fatalf("%v, want %q", got, want)
			}
			for i := range want {
				if !strings.Contains(got[i].Error(), want[i]) {
					t.Errorf("%v, want %q", got[i], want[i])
				}
			}
			if len(want) > 0 && c.want != "name: |sha256: |path: " {
				if _, err := Start(context.Background(), s, logTo(t)); err == nil {
					t.Error("started all the same")
				}
			}
		})
	}
}

func TestFileOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root can give files away")
		return
	}
	f, err := copySelf(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(f.Path, 12345, 0); err != nil {
		t.Fatal(err)
	}
	s := Spec{Name: "n", Path: f.Path, SHA256: f.SHA256, SocketDir: "/tmp"}
	if got := s.Check(); len(got) != 1 || !strings.Contains(got[0].Error(), "belongs to user 12345") {
		t.Error(got)
	}
}
