//go:build unix

package host

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What a killed host left is removed by the next one; what a living one has, what is new, and what is not ours stays.
func TestSocketsOfTheDeadAreSwept(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") // t.TempDir is too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	within := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	lay := func(name string) {
		if err := os.MkdirAll(within(name, "plugin-dir1"), 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", within(name, "plugin-dir1", "plugin1"))
		if err != nil {
			t.Fatal(err)
		}
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		l.Close()
	}
	for _, name := range []string{"ackproxy-1", "ackproxy-2", "ackproxy-3", "ackproxy-backup", "other-4"} {
		lay(name)
	}
	if err := os.WriteFile(within("ackproxy-3", "notes"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	living, err := newSockets(dir)
	if err != nil {
		t.Fatal(err)
	}
	if all, _ := os.ReadDir(dir); len(all) != 6 {
		t.Errorf("new ones were removed: %v", all)
	}
	ours, err := lockDir(within("ackproxy-2"))
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()

	sweep(dir, time.Now().Add(time.Hour))
	for name, want := range map[string]bool{"ackproxy-1": false, "ackproxy-2/plugin-dir1/plugin1": true, "ackproxy-3/notes": true,
		"ackproxy-3/plugin-dir1": false, "ackproxy-backup/plugin-dir1/plugin1": true, "other-4/plugin-dir1/plugin1": true, filepath.Base(living.dir): true} {
		if _, err := os.Lstat(within(name)); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", name, err == nil, want)
		}
	}
	for range 2 {
		if err := living.remove(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(living.dir); err == nil {
		t.Error("its own folder is left")
	}
}
