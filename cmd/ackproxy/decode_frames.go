package main

import (
	"encoding/binary"
	"fmt"
	"iter"
)

// maxFrame is the largest frame that a capture or a file is believed to hold, the brokers' default.
const maxFrame = 100 << 20

// piece is one frame of a stream, or what is left where none can be found.
type piece struct {
	offset int64 // of its first byte in the stream
	bytes  []byte
	reason string // why this is no whole frame; empty for a frame
}

// splitter cuts a stream into frames. After bytes that cannot be a frame's size nothing more is found: nothing says where the next
// frame would begin.
type splitter struct {
	buf    []byte
	offset int64 // of buf[0]
	dead   bool
}

func (s *splitter) push(b []byte) {
	if s.dead {
		s.offset += int64(len(b))
		return
	}
	s.buf = append(s.buf, b...)
}

// complete yields the frames that are there.
func (s *splitter) complete() iter.Seq[piece] {
	return func(yield func(piece) bool) {
		for len(s.buf) >= 4 && !s.dead {
			p := piece{offset: s.offset}
			if p.reason = sizeProblem(s.buf); p.reason != "" {
				s.dead = true
				p.bytes = s.take(len(s.buf))
			} else if n := 4 + int(binary.BigEndian.Uint32(s.buf)); n <= len(s.buf) {
				p.bytes = s.take(n)
			} else {
				return
			}
			if !yield(p) {
				return
			}
		}
	}
}

// finish yields the frames that are there, and what is left over as a last piece.
func (s *splitter) finish() iter.Seq[piece] {
	return func(yield func(piece) bool) {
		for p := range s.complete() {
			if !yield(p) {
				return
			}
		}
		if len(s.buf) > 0 {
			yield(s.rest("the input ends"))
		}
	}
}

// gap says that bytes are missing. What was begun cannot be finished, and is returned; the next frame is taken to begin after the gap.
func (s *splitter) gap(missing int) (p piece, cut bool) {
	if cut = len(s.buf) > 0; cut {
		p = s.rest(fmt.Sprintf("the capture lacks %d bytes", missing))
	}
	s.offset += int64(missing)
	return p, cut
}

func (s *splitter) rest(why string) piece {
	p := piece{offset: s.offset, reason: why + " inside its size prefix"}
	if len(s.buf) >= 4 {
		p.reason = fmt.Sprintf("%s after %d of %d bytes", why, len(s.buf), 4+int(binary.BigEndian.Uint32(s.buf)))
	}
	p.bytes = s.take(len(s.buf))
	return p
}

func (s *splitter) take(n int) []byte {
	b := s.buf[:n:n]
	s.buf = s.buf[n:]
	s.offset += int64(n)
	return b
}

// sizeProblem says why four bytes are no size of a frame.
func sizeProblem(b []byte) string {
	size := int32(binary.BigEndian.Uint32(b))
	switch {
	case size < 0:
		return fmt.Sprintf("the size %d is negative%s", size, notKafka(b))
	case size > maxFrame:
		return fmt.Sprintf("the size %d is above 100 MiB%s", size, notKafka(b))
	}
	return ""
}

// notKafka names what else the first bytes of a stream may be.
func notKafka(b []byte) string {
	switch {
	case b[0] == 0x16 && b[1] == 3, b[0] == 0x15 && b[1] == 3:
		return ": these are bytes of TLS"
	case isAny(string(b[:4]), "GET ", "POST", "PUT ", "HEAD", "HTTP", "PRI ", "OPTI"):
		return ": these are bytes of HTTP"
	case isAny(string(b[:4]), "PROX", "\r\n\r\n"):
		return ": these are bytes of a PROXY protocol header"
	case string(b[:4]) == "SSH-":
		return ": these are bytes of SSH"
	}
	return ""
}

func isAny(s string, list ...string) bool {
	for _, l := range list {
		if s == l {
			return true
		}
	}
	return false
}
