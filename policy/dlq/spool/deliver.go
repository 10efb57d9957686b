package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// position is a place in a queue: the beginning of an entry, or the end of a segment.
type position struct {
	number uint64 // of the segment; 0 is before all
	at     int64  // bytes
}

// in is the place in a segment, 0 where it is in another.
func (p position) in(number uint64) int64 {
	if number == p.number {
		return p.at
	}
	return 0
}

// behind says whether the position is behind the entry at a place.
func (p position) behind(number uint64, at int64) bool {
	return number < p.number || number == p.number && at < p.at
}

const (
	positionFile = "position"
	positionSize = 20
	damaged      = ".damaged"
)

// Next returns the oldest entries that are not delivered, in order: one at least where there is any, and no more than maxBytes of data where
// that is not more already. They are returned again until Done.
func (q *Queue) Next(maxBytes int) ([]Entry, error) {
	q.mu.Lock()
	at, segments := q.read, append([]segment(nil), q.segments...)
	q.mu.Unlock()
	var all []Entry
	for _, s := range segments {
		if s.number < at.number || s.size <= int64(len(magic)) {
			continue
		}
		from := int64(0)
		if s.number == at.number {
			from = at.at
		}
		before := len(all)
		var whole bool
		var err error
		if all, whole, err = readSegment(segmentPath(q.dir, s.number), &s, from, maxBytes, all); err != nil && len(all) == 0 {
			return nil, fmt.Errorf("spool: %w", err)
		}
		for _, e := range all[before:] {
			maxBytes -= len(e.Data)
		}
		if !whole {
			break
		}
	}
	if len(all) > 0 {
		q.mu.Lock()
		q.oldest = all[0].Time
		q.mu.Unlock()
	}
	return all, nil
}

// readSegment appends the entries of a segment from a place on to those before, up to maxBytes of data; one at least where there would be none. It
// says whether these are all.
func readSegment(path string, s *segment, from int64, maxBytes int, before []Entry) (all []Entry, whole bool, err error) {
	all, from = before, s.skip(from)
	if from >= s.size {
		return all, true, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return all, false, err
	}
	defer file.Close()
	for from < s.size {
		f := readFrames(file, from, s.until(from))
		for {
			e, err := f.next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return all, false, fmt.Errorf("%s, at byte %d: %w; when ackproxy starts again it goes on behind that", path, f.at, err)
			}
			if maxBytes -= len(e.Data); maxBytes < 0 && len(all) > 0 {
				return all, false, nil
			}
			all = append(all, e)
		}
		from = s.skip(f.at)
	}
	return all, true, nil
}

// Done says that these entries, the first that Next returned, are delivered.
func (q *Queue) Done(entries []Entry) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range entries {
		q.step(int64(frameHead + timeSize + len(e.Data)))
	}
	q.waiting -= len(entries)
	err := q.mark()
	return errors.Join(err, q.remove())
}

// step moves the position behind an entry.
func (q *Queue) step(length int64) {
	for i := range q.segments {
		s := &q.segments[i]
		if s.number > q.read.number {
			q.read = position{s.number, int64(len(magic))}
		}
		if s.number == q.read.number && q.read.at < s.size {
			q.read.at = s.skip(q.read.at) + length
			return
		}
	}
}

// remove removes segments that are delivered; also the last one, unless something is being written.
func (q *Queue) remove() error {
	var errs []error
	for len(q.segments) > 0 {
		s := q.segments[0]
		if !q.delivered(s) {
			break
		}
		if len(q.segments) == 1 {
			if q.busy { // it may be what is written to
				break
			}
			if q.file != nil {
				errs = append(errs, q.file.Close())
				q.file = nil
			}
		}
		path := segmentPath(q.dir, s.number)
		if s.damaged {
			errs = append(errs, keep(path))
		} else {
			errs = append(errs, os.Remove(path))
		}
		q.store.free(s.size - int64(len(magic)))
		q.segments = q.segments[1:]
	}
	return errors.Join(errs...)
}

// keep renames a damaged segment, for somebody to look at, to a name that no earlier one has.
func keep(path string) error {
	base := strings.TrimSuffix(path, extension)
	name := base + damaged
	for i := 2; ; i++ {
		if _, err := os.Lstat(name); err != nil {
			return os.Rename(path, name)
		}
		name = fmt.Sprintf("%s-%d%s", base, i, damaged)
	}
}

func (q *Queue) delivered(s segment) bool {
	return s.size <= int64(len(magic)) || s.number < q.read.number || s.number == q.read.number && q.read.at >= s.size
}

// mark writes the position.
func (q *Queue) mark() error {
	b := binary.LittleEndian.AppendUint64(nil, q.read.number)
	b = binary.LittleEndian.AppendUint64(b, uint64(q.read.at))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	if _, err := q.marks.WriteAt(b, 0); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	return nil
}

// readPosition reads what mark wrote; the zero position where there is nothing to be trusted.
func readPosition(dir string) position {
	b, err := os.ReadFile(filepath.Join(dir, positionFile))
	if err != nil || len(b) != positionSize || crc32.Checksum(b[:16], castagnoli) != binary.LittleEndian.Uint32(b[16:]) {
		return position{}
	}
	return position{binary.LittleEndian.Uint64(b), int64(binary.LittleEndian.Uint64(b[8:]))}
}
