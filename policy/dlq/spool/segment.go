package spool

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	magic       = "ackspl01"
	frameHead   = 8 // length and checksum
	timeSize    = 8 // of an entry's time, milliseconds since 1970
	extension   = ".spool"
	nameDigits  = 16
	readBuffer  = 64 << 10
	writeBuffer = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// segment is one file of a queue.
type segment struct {
	number  uint64
	size    int64 // bytes up to the end of the last entry, the head included
	gaps    []gap // before that
	damaged bool  // there are gaps, or more follows that cannot be read
}

// skip is a place, or behind the gap that it is in.
func (s *segment) skip(at int64) int64 {
	at = max(at, int64(len(magic)))
	for _, g := range s.gaps {
		if g.from <= at && at < g.to {
			at = g.to
		}
	}
	return at
}

// until says where the entries end that begin at a place and have no gap between them.
func (s *segment) until(at int64) int64 {
	for _, g := range s.gaps {
		if g.from >= at {
			return g.from
		}
	}
	return s.size
}

func segmentPath(dir string, number uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%0*d%s", nameDigits, number, extension))
}

// segmentNumbers are those of the segments in a directory, ascending.
func segmentNumbers(dir string) ([]uint64, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, f := range files {
		digits, is := strings.CutSuffix(f.Name(), extension)
		if n, err := strconv.ParseUint(digits, 10, 64); is && err == nil && len(digits) == nameDigits {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// frame is an entry that is to be written: its head, length, checksum and time, and what writes the rest.
type frame struct {
	head [frameHead + timeSize]byte
	data io.WriterTo
	size int64 // bytes of both
}

// newFrame has data written once, for its length and checksum.
func newFrame(at time.Time, data io.WriterTo) (frame, error) {
	f := frame{data: data}
	binary.LittleEndian.PutUint64(f.head[frameHead:], uint64(at.UnixMilli()))
	sum := crc32.New(castagnoli)
	sum.Write(f.head[frameHead:])
	n, err := data.WriteTo(sum)
	if err == nil && n > math.MaxUint32-timeSize {
		err = fmt.Errorf("an entry of %d bytes", n)
	}
	binary.LittleEndian.PutUint32(f.head[:], uint32(timeSize+n))
	binary.LittleEndian.PutUint32(f.head[4:], sum.Sum32())
	f.size = int64(len(f.head)) + n
	return f, err
}

// writeTo writes the frame as a segment has it.
func (f *frame) writeTo(w io.Writer) error {
	if _, err := w.Write(f.head[:]); err != nil {
		return err
	}
	_, err := f.data.WriteTo(w)
	return err
}

// Bytes is an entry that is in memory.
type Bytes []byte

// WriteTo implements io.WriterTo.
func (b Bytes) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(b)
	return int64(n), err
}

// frames reads entries one after the other.
type frames struct {
	r    *bufio.Reader
	left int64 // bytes of the file behind what was read
	at   int64 // where the next frame begins
}

var (
	errTorn    = errors.New("a frame is cut off")                  // by a write that was interrupted
	errDamaged = errors.New("a frame does not match its checksum") // by that, too, or by a disk that fails
)

// readFrames begins at an entry of a segment that is read up to a size.
func readFrames(r io.ReaderAt, at, size int64) *frames {
	return &frames{r: bufio.NewReaderSize(io.NewSectionReader(r, at, size-at), readBuffer), left: size - at, at: at}
}

// next reads an entry. io.EOF is the end; errTorn and errDamaged say that the rest cannot be read.
func (f *frames) next() (Entry, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(f.r, head[:]); err == io.EOF {
		return Entry{}, io.EOF
	} else if err != nil {
		return Entry{}, torn(err)
	}
	n := int64(binary.LittleEndian.Uint32(head[:]))
	switch { // what is claimed must be there before memory is given to it
	case n > f.left-frameHead:
		return Entry{}, errTorn
	case n < timeSize:
		return Entry{}, errDamaged
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(f.r, body); err != nil {
		return Entry{}, torn(err)
	}
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return Entry{}, errDamaged
	}
	f.at, f.left = f.at+frameHead+n, f.left-frameHead-n
	return Entry{Time: time.UnixMilli(int64(binary.LittleEndian.Uint64(body))), Data: body[timeSize:]}, nil
}

// torn turns the end of a file in the middle of something into errTorn.
func torn(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errTorn
	}
	return err
}
