//go:build !unix

package host

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
)

func supported() error { return errors.New("plugins are not supported on " + runtime.GOOS) }

func onlyOurs(string, fs.FileInfo) error { return nil }

func isolate(*exec.Cmd) {}

func killGroup(int) {}

func lockDir(string) (*os.File, error) { return nil, supported() }
