package proxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
)

const (
	bufferSize = 64 << 10
	relayMin   = 256 << 10 // what is left of a frame and is more goes through a larger buffer
)

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// action is what happens to a frame, decided from its first bytes.
type action uint8

const (
	undecided   action = iota // more bytes are needed to decide
	passOn                    // forward as it comes, at any size
	holdWhole                 // needs the whole frame in memory
	walkForward               // needs its structure only: held when it fits the buffer, else walked while it streams
)

// next is what a direction does after it has looked at its buffer.
type next uint8

const (
	readMore   next = iota
	endOfInput      // the source sent FIN
	relayRest       // the rest of a large frame passes without a look
	streamRest      // the frame at the buffer's start is to be walked while it streams
)

// director decides about the frames of one direction. request.go and response.go are the two.
type director interface {
	// check looks at the size prefix, and at what else is there of the frame's first bytes.
	check(first []byte, size int32) error
	// begin is called once a frame with its header in p (all of it, or as much as has come), until it decides.
	begin(p []byte, frame int) (action, error)
	// whole returns what to send instead of frame, or nil to pass it on.
	whole(frame []byte) ([]byte, error)
	// stream walks a frame that does not fit the buffer, from its first byte.
	stream(h *half, frame int) error
	// written is told that the last bytes of n frames were written.
	written(n int)
	// headerSize is how many bytes begin wants at least, size prefix included.
	headerSize() int
}

// half is one direction of a connection. It owns neither socket; conn closes both after both halves have returned.
type half struct {
	src, dst net.Conn
	side     side // whose bytes src brings
	d        director
	send     func(p []byte) error // to dst
	limits   *limits

	buf      *[bufferSize]byte // nil while parked
	sent     int               // buf[sent:r] is looked at and not written yet
	r, w     int               // buf[r:w] is read and not looked at yet
	skip     int               // bytes of the current frame that still pass without a look
	act      action            // for the frame at r
	frame    int               // its length with prefix
	large    []byte            // a frame to be held whole that does not fit the buffer
	held     int               // bytes of limits that are the frame's
	kept     []byte            // what was left in the buffer when the direction parked
	complete int               // frames passed since the last flush
	deadline bool              // a read deadline is set, for the frame that was begun then
	passed   bool              // a frame has ended since
	over     bool
	calls    int // reads and writes of sockets, for tests
	in       inq
	leave    func() error // takes the connection off its loop; nil where it is on none
	slot     int32        // on its loop
	again    bool         // its turn on the loop has ended, with more to read
}

// side names the peer an error belongs to.
type side string

const (
	clientSide side = "client"
	brokerSide side = "broker"
)

// look takes steps; what passed before the one that failed still reaches its peer.
func (h *half) look() (next, error) {
	n, err := h.step()
	if err != nil {
		err = errors.Join(err, h.flush())
	}
	return n, err
}

// step looks at what is in the buffer, frame by frame, until bytes or another way of moving them are needed.
func (h *half) step() (next, error) {
	for {
		if h.skip > 0 {
			n := min(h.skip, h.w-h.r)
			h.r, h.skip = h.r+n, h.skip-n
			if h.skip >= relayMin {
				return relayRest, nil
			}
			if h.skip > 0 {
				return readMore, nil
			}
			h.frameDone()
		}
		if h.large != nil {
			if len(h.large) < h.frame {
				return readMore, nil
			}
			if err := h.sendLarge(); err != nil {
				return readMore, err
			}
			continue
		}
		if h.act == undecided {
			if ok, err := h.begin(); err != nil || !ok {
				return readMore, err
			}
		}
		switch {
		case h.act == passOn:
			h.skip = h.frame
		case h.frame <= h.w-h.r:
			if err := h.whole(); err != nil {
				return readMore, err
			}
		case h.frame <= bufferSize:
			return readMore, nil
		case h.act == walkForward:
			return streamRest, nil
		default:
			if err := h.startLarge(); err != nil {
				return readMore, err
			}
		}
	}
}

// begin decides about the frame at r; false means that more bytes are needed first.
func (h *half) begin() (bool, error) {
	p := h.buf[h.r:h.w]
	if len(p) < 4 {
		return false, nil
	}
	size := int32(binary.BigEndian.Uint32(p))
	if err := h.d.check(p, size); err != nil {
		return false, err
	}
	if len(p) < h.d.headerSize() {
		return false, nil
	}
	h.frame = int(size) + 4
	act, err := h.d.begin(p[:min(len(p), h.frame)], h.frame)
	if err != nil {
		return false, err
	}
	if act == undecided && len(p) >= min(h.frame, bufferSize) {
		return false, fmt.Errorf("%w: its header does not end within %d bytes", errBadFrame, len(p))
	}
	h.act = act
	return act != undecided, nil
}

// whole lets the director see the frame at r, which is complete.
func (h *half) whole() error {
	instead, err := h.d.whole(h.buf[h.r : h.r+h.frame])
	if err != nil {
		return err
	}
	if instead == nil {
		h.r += h.frame
		h.frameDone()
		return nil
	}
	if err := h.flush(); err != nil {
		return err
	}
	h.r += h.frame
	h.sent = h.r
	if err := h.write(instead); err != nil {
		return err
	}
	h.frameDone()
	return nil
}

func (h *half) frameDone() {
	h.act = undecided
	h.passed = true
	h.complete++
}

// room is where the next read goes. Looked-at bytes are written by then.
func (h *half) room() ([]byte, error) {
	if h.large != nil {
		if len(h.large) == cap(h.large) {
			if err := h.growLarge(); err != nil {
				return nil, err
			}
		}
		return h.large[len(h.large):min(cap(h.large), h.frame)], nil
	}
	if h.r > 0 {
		h.w = copy(h.buf[:], h.buf[h.r:h.w])
		h.r, h.sent = 0, 0
	}
	return h.buf[h.w:], nil
}

// got notes that n bytes were read into room.
func (h *half) got(n int) {
	if h.large != nil {
		h.large = h.large[:len(h.large)+n]
		return
	}
	h.w += n
}

// flush writes what was looked at, and lets the frames among it leave.
func (h *half) flush() error {
	if h.buf != nil && h.sent < h.r {
		p := h.buf[h.sent:h.r]
		h.sent = h.r
		if err := h.write(p); err != nil {
			return err
		}
	}
	if h.complete > 0 {
		h.d.written(h.complete)
		h.complete = 0
	}
	return nil
}

// write sends p to the destination, and marks an error with its side.
func (h *half) write(p []byte) error {
	h.calls++
	if err := h.send(p); err != nil {
		return fmt.Errorf("write to %s: %w", h.side.other(), err)
	}
	return nil
}

func (s side) other() side {
	if s == clientSide {
		return brokerSide
	}
	return clientSide
}
