package proxy

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"sync"
	"weak"
)

// startLarge moves the frame at r into memory of its own, which grows as its bytes arrive.
func (h *half) startLarge() error {
	if err := h.flush(); err != nil {
		return err
	}
	to := spareFor(h.frame)
	if to == nil || h.hold(cap(to)) != nil {
		if err := h.hold(firstLarge); err != nil {
			return err
		}
		to = make([]byte, 0, firstLarge)
	}
	h.large = append(to, h.buf[h.r:h.w]...)
	h.r, h.w, h.sent = 0, 0, 0
	return nil
}

// spares are buffers of frames that were held whole, by the logarithm of their size: a steady stream of such frames allocates next to nothing. Nobody
// counts them, so large ones are held weakly, and go with the next garbage. Even larger ones are rare.
var spares [maxSpare + 1]sync.Pool // of *[]byte, and from weakSpare on of *weak.Pointer[[]byte]

const (
	firstLarge = 2*bufferSize - 1 // the most that a spare of its class has, so that it serves the next frame
	weakSpare  = 19               // 512 KiB to 1 MiB
	maxSpare   = 22               // 4 to 8 MiB
)

// spareFor is an empty buffer of about so many bytes, nil where there is none.
func spareFor(size int) []byte {
	class := bits.Len(uint(size)) - 1
	if class > maxSpare {
		return nil
	}
	switch spare := spares[class].Get().(type) {
	case *[]byte:
		return (*spare)[:0]
	case *weak.Pointer[[]byte]:
		if b := spare.Value(); b != nil {
			return (*b)[:0]
		}
	}
	return nil
}

func keepSpare(b []byte) {
	switch class := bits.Len(uint(cap(b))) - 1; {
	case class < weakSpare:
		spares[class].Put(&b)
	case class <= maxSpare:
		spare := weak.Make(&b)
		spares[class].Put(&spare)
	}
}

func (h *half) growLarge() error {
	size := min(4*cap(h.large), h.frame)
	if err := h.hold(size); err != nil {
		return err
	}
	h.large = append(make([]byte, 0, size), h.large...) // what it was is no spare: the next frame like this begins with a larger one
	return nil
}

func (h *half) sendLarge() error {
	instead, err := h.d.whole(h.large)
	if err != nil {
		return err
	}
	if instead == nil {
		instead = h.large
	}
	err = h.write(instead)
	h.dropLarge()
	h.frameDone()
	return err
}

func (h *half) dropLarge() {
	keepSpare(h.large)
	h.large = nil
	h.letGo()
}

// hold takes room for size bytes of a frame, reserve all that it will need, for a frame that may as well stream. letGo gives it back.
func (h *half) hold(size int) error {
	if size <= h.held {
		return nil
	}
	err := h.limits.take(size - h.held)
	if err == nil {
		h.held = size
	}
	return err
}

func (h *half) reserve(frame int) bool {
	if frame <= bufferSize {
		return true
	}
	ok := h.limits.try(frame)
	if ok {
		h.held = frame
	}
	return ok
}

func (h *half) letGo() {
	h.limits.give(h.held)
	h.held = 0
}

// more fills the buffer with at least one byte by a blocking read. For walks that stream, outside of the parked reading.
func (h *half) more() error {
	if err := h.flush(); err != nil {
		return err
	}
	p, err := h.room()
	if err != nil {
		return err
	}
	n, err := h.src.Read(p)
	h.got(n)
	if n > 0 {
		return nil
	}
	return h.readError(err)
}

// jump passes n bytes on without a look: what is buffered, then the rest.
func (h *half) jump(n int) error {
	buffered := min(n, h.w-h.r)
	h.r += buffered
	if n -= buffered; n == 0 {
		return nil
	}
	if n >= relayMin {
		return h.relay(n)
	}
	for n > 0 {
		if err := h.more(); err != nil {
			return err
		}
		k := min(n, h.w-h.r)
		h.r, n = h.r+k, n-k
	}
	return nil
}

// relayed is a buffer that large frames go through. It is as large as what one read of a socket brings at best, and fits a core's cache.
type relayed [256 << 10]byte

var relays = sync.Pool{New: func() any { return new(relayed) }}

// relayConn is relay with blocking reads.
func (h *half) relayConn(n int) error {
	b := relays.Get().(*relayed)
	defer relays.Put(b)
	for n > 0 {
		k, err := h.src.Read(b[:min(n, len(b))])
		if k > 0 {
			if err := h.write(b[:k]); err != nil {
				return err
			}
			n -= k
		}
		if err != nil && n > 0 {
			return h.readError(err)
		}
	}
	return nil
}

func (h *half) readError(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read from %s: %w", h.side, err)
}

// other moves bytes by the way that step asked for, outside of the parked reading.
func (h *half) other(n next) (err error) {
	if err := h.readyToWait(); err != nil {
		return err
	}
	if h.deadline { // it was for the frame's beginning
		if err := h.setDeadline(false); err != nil {
			return err
		}
	}
	if n == streamRest {
		frame := h.frame
		if err = h.d.stream(h, frame); err == nil {
			h.frameDone()
		}
		return err
	}
	if err = h.relay(h.skip); err == nil {
		h.skip = 0
		h.frameDone()
	}
	return err
}

// scan returns a scanner over the frame at r, which streams: it passes bytes on as it goes. rest is how many bytes of the frame lie ahead.
func (h *half) scan(frame int) (s *scanner, rest func() int) {
	ahead := frame // bytes of the frame from h.r on
	s = &scanner{}
	window := func() {
		s.p, s.at = h.buf[h.r:min(h.w, h.r+ahead)], 0
		s.left = ahead - len(s.p)
	}
	commit := func() { h.r, ahead = h.r+s.at, ahead-s.at }
	s.fill = func(n int) error {
		commit()
		defer window()
		for h.w-h.r < n {
			if err := h.more(); err != nil {
				return err
			}
		}
		return nil
	}
	s.pass = func(n int) error {
		commit()
		defer window()
		ahead -= n
		return h.jump(n)
	}
	window()
	return s, func() int { return ahead - s.at }
}
