package spool

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"strings"
)

const (
	entryHead   = frameHead + timeSize
	latest      = 1 << 43 // milliseconds since 1970, in the year 2248: no entry is younger
	zeroFilled  = 16      // so many zero bytes at the end of a file are no accident: the machine stopped before what should be there was written
	searchBound = 32      // times as many bytes as a segment has are read in search of entries in it
)

// gap is a stretch of a segment that cannot be read.
type gap struct{ from, to int64 }

// scanned is what is in a segment.
type scanned struct {
	size int64 // where its last entry ends; 0 where there is not even a head
	gaps []gap // before that
	tail gap   // what follows; empty where nothing does
	torn bool  // what follows is what a write leaves that was interrupted, and no more
}

// unreadable are the stretches that are damaged.
func (s *scanned) unreadable() []gap {
	if s.tail.from < s.tail.to && !s.torn {
		return append(s.gaps[:len(s.gaps):len(s.gaps)], s.tail)
	}
	return s.gaps
}

// scan reads all of a segment, and tells each about every entry and where it begins. last says that it is its queue's last: no other was written to
// when the process ended. known is a place where an entry begins or ends, whatever is before it; 0 if no such place is known.
func scan(path string, last bool, known int64, each func(e Entry, at int64)) (found scanned, err error) {
	file, err := os.Open(path)
	if err != nil {
		return found, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return found, err
	}
	size := info.Size()
	s := &scanner{r: file, size: size, known: known, searches: searchBound * size, checks: searchBound * size}
	at := int64(len(magic))
	if !s.head() {
		if found.torn = s.torn(0); found.torn || size <= at {
			found.tail = gap{0, size}
			return found, nil
		}
		found.gaps = []gap{{0, at}}
	}
	for {
		if at, err = s.run(at, each); err != nil {
			return found, err
		}
		if found.size = at; at == size {
			return found, nil
		}
		to, others := s.resync(at)
		if to == 0 {
			found.tail, found.torn = gap{at, size}, last && !others && s.torn(at)
			return found, nil
		}
		found.gaps = append(found.gaps, gap{at, to})
		at = to
	}
}

// scanner looks for entries in a segment.
type scanner struct {
	r     io.ReaderAt
	size  int64
	known int64

	searches, checks int64 // bytes that may still be read in search of entries, and to see whether what looks like one is one
}

// head says whether the segment begins as it should.
func (s *scanner) head() bool {
	b := make([]byte, len(magic))
	_, err := s.r.ReadAt(b, 0)
	return err == nil && string(b) == magic
}

// run reads entries as long as they are good, and says where they end. The error is the disk's.
func (s *scanner) run(at int64, each func(e Entry, at int64)) (int64, error) {
	f := readFrames(s.r, at, s.size)
	for {
		at := f.at
		e, err := f.next()
		switch {
		case err == nil:
			each(e, at)
		case err == io.EOF, err == errTorn, err == errDamaged:
			return at, nil
		default:
			return at, err
		}
	}
}

// resync says where entries go on behind a place where none can be read; 0 where they do not. others says that there are more all the same, or that
// all behind the place is an entry with a wrong length.
//
// If the damaged entry's length is wrong, it ends where it matches its checksum; if its data is, where it says. Nothing else is taken for an entry, for
// who makes the data of one can make it look like entries.
func (s *scanner) resync(at int64) (to int64, others bool) {
	if at < s.known && s.known < s.size {
		return s.known, true
	}
	if to, others = s.search(at); to > 0 {
		return to, true
	}
	next := at + frameHead + s.length(at)
	if _, good := s.entry(next); good {
		return next, true
	}
	return 0, others
}

// search looks for the entry behind one whose length is wrong. others says that another one was seen, if not right behind it, or that it is the last.
func (s *scanner) search(at int64) (to int64, others bool) {
	head := make([]byte, frameHead)
	if _, err := s.r.ReadAt(head, at); err != nil {
		return 0, false
	}
	want, sum := binary.LittleEndian.Uint32(head[4:]), uint32(0)
	at += frameHead
	r := bufio.NewReaderSize(io.NewSectionReader(s.r, at, s.size-at), readBuffer)
	for n := 0; s.searches > 0; n++ {
		others = others || s.checks <= 0 // as far as anybody knows
		b, err := r.Peek(entryHead)
		here := at + int64(n)
		if len(b) == entryHead && (sum == want || !others) && s.plausible(b, here) {
			if _, good := s.entry(here); good && sum == want && n >= timeSize {
				return here, true
			} else if good {
				others = true
			}
		}
		if len(b) == 0 {
			return 0, others || err == io.EOF && sum == want && n >= timeSize
		}
		sum = crc32.Update(sum, castagnoli, b[:1])
		r.Discard(1)
		s.searches--
	}
	return 0, true // as far as anybody knows
}

// entry says where an entry ends, and whether it is one.
func (s *scanner) entry(at int64) (end int64, good bool) {
	var b [entryHead]byte
	if _, err := s.r.ReadAt(b[:], at); err != nil || !s.plausible(b[:], at) {
		return 0, false
	}
	n := int64(binary.LittleEndian.Uint32(b[:]))
	sum := crc32.New(castagnoli)
	read, err := io.Copy(sum, io.NewSectionReader(s.r, at+frameHead, n))
	s.checks -= n
	return at + frameHead + n, err == nil && read == n && sum.Sum32() == binary.LittleEndian.Uint32(b[4:])
}

// plausible says whether an entry may begin with some bytes.
func (s *scanner) plausible(b []byte, at int64) bool {
	n := int64(binary.LittleEndian.Uint32(b))
	return n >= timeSize && n <= s.size-at-frameHead && binary.LittleEndian.Uint64(b[frameHead:]) < latest
}

// length is what an entry says of itself. What a cut has left of it counts.
func (s *scanner) length(at int64) int64 {
	var b [4]byte
	s.r.ReadAt(b[:], at)
	return int64(binary.LittleEndian.Uint32(b[:]))
}

// torn says whether all from a place on is what an interrupted write leaves: the beginning of one entry, and zero bytes where the file had become
// longer and its data was not written yet. An entry that has all its bytes is damaged.
func (s *scanner) torn(at int64) bool {
	written, err := s.written(at)
	if err != nil {
		return false
	}
	end := at + frameHead + s.length(at)
	switch {
	case at == 0:
		b := make([]byte, min(written, int64(len(magic))+1))
		s.r.ReadAt(b, 0)
		return strings.HasPrefix(magic, string(b))
	case end < written, s.length(at) < timeSize && written > at+4:
		return false
	}
	return end > s.size || s.size-written >= zeroFilled
}

// written says where the last byte from a place on ends that is not zero.
func (s *scanner) written(at int64) (end int64, err error) {
	b := make([]byte, readBuffer)
	end = at
	for {
		n, err := s.r.ReadAt(b, at)
		if last := bytes.TrimRight(b[:n], "\x00"); len(last) > 0 {
			end = at + int64(len(last))
		}
		at += int64(n)
		if err == io.EOF {
			return end, nil
		}
		if err != nil {
			return end, err
		}
	}
}
