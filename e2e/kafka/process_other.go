//go:build !linux

package kafka

import "syscall"

// attributes put a child into a group of its own. Only Linux lets it die with the test binary; the tests run there.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
