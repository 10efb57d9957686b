//go:build unix

package host

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

func supported() error { return nil }

// onlyOurs refuses what others than root and our user may write to. In a folder with the sticky bit others cannot replace what is not
// theirs.
func onlyOurs(path string, info fs.FileInfo) error {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid != 0 && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, who is neither root nor the one that ackproxy runs as (%d)", path, s.Uid, os.Geteuid())
	}
	if info.Mode()&0o022 != 0 && !(info.IsDir() && info.Mode()&fs.ModeSticky != 0) {
		return fmt.Errorf("%s may be written to by others (%v): chmod go-w %s", path, info.Mode(), path)
	}
	return nil
}

// isolate puts the process into a group of its own: a Ctrl-C meant for ackproxy does not reach it, and all it starts can be killed at once.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithThread(cmd.SysProcAttr)
}

// killGroup kills the process and all it started.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
