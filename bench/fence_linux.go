package main

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// fencedVariable is set in a program that runs in a network namespace of its own.
const fencedVariable = "ACKPROXY_BENCH_FENCED"

// fence moves the program into a new network namespace, with nothing but a loopback interface, by starting it again with the same
// arguments; on success it does not return. All processes of a run live there: they disturb nobody's ports, nobody's firewall rules
// disturb them, and a contender that listens on all addresses is not to be reached. It takes the rights of root.
func fence() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	self, err := os.Executable()
	if err == nil { // the new program begins on this thread, hence in its namespace
		err = unix.Exec(self, os.Args, append(os.Environ(), fencedVariable+"=1"))
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1) // this thread is in the namespace and the others are not
	return nil
}

// fenced says whether this is the program that fence started.
func fenced() bool { return os.Getenv(fencedVariable) != "" }

// loopbackUp does what "ip link set lo up" does.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("loopback interface: %w", err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("loopback interface: %w", err)
	}
	return nil
}
