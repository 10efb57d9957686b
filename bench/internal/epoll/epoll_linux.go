// Package epoll is the kernel's socket interface with nothing in between: non-blocking sockets and one edge-triggered epoll
// descriptor, driven by one locked thread. The benchmark's own ends of the wire are made of it, so that they cost as little as they can.
//
// System calls are raw ones: the scheduler is not told, so a thread that waits here holds its processor. Whoever uses it runs nothing
// else beside it, and turns the garbage collector off.
package epoll

import (
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Events of a descriptor.
const (
	Readable = unix.EPOLLIN
	Writable = unix.EPOLLOUT
	Gone     = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR // the other side sends no more; there may be bytes left to read
)

// Again is the error of a call that would have to wait.
const Again = unix.EAGAIN

// Claim makes the calling goroutine the only one that matters in this process: locked to its thread, no garbage collection. It raises
// the limit of descriptors as far as it goes.
func Claim() error {
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	return RaiseDescriptorLimit()
}

// RaiseDescriptorLimit raises the soft limit of this process and its children to the hard one.
func RaiseDescriptorLimit() error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("descriptor limit: %w", err)
	}
	l.Cur = l.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("descriptor limit: %w", err)
	}
	return nil
}

// Poll is one epoll descriptor. It lives as long as the process.
type Poll struct {
	fd     int
	events [1024]unix.EpollEvent
}

// New makes a Poll.
func New() (*Poll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return &Poll{fd: fd}, nil
}

// Add watches a descriptor for good: readable and writable, each edge once. token comes back with its events.
func (p *Poll) Add(fd int, token int32) error {
	return p.add(fd, token, unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLRDHUP|1<<31) // EPOLLET, which x/sys has as a negative number
}

// AddListener watches a listening socket, level-triggered.
func (p *Poll) AddListener(fd int, token int32) error { return p.add(fd, token, unix.EPOLLIN) }

func (p *Poll) add(fd int, token int32, events uint32) error {
	ev := unix.EpollEvent{Events: events, Fd: token}
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// Wait returns what happened; nothing when timeout (in ms, -1 for none) is over or a signal came. The slice is good until the next call.
// The token of an event is its Fd.
func (p *Poll) Wait(timeout int) ([]unix.EpollEvent, error) {
	n, _, e := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)),
		uintptr(timeout), 0, 0)
	switch e {
	case 0:
		return p.events[:n], nil
	case unix.EINTR:
		return nil, nil
	}
	return nil, fmt.Errorf("epoll: %w", e)
}

// Recv reads what is there. 0 bytes and no error are the end.
func Recv(fd int, b []byte) (int, error) { return recv(fd, b, len(b), unix.MSG_DONTWAIT) }

// Discard drops at most n bytes that are there, without copying them: b is only an address that the kernel takes, and is not written to.
func Discard(fd int, b []byte, n int) (int, error) {
	return recv(fd, b, n, unix.MSG_DONTWAIT|unix.MSG_TRUNC)
}

func recv(fd int, b []byte, most int, flags uintptr) (int, error) {
	for {
		n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(most), flags, 0, 0)
		switch e {
		case 0:
			return int(n), nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, Again
		default:
			return 0, e
		}
	}
}

// Send writes as much of b as there is room for; Again when there is none.
func Send(fd int, b []byte) (int, error) {
	for {
		n, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch e {
		case 0:
			return int(n), nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, Again
		default:
			return 0, e
		}
	}
}

// Listen makes a listening socket on a port of 127.0.0.1.
func Listen(port uint16) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0, fmt.Errorf("listen: %w", err)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, fmt.Errorf("listen on port %d: %w", port, err)
	}
	if err := unix.Listen(fd, 4096); err != nil {
		return 0, fmt.Errorf("listen on port %d: %w", port, err)
	}
	return fd, nil
}

// Accept takes one connection; Again when none waits.
func Accept(listener int) (int, error) {
	fd, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		return 0, err
	}
	return fd, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}

// Connect connects, waits for that, and returns a non-blocking socket.
func Connect(addr netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("connect to %v: %w", addr, err)
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}); err != nil {
		_ = unix.Close(fd)
		return 0, fmt.Errorf("connect to %v: %w", addr, err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return 0, fmt.Errorf("connect to %v: %w", addr, err)
	}
	return fd, unix.SetNonblock(fd, true)
}

// Close closes a descriptor.
func Close(fd int) { _ = unix.Close(fd) }
