package proxy

import (
	"syscall"
	"testing"
	"time"
)

// A direction on a loop that always finds more to read never parks there, and is not slow.
func TestSaturatedOnALoopIsNotSlow(t *testing.T) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fds[1])
	src := &socket{fd: fds[0]}
	defer src.Close()
	const timeout = 200 * time.Millisecond
	h := &half{src: src, side: clientSide, d: passes{}, limits: &limits{maxFrame: 1 << 20, headerTimeout: timeout}, leave: func() error { return nil }}
	h.in.epoll = true
	frame := opaque(1, 1000)
	var rest []byte // of what was to be sent
	fill := func() {
		for {
			if len(rest) == 0 {
				rest = frame
			}
			n, err := syscall.Write(fds[1], rest)
			if err != nil {
				return
			}
			rest = rest[n:]
		}
	}
	h.send = func([]byte) error {
		fill()
		time.Sleep(timeout / readsATurn)
		return nil
	}
	fresh := false
	turn := func() (parked bool) {
		n, parked, err := h.pump(fds[0], &fresh)
		if err != nil || n != readMore {
			t.Fatal(n, err)
		}
		return parked
	}
	syscall.Write(fds[1], frame[:500])
	rest = frame[500:]
	if turn(); !h.deadline {
		t.Fatal("half a frame has no deadline")
	}
	fill()
	for range 3 {
		parked := turn()
		if src.late.Load() {
			t.Fatal("late")
		}
		if !parked || !h.again {
			t.Fatal("the socket holds less than a buffer")
		}
		h.again = false
	}
}
