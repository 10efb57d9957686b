package proxy

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// runConn forwards until the end of the source, with blocking reads: for TLS, pipes, and systems without half_linux.go. While nothing
// comes it holds a few hundred bytes instead of a buffer.
func (h *half) runConn() error {
	var first [512]byte
	for {
		p, err := first[:min(len(first), bufferSize-len(h.kept))], error(nil)
		if h.buf != nil || h.large != nil {
			if p, err = h.room(); err != nil {
				return err
			}
		}
		n, readErr := h.src.Read(p)
		if n > 0 {
			straight := h.buf != nil || h.large != nil
			h.wake()
			if !straight {
				copy(h.buf[h.w:], p[:n])
			}
			h.got(n)
			if err := h.drain(); err != nil {
				return err
			}
			if n == len(p) && h.large == nil { // there is likely more: keep the buffer
				err = h.goOn()
			} else {
				err = h.park()
			}
			if err != nil {
				return err
			}
		}
		if readErr != nil {
			return h.ended(readErr)
		}
	}
}

// drain looks at all that the buffer holds, in whatever way its frames ask for, and writes it.
func (h *half) drain() error {
	n, err := h.look()
	for err == nil && n != readMore {
		if err = h.other(n); err == nil {
			n, err = h.look()
		}
	}
	if err != nil {
		return err
	}
	return h.flush()
}

// ended deals with the end of the source: nil after a clean one.
func (h *half) ended(err error) error {
	if errors.Is(err, io.EOF) {
		h.wake()
		return h.finish()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && h.deadline {
		return h.tooSlow()
	}
	return fmt.Errorf("read from %s: %w", h.side, err)
}

func (h *half) tooSlow() error {
	return fmt.Errorf("read from %s: %w: the rest of a frame took longer than %v", h.side, errSlow, h.limits.headerTimeout)
}
