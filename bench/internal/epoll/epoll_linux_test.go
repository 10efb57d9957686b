package epoll

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

func pair(t *testing.T) (a, b int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Close(fds[0]); Close(fds[1]) })
	return fds[0], fds[1]
}

func frame(size int) []byte {
	f := bytes.Repeat([]byte{0xaa}, size)
	binary.BigEndian.PutUint32(f, uint32(size-4))
	return f
}

// TestTrainAndInbox: all ids come out in order, whatever the sizes of frames and of what the socket takes at once.
func TestTrainAndInbox(t *testing.T) {
	for _, size := range []int{12, 13, 65, 201, 4096, 70_001, 300_000} {
		a, b := pair(t)
		train := NewTrain(frame(size), 8)
		var in Inbox
		var got []int32
		whole := func(h *Head) error {
			if h.Size() != size {
				t.Fatalf("a frame of %d bytes, not %d", h.Size(), size)
			}
			got = append(got, int32(binary.BigEndian.Uint32(h[8:])))
			return nil
		}
		const frames = 700
		buf := make([]byte, 1000) // unix sockets do not discard, so that larger frames must fit: see below
		if size > len(buf) {
			buf = make([]byte, size)
		}
		var ids []int32
		for i := range int32(frames) {
			ids = append(ids, i*3)
		}
		for sent, off := 0, 0; len(got) < frames; {
			n, newOff, err := train.Send(a, ids[sent:], off)
			if sent, off = sent+n, newOff; err != nil && !errors.Is(err, Again) {
				t.Fatal(err)
			}
			if err := in.Drain(b, buf, false, whole); err != nil {
				t.Fatal(err)
			}
		}
		for i, id := range got {
			if id != int32(i)*3 {
				t.Fatalf("frames of %d bytes: answer %d has id %d", size, i, id)
			}
		}
	}
}

// TestDiscard: over TCP the bytes behind the head of a large frame are dropped, and the frame after it is whole.
func TestDiscard(t *testing.T) {
	a, b := tcpPair(t)
	var in Inbox
	var sizes []int
	whole := func(h *Head) error { sizes = append(sizes, h.Size()); return nil }
	all := bytes.Join([][]byte{frame(100_000), frame(20), frame(9000), frame(12)}, nil)
	buf := make([]byte, 500)
	for len(sizes) < 4 {
		if len(all) > 0 {
			n, err := Send(a, all[:min(len(all), 3000)])
			if err != nil && !errors.Is(err, Again) {
				t.Fatal(err)
			}
			all = all[n:]
		}
		if err := in.Drain(b, buf, false, whole); err != nil {
			t.Fatal(err)
		}
	}
	if sizes[0] != 100_000 || sizes[1] != 20 || sizes[2] != 9000 || sizes[3] != 12 {
		t.Errorf("frames of %v bytes", sizes)
	}
}

func TestEndAndBadFrames(t *testing.T) {
	a, b := pair(t)
	var in Inbox
	whole := func(*Head) error { return nil }
	if err := in.Drain(b, make([]byte, 64), true, whole); err != nil {
		t.Fatal(err)
	}
	if _, err := Send(a, frame(12)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Shutdown(a, unix.SHUT_WR); err != nil {
		t.Fatal(err)
	}
	if err := in.Drain(b, make([]byte, 64), true, whole); !errors.Is(err, ErrEnd) {
		t.Errorf("end: %v", err)
	}
	if err := in.push(make([]byte, 12), whole); err == nil {
		t.Error("a frame of 4 bytes is no error")
	}
}

func tcpPair(t *testing.T) (a, b int) {
	t.Helper()
	l, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer Close(l)
	if err := errors.Join(unix.Bind(l, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(l, 1)); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(l)
	if err != nil {
		t.Fatal(err)
	}
	if a, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.Connect(a, name); err != nil {
		t.Fatal(err)
	}
	if b, err = Accept(l); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Close(a); Close(b) })
	return a, b
}
