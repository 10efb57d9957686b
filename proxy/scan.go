package proxy

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/proxy/internal/delivered"
)

// errMore says that the bytes at hand end before the field does, although the frame goes on.
var errMore = errors.New("more bytes needed")

// scanner walks a frame forward, field by field, over the bytes at hand: all of a frame in memory, or what a half has buffered of one that
// streams, where fill fetches more and pass lets bytes go on unread. The first error sticks, and everything after it reads as zero.
type scanner struct {
	p    []byte
	at   int
	left int // bytes of the frame that p lacks
	fill func(n int) error
	pass func(n int) error
	err  error
}

// ahead is how many bytes of the frame are left.
func (s *scanner) ahead() int { return len(s.p) - s.at + s.left }

func (s *scanner) need(n int) bool {
	if s.err != nil {
		return false
	}
	if n <= len(s.p)-s.at {
		return true
	}
	switch {
	case n > s.ahead():
		s.err = fmt.Errorf("%w: %d bytes wanted, %d left in the frame", errBadFrame, n, s.ahead())
	case s.fill == nil:
		s.err = errMore
	default:
		s.err = s.fill(n)
	}
	return s.err == nil
}

func (s *scanner) take(n int) []byte {
	if !s.need(n) {
		return nil
	}
	s.at += n
	return s.p[s.at-n : s.at]
}

func (s *scanner) uint8() byte {
	if p := s.take(1); p != nil {
		return p[0]
	}
	return 0
}

func (s *scanner) int16() int16 {
	if p := s.take(2); p != nil {
		return int16(binary.BigEndian.Uint16(p))
	}
	return 0
}

func (s *scanner) int32() int32 {
	if p := s.take(4); p != nil {
		return int32(binary.BigEndian.Uint32(p))
	}
	return 0
}

func (s *scanner) uuid() (id codec.UUID) {
	copy(id[:], s.take(16))
	return id
}

func (s *scanner) uvarint() int {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		b := s.uint8()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if v > 1<<31-1 {
				break
			}
			return int(v)
		}
	}
	if s.err == nil {
		s.err = fmt.Errorf("%w: uvarint over 31 bits", errBadFrame)
	}
	return 0
}

// count reads the length of a compact array; null is 0. Each element takes a byte at least.
func (s *scanner) count() int {
	n := max(0, s.uvarint()-1)
	if s.err == nil && n > s.ahead() {
		s.err = fmt.Errorf("%w: %d elements, %d bytes left in the frame", errBadFrame, n, s.ahead())
	}
	if s.err != nil {
		return 0
	}
	return n
}

// text reads a compact string; null is nil.
func (s *scanner) text() []byte {
	n := s.uvarint() - 1
	if n > 32767 && s.err == nil {
		s.err = fmt.Errorf("%w: string of %d bytes", errBadFrame, n)
	}
	if n < 0 || s.err != nil {
		return nil
	}
	if n == 0 {
		return []byte{}
	}
	return s.take(n)
}

// skip lets n bytes go by unread.
func (s *scanner) skip(n int) {
	if s.err != nil {
		return
	}
	if n <= len(s.p)-s.at {
		s.at += n
		return
	}
	switch {
	case n > s.ahead():
		s.err = fmt.Errorf("%w: %d bytes wanted, %d left in the frame", errBadFrame, n, s.ahead())
	case s.pass == nil:
		s.err = errMore
	default:
		s.err = s.pass(n)
	}
}

// tags reads a section of tagged fields. known is called with each tag and its size, and says whether it read it: all of it, since
// readers differ on where the next field begins if not.
func (s *scanner) tags(known func(tag, size int) bool) {
	for range s.count0() {
		tag, size := s.uvarint(), s.uvarint()
		left := s.ahead()
		if known == nil || s.err != nil || !known(tag, size) {
			s.skip(size)
		}
		if s.err == nil && left-s.ahead() != size {
			s.err = fmt.Errorf("%w: tagged field %d takes %d bytes, and says %d", errBadFrame, tag, left-s.ahead(), size)
		}
		if s.err != nil {
			return
		}
	}
}

