package epoll

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// headLen is how much of each frame is looked at: size, and a request's key, version and correlation id.
const headLen = 12

// Inbox cuts what comes in on one connection into frames. The zero value is ready.
type Inbox struct {
	head [headLen]byte
	have int
	skip int // bytes of the current frame that are still to come
}

// Head is the first 12 bytes of a frame, the size prefix included.
type Head [headLen]byte

// Size is the whole frame's, with its prefix.
func (h *Head) Size() int { return int(binary.BigEndian.Uint32(h[:])) + 4 }

// ErrEnd is the other side's end of a connection.
var ErrEnd = errors.New("the other side closed")

// Drain reads until nothing is there. whole is called at a frame's last byte. buf is for reading into; the bytes of large frames behind
// their head are dropped without being copied. gone says that the other side sends no more, so that its end must be read too.
func (in *Inbox) Drain(fd int, buf []byte, gone bool, whole func(*Head) error) error {
	for {
		var n, asked int
		var err error
		large := in.skip > len(buf)
		if asked = len(buf); large {
			asked = in.skip - len(buf) // the rest is read, so that what follows the frame comes with it
			n, err = Discard(fd, buf, asked)
		} else {
			n, err = Recv(fd, buf)
		}
		if done, err := ended(n, err); done {
			return err
		}
		if large {
			in.skip -= n
		} else if err := in.push(buf[:n], whole); err != nil {
			return err
		}
		if n < asked && !gone {
			return nil // nothing is left: what comes later is a new edge
		}
	}
}

func ended(n int, err error) (bool, error) {
	switch {
	case errors.Is(err, Again):
		return true, nil
	case err != nil:
		return true, err
	case n == 0:
		return true, ErrEnd
	}
	return false, nil
}

func (in *Inbox) push(p []byte, whole func(*Head) error) error {
	for len(p) > 0 {
		if in.have < headLen {
			n := copy(in.head[in.have:], p)
			p, in.have = p[n:], in.have+n
			if in.have < headLen {
				return nil
			}
			if in.skip = (*Head)(&in.head).Size() - headLen; in.skip < 0 {
				return fmt.Errorf("a frame of %d bytes", in.skip+headLen)
			}
		}
		n := min(in.skip, len(p))
		p, in.skip = p[n:], in.skip-n
		if in.skip == 0 {
			in.have = 0
			if err := whole((*Head)(&in.head)); err != nil {
				return err
			}
		}
	}
	return nil
}
