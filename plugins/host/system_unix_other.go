//go:build unix && !linux

package host

import "syscall"

func dieWithThread(*syscall.SysProcAttr) {}
