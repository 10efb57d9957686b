package proxy

import "time"

// readyToWait is for before a wait for anything but the source: what was looked at goes on, and the connection leaves its loop, where others
// would wait as well.
func (h *half) readyToWait() error {
	if err := h.flush(); err != nil || h.leave == nil {
		return err
	}
	return h.leave()
}

// wake takes a buffer, with what was left when the direction parked.
func (h *half) wake() {
	if h.buf != nil {
		return
	}
	h.buf = buffers.Get().(*[bufferSize]byte)
	h.r, h.sent = 0, 0
	h.w = copy(h.buf[:], h.kept)
	h.kept = nil
}

// park flushes and gives the buffer back. What is left of an unfinished frame waits in memory of its size, and not for ever.
func (h *half) park() error {
	if err := h.flush(); err != nil {
		return err
	}
	if h.buf != nil && h.r < h.w {
		h.kept = append([]byte(nil), h.buf[h.r:h.w]...)
	}
	h.release()
	waiting := h.kept != nil || h.large != nil
	if waiting != h.deadline || waiting && h.progress() {
		return h.setDeadline(waiting)
	}
	return nil
}

// setDeadline gives the frame that has begun its time, or takes back what an earlier one was given.
func (h *half) setDeadline(on bool) error {
	h.deadline, h.passed = on, false
	at := time.Time{}
	if on {
		at = time.Now().Add(h.limits.headerTimeout)
	}
	return h.src.SetReadDeadline(at)
}

// progress says whether the deadline has had its effect: its frame has passed, or is a large one, of which more has come.
func (h *half) progress() bool { return h.passed || h.large != nil }

// goOn is for a direction that goes on reading without parking. A deadline that its source has kept would end it.
func (h *half) goOn() error {
	if h.deadline && h.progress() {
		return h.setDeadline(false)
	}
	return nil
}

// release gives the buffer back to the pool.
func (h *half) release() {
	if h.buf != nil {
		buffers.Put(h.buf)
		h.buf = nil
	}
	h.r, h.w, h.sent = 0, 0, 0
}

// finish passes on what an ended source left: the bytes of an unfinished frame are nobody's to keep, unless it is an answer that was to
// be looked at, which may name a broker.
func (h *half) finish() error {
	if err := h.flush(); err != nil {
		return err
	}
	rest := h.large
	if h.buf != nil && h.large == nil {
		rest = h.buf[h.r:h.w]
	}
	if h.side == brokerSide && (h.act == holdWhole || h.act == walkForward) {
		rest = nil
	}
	if len(rest) > 0 {
		if err := h.write(rest); err != nil {
			return err
		}
	}
	h.close()
	return nil
}

// close gives back what the half holds.
func (h *half) close() {
	h.release()
	if h.large != nil {
		h.dropLarge()
	}
	h.letGo()
}