// count0 is a count that is written as it is.
func (s *scanner) count0() int {
	n := s.uvarint()
	if s.err == nil && n > s.ahead() {
		s.err = fmt.Errorf("%w: %d tagged fields, %d bytes left in the frame", errBadFrame, n, s.ahead())
	}
	if s.err != nil {
		return 0
	}
	return n
}

// each reads an array of structures that end with a tagged section.
func (s *scanner) each(element func()) { s.eachKnowing(nil, element) }

// eachKnowing is each for structures that have tagged fields which are known.
func (s *scanner) eachKnowing(known func(tag, size int) bool, element func()) {
	for range s.count() {
		if s.err != nil {
			return
		}
		element()
		s.tags(known)
	}
}

// answer is what a walk over a Produce, Fetch or ShareFetch answer finds, up to where its node endpoints start.
type answer struct {
	leaders  []leaderAt // only of frames in memory, where the position means something
	reply    policy.Reply
	collect  bool              // fill in reply
	delivers *delivered.Answer // filled in by ShareFetch; nil: nobody wants it
	ranges   int               // in delivers
}

// leaderAt is where a partition's current leader is written.
type leaderAt struct {
	at int
	id int32
}

func (a *answer) leader(s *scanner) {
	at := s.at
	id := s.int32()
	s.int32() // leader epoch
	if s.fill == nil && s.err == nil && id != -1 {
		a.leaders = append(a.leaders, leaderAt{at, id})
	}
	s.tags(nil)
}

// leaderTag reads the current leader where it is a tagged field with this number.
func (a *answer) leaderTag(s *scanner, number int) func(tag, size int) bool {
	return func(tag, _ int) bool {
		if tag == number {
			a.leader(s)
		}
		return tag == number
	}
}

// walk walks the body of an answer from its first field to its node endpoints: an array for ShareFetch, top-level tag 0 for the others.
func (a *answer) walk(s *scanner, key, version int16) error {
	switch key {
	case codec.KeyProduce:
		a.produce(s, version)
	case codec.KeyFetch:
		a.fetch(s)
	case codec.KeyShareFetch:
		a.shareFetch(s, version)
	}
	return s.err
}

// produce walks ProduceResponse v10 to v13.
func (a *answer) produce(s *scanner, version int16) {
	s.each(func() {
		if version >= 13 {
			s.uuid()
		} else {
			s.text()
		}
		s.eachKnowing(a.leaderTag(s, 0), func() {
			s.skip(4 + 2 + 8 + 8 + 8)              // index, error, base offset, log append time, log start offset
			s.each(func() { s.int32(); s.text() }) // record errors
			s.text()                               // error message
		})
	})
	s.int32() // throttle time
}

// fetch walks FetchResponse v16 to v18.
func (a *answer) fetch(s *scanner) {
	s.skip(4 + 2 + 4) // throttle time, error, session id
	s.each(func() {
		s.uuid()
		s.eachKnowing(a.leaderTag(s, 1), func() {
			s.skip(4 + 2 + 8 + 8 + 8)     // index, error, high watermark, last stable offset, log start offset
			s.each(func() { s.skip(16) }) // aborted transactions
			s.int32()                     // preferred read replica
			s.skip(max(0, s.uvarint()-1)) // records
		})
	})
}

// shareFetch walks ShareFetchResponse v0 to v2.
func (a *answer) shareFetch(s *scanner, version int16) {
	s.int32() // throttle time
	a.reply.ErrorCode = s.int16()
	a.reply.ErrorMessage = string(s.text())
	if version >= 1 {
		a.reply.LockTimeoutMs = s.int32()
	}
	s.each(func() {
		topic := s.uuid()
		s.each(func() {
			result := policy.PartitionResult{TopicID: topic, Partition: s.int32()}
			s.int16() // fetch error
			s.text()
			result.ErrorCode = s.int16()
			if message := s.text(); a.collect {
				result.ErrorMessage = string(message)
			}
			a.leader(s)
			records := s.view(max(0, s.uvarint()-1))
			a.acquired(s, delivered.Partition{Topic: topic, Index: result.Partition}, records)
			if a.collect && s.err == nil {
				a.reply.Partitions = append(a.reply.Partitions, result)
			}
		})
	})
}
