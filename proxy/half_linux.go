package proxy

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"unsafe"
)

// run forwards until the end of the source; nil after a clean one.
func (h *half) run() error {
	defer h.close()
	if src, ok := h.src.(*net.TCPConn); ok {
		return h.runTCP(src)
	}
	return h.runConn()
}

// runTCP waits for readability instead of in a read, so that a parked direction needs no buffer. One RawConn.Read call lasts as long
// as nothing but small frames comes: its callback reads, looks and forwards, and returns false to park. The poller keeps an edge
// that arrives meanwhile, so nothing is missed. A new call forgets edges, hence the read until EAGAIN (fresh).
func (h *half) runTCP(src *net.TCPConn) error {
	raw, err := src.SyscallConn()
	if err != nil {
		return fmt.Errorf("%s: %w", h.side, err)
	}
	for {
		var n next
		var failed error
		fresh := true
		err := raw.Read(func(fd uintptr) bool {
			var parked bool
			n, parked, failed = h.pump(int(fd), &fresh)
			return !parked
		})
		switch {
		case failed != nil:
			return failed
		case errors.Is(err, os.ErrDeadlineExceeded) && h.deadline:
			return h.tooSlow()
		case err != nil:
			return fmt.Errorf("read from %s: %w", h.side, err)
		case n == endOfInput:
			return h.finish()
		}
		if err := h.other(n); err != nil {
			return err
		}
		if err := h.drain(); err != nil {
			return err
		}
	}
}

// pump reads and forwards until the socket is empty (parked), until bytes have to move in another way, or until the connection has left
// its loop: then fd is closed.
func (h *half) pump(fd int, fresh *bool) (n next, parked bool, err error) {
	h.wake()
	onLoop := h.leave != nil
	for reads := 1; ; reads++ {
		p, err := h.room()
		if err != nil {
			return readMore, false, err
		}
		h.calls++
		k, left, errno := h.in.recv(fd, p)
		switch {
		case errno == syscall.EAGAIN:
			*fresh = false
			err := h.park()
			return readMore, err == nil, err
		case errno == syscall.EINTR:
			continue
		case errno != 0:
			return readMore, false, fmt.Errorf("read from %s: %w", h.side, os.NewSyscallError("recvmsg", errno))
		case k == 0:
			return endOfInput, false, nil
		}
		h.got(k)
		if n, err = h.look(); err != nil || n != readMore {
			return n, false, err
		}
		if err := h.flush(); err != nil || onLoop && h.leave == nil {
			return readMore, false, err
		}
		if !left && !*fresh {
			err := h.park()
			return readMore, err == nil, err
		}
		if err := h.goOn(); err != nil {
			return readMore, false, err
		}
		if onLoop && left && reads >= readsATurn {
			h.again = true
			return readMore, true, nil
		}
	}
}

// relay moves n bytes of a frame from source to destination. While none come it holds no buffer.
func (h *half) relay(n int) error {
	if err := h.flush(); err != nil {
		return err
	}
	src, ok := h.src.(*net.TCPConn)
	if !ok {
		return h.relayConn(n)
	}
	raw, err := src.SyscallConn()
	if err != nil {
		return fmt.Errorf("%s: %w", h.side, err)
	}
	var failed error
	fresh := true // as in runTCP
	err = raw.Read(func(fd uintptr) bool {
		var parked bool
		n, parked, failed = h.relaySome(int(fd), n, &fresh)
		return !parked
	})
	if failed == nil && err != nil {
		failed = fmt.Errorf("read from %s: %w", h.side, err)
	}
	return failed
}

// relaySome moves what the socket has, and returns what is left to move.
func (h *half) relaySome(fd, n int, fresh *bool) (rest int, parked bool, err error) {
	b := relays.Get().(*relayed)
	defer relays.Put(b)
	for n > 0 {
		h.calls++
		k, left, errno := h.in.recv(fd, b[:min(n, len(b))])
		switch {
		case errno == syscall.EAGAIN:
			*fresh = false
			return n, true, nil
		case errno == syscall.EINTR:
			continue
		case errno != 0:
			return n, false, fmt.Errorf("read from %s: %w", h.side, os.NewSyscallError("recvmsg", errno))
		case k == 0:
			return n, false, h.readError(nil)
		}
		if err := h.write(b[:k]); err != nil {
			return n, false, err
		}
		if n -= k; n > 0 && !left && !*fresh {
			return n, true, nil
		}
	}
	return 0, false, nil
}

// sender returns the function that writes to c: at once where the socket has room, else through the connection, which parks. The
// descriptor stays c's while the half runs, since conn closes sockets only after both halves have returned.
func sender(c net.Conn) (func([]byte) error, error) {
	through := func(p []byte) error { _, err := c.Write(p); return err }
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return through, nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	if err := raw.Control(func(f uintptr) { fd = int(f) }); err != nil {
		return nil, err
	}
	return func(p []byte) error {
		n, err := trySend(fd, p)
		if err != nil || n == len(p) {
			return err
		}
		return through(p[n:])
	}, nil
}

// trySend writes what the socket has room for, which may be nothing.
func trySend(fd int, p []byte) (int, error) {
	n, _, e := syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)),
		syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
	switch {
	case e == syscall.EAGAIN || e == syscall.EINTR:
		return 0, nil
	case e != 0:
		return 0, os.NewSyscallError("sendto", e)
	}
	return int(n), nil
}

const tcpInq = 36 // TCP_INQ, Linux 4.18; its control message has the same number

// inq reads from a socket and learns in the same call whether anything is left: bytes, or a FIN that came with the last ones. Where the
// kernel does not say, something may always be left. On a loop, epoll tells of a FIN, so that a short read says it all.
type inq struct {
	tried, on bool
	epoll     bool
	fin       bool // of epoll
	iov       syscall.Iovec
	msg       syscall.Msghdr
	control   [32]byte
}

func (q *inq) recv(fd int, p []byte) (n int, left bool, e syscall.Errno) {
	if q.epoll {
		r, _, e := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), syscall.MSG_DONTWAIT, 0, 0)
		return int(r), q.fin || int(r) == len(p), e
	}
	if !q.tried {
		q.tried = true
		q.on = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, tcpInq, 1) == nil
	}
	q.iov.Base = &p[0]
	q.iov.SetLen(len(p))
	q.msg = syscall.Msghdr{Iov: &q.iov, Iovlen: 1, Control: &q.control[0]}
	q.msg.SetControllen(len(q.control))
	r, _, e := syscall.RawSyscall(syscall.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&q.msg)), syscall.MSG_DONTWAIT)
	q.iov.Base = nil // p may be a frame of many MiB, and the next call hours away
	if e != 0 {
		return 0, false, e
	}
	left = true
	if at := syscall.CmsgLen(0); q.on && int(q.msg.Controllen) >= at+4 {
		left = *(*int32)(unsafe.Pointer(&q.control[at])) != 0
	}
	return int(r), left, 0
}

// wasReset says whether the peer of c has reset the connection, without reading from it.
func wasReset(c net.Conn) bool {
	const closed = 7 // TCP_CLOSE, the first byte of struct tcp_info
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	var state byte
	if raw.Control(func(fd uintptr) {
		info, _ := syscall.GetsockoptInet4Addr(int(fd), syscall.IPPROTO_TCP, syscall.TCP_INFO)
		state = info[0]
	}) != nil {
		return false
	}
	return state == closed
}
