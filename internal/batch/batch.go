// Package batch reads single records out of the record batches of a fetch answer (message format v2, KIP-98). It copies the batches that
// are worth keeping, and decompresses one when a record of it is asked for first. Of records that nobody asks for it makes nothing but an index.
//
// Nothing in a batch is believed: lengths are checked against the bytes that are there, and a decompressed batch has MaxSize bytes at most.
package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"sync"
	"weak"

	"github.com/ackproxy/ackproxy/policy"
)

// ErrNone says that a batch has no record at an offset: compaction removed it.
var ErrNone = errors.New("its batch has no record at this offset")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The layout of a batch: its fixed part, and where the fields are that are read.
const (
	prefixSize  = 12 // base offset and length; the length counts what follows
	headerSize  = 61
	atMagic     = 16
	atCRC       = 17
	atCovered   = 21 // the checksum covers everything from here on
	atLastDelta = 23
	atFirstTime = 27
	atMaxTime   = 35
	atCount     = 57
)

// Attributes of a batch.
const (
	compressionMask = 7
	appendTimeBit   = 1 << 3
	transactional   = 1 << 4
	controlBit      = 1 << 5
)

// header is what is read of a batch before its records are.
type header struct {
	first, last int64
	attributes  int16
}

// next cuts the first batch off p. A batch that is cut short ends p, as brokers may send one. Of another format than v2 ok is false.
func next(p []byte) (raw, rest []byte, h header, ok bool) {
	if len(p) < headerSize {
		return nil, nil, h, false
	}
	size := int64(int32(binary.BigEndian.Uint32(p[8:]))) + prefixSize
	if size <= atMagic || size > int64(len(p)) {
		return nil, nil, h, false
	}
	raw, rest = p[:size:size], p[size:]
	if raw[atMagic] != 2 || size < headerSize {
		return raw, rest, h, false
	}
	h.first = int64(binary.BigEndian.Uint64(raw))
	h.attributes = int16(binary.BigEndian.Uint16(raw[atCovered:]))
	delta := int64(int32(binary.BigEndian.Uint32(raw[atLastDelta:])))
	if h.first < 0 || delta < 0 || h.first > math.MaxInt64-delta {
		return raw, rest, h, false
	}
	h.last = h.first + delta
	return raw, rest, h, true
}

// Keep copies the batches of p of which wanted says that they are, and leaves out those that no record can be read from: of the formats
// before v2, control batches, and one that is cut short. They are appended to what empty returns, which is asked once for so many bytes.
func Keep(p []byte, wanted func(first, last int64) bool, empty func(size int) []byte) []byte {
	size := 0
	each(p, wanted, func(raw []byte) { size += len(raw) })
	if size == 0 {
		return nil
	}
	kept := empty(size)
	each(p, wanted, func(raw []byte) { kept = append(kept, raw...) })
	return kept
}

// each calls do with the batches that Keep keeps.
func each(p []byte, wanted func(first, last int64) bool, do func(raw []byte)) {
	for len(p) > 0 {
		raw, rest, h, ok := next(p)
		if ok && h.attributes&controlBit == 0 && wanted(h.first, h.last) {
			do(raw)
		}
		p = rest
	}
}

// Set is a run of batches. Many goroutines may use it at once.
type Set struct{ batches []*lazy }

// lazy is one batch. Its records are read once they are asked for.
type lazy struct {
	header
	raw []byte

	mu    sync.Mutex
	open  *opened              // nil until a record was asked for, and where that is not worth its memory
	spare weak.Pointer[opened] // then; the next record is likely to be asked for before the garbage is collected
	err   error                // why it cannot be read; it never will
}

// Open returns the batches of p, which must not be changed any more. Those that do not ascend are left out, and so are those that Keep leaves out.
func Open(p []byte) *Set {
	s := new(Set)
	for len(p) > 0 {
		raw, rest, h, ok := next(p)
		if n := len(s.batches); ok && h.attributes&controlBit == 0 && (n == 0 || s.batches[n-1].last < h.first) {
			s.batches = append(s.batches, &lazy{header: h, raw: raw})
		}
		p = rest
	}
	return s
}

// Last is the last offset of the last batch; false where there is none.
func (s *Set) Last() (int64, bool) {
	if n := len(s.batches); n > 0 {
		return s.batches[n-1].last, true
	}
	return 0, false
}

// Record returns the record at an offset. The error is policy.ErrNotKept where no batch covers that, or wraps ErrNone, or says why the batch
// cannot be read. worth is asked whether a batch may be kept
// open, which takes so many bytes beyond those of the batch itself; the bytes of the record are part of them.
func (s *Set) Record(offset int64, worth func(bytes int) bool) (policy.Record, error) {
	i, _ := slices.BinarySearchFunc(s.batches, offset, func(b *lazy, at int64) int {
		if b.last < at {
			return -1
		}
		return 1
	})
	if i == len(s.batches) || s.batches[i].first > offset {
		return policy.Record{}, policy.ErrNotKept
	}
	b := s.batches[i]
	o, err := b.opened(worth)
	if err != nil {
		return policy.Record{}, fmt.Errorf("record batch at offset %d: %w", b.first, err)
	}
	r, err := o.record(int32(offset - b.first))
	if err != nil {
		return policy.Record{}, fmt.Errorf("record at offset %d: %w", offset, err)
	}
	b.complete(&r, offset)
	return r, nil
}

// opened returns the batch's records, and keeps them where that is worth it.
func (b *lazy) opened(worth func(int) bool) (*opened, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open != nil || b.err != nil {
		return b.open, b.err
	}
	if o := b.spare.Value(); o != nil {
		return o, nil
	}
	o, err := open(b.raw, b.header)
	if err != nil {
		b.err = err
		return nil, err
	}
	if worth(o.size(b.raw)) {
		b.open = o
	} else {
		b.spare = weak.Make(o)
	}
	return o, nil
}

// complete fills in what a record shares with its batch. r.Timestamp is a difference before.
func (b *lazy) complete(r *policy.Record, offset int64) {
	r.Offset, r.Transactional = offset, b.attributes&transactional != 0
	if r.AppendTime = b.attributes&appendTimeBit != 0; r.AppendTime {
		r.Timestamp = int64(binary.BigEndian.Uint64(b.raw[atMaxTime:]))
		return
	}
	r.Timestamp += int64(binary.BigEndian.Uint64(b.raw[atFirstTime:]))
}
