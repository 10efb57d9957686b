package host

import "syscall"

// dieWithThread makes the kernel kill the process when the thread that starts it ends: with the host, however it dies. See supervise.
func dieWithThread(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
