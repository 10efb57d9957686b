//go:build unix

package host

import (
	"errors"
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

// lockDir locks a folder. Closing what it returns, or the end of the process, unlocks it.
func lockDir(path string) (*os.File, error) {
	d, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}
