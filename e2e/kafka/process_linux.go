package kafka

import "syscall"

// attributes put a child into a group of its own and let the kernel kill it when the test binary ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
