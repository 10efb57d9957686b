package batch

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/ackproxy/ackproxy/internal/decompress"
	"github.com/ackproxy/ackproxy/policy"
)

// MaxSize is how many bytes the records of a batch may decompress to.
const MaxSize = 128 << 20

var bounded = decompress.New(MaxSize)

var errShort = errors.New("it ends too early")

// opened is a batch whose records are decompressed and found.
type opened struct {
	records []byte
	index   []entry // ascending
}

// entry says where a record's fields begin, after its length, and how many bytes they have.
type entry struct{ delta, at, size int32 }

const entrySize = 12

// open checks a batch, decompresses it and finds its records.
func open(raw []byte, h header) (*opened, error) {
	if sum, want := crc32.Checksum(raw[atCovered:], castagnoli), binary.BigEndian.Uint32(raw[atCRC:]); sum != want {
		return nil, fmt.Errorf("its checksum is %08x, and says %08x", sum, want)
	}
	records, err := bounded.Records(raw[headerSize:], h.attributes&compressionMask)
	if err != nil {
		return nil, err
	}
	if len(records) > math.MaxInt32 {
		return nil, decompress.ErrTooLarge
	}
	o := &opened{records: records}
	if err := o.find(h.last - h.first); err != nil {
		return nil, err
	}
	if says := int32(binary.BigEndian.Uint32(raw[atCount:])); int64(says) != int64(len(o.index)) {
		return nil, fmt.Errorf("it has %d records, and says %d", len(o.index), says)
	}
	return o, nil
}

// find fills in the index.
func (o *opened) find(lastDelta int64) error {
	f := fields{p: o.records}
	for f.at < len(o.records) {
		n := len(o.index)
		size := f.varint()
		if f.err != nil || size < 0 || size > int64(len(o.records)-f.at) {
			return fmt.Errorf("record %d: %w", n, errShort)
		}
		start := f.at
		f.skip(1)  // attributes, none of which is in use
		f.varint() // time
		delta := f.varint()
		if f.err != nil || int64(f.at-start) > size {
			return fmt.Errorf("record %d: %w", n, errShort)
		}
		if delta < 0 || delta > lastDelta || n > 0 && delta <= int64(o.index[n-1].delta) {
			return fmt.Errorf("record %d: offset difference %d is out of order", n, delta)
		}
		o.index = append(o.index, entry{int32(delta), int32(start), int32(size)})
		f.at = start + int(size)
	}
	o.index = slices.Clip(o.index)
	return nil
}

// size is how many bytes it takes beside the batch it was made of.
func (o *opened) size(raw []byte) int {
	n := entrySize * cap(o.index)
	if len(raw) > headerSize && len(o.records) > 0 && &o.records[0] != &raw[headerSize] {
		n += cap(o.records)
	}
	return n
}

// record reads the record of an offset. Its timestamp is the difference to the batch's. Key, value and headers point into the batch.
func (o *opened) record(delta int32) (r policy.Record, err error) {
	i, ok := slices.BinarySearchFunc(o.index, delta, func(e entry, d int32) int { return cmp.Compare(e.delta, d) })
	if !ok {
		return r, ErrNone
	}
	e := o.index[i]
	f := fields{p: o.records[e.at : e.at+e.size]}
	f.skip(1)
	r.Timestamp = f.varint()
	f.varint() // offset difference
	r.Key, r.Value = f.bytes(), f.bytes()
	n := f.varint()
	if n < 0 || n > int64(len(f.p)-f.at)/2 { // two bytes each, at least
		return r, errShort
	}
	if n > 0 {
		r.Headers = make([]policy.RecordHeader, n)
	}
	for i := range r.Headers {
		r.Headers[i].Key = string(f.bytes())
		r.Headers[i].Value = f.bytes()
	}
	if f.err != nil {
		return policy.Record{}, f.err
	}
	return r, nil
}

// fields reads the fields of records one after the other. The first error sticks, and everything after it reads as zero.
type fields struct {
	p   []byte
	at  int
	err error
}

func (f *fields) varint() int64 {
	if f.err != nil {
		return 0
	}
	v, n := binary.Varint(f.p[f.at:])
	if n <= 0 {
		f.err = errShort
		return 0
	}
	f.at += n
	return v
}

func (f *fields) skip(n int) {
	if f.err == nil && n > len(f.p)-f.at {
		f.err = errShort
	}
	if f.err == nil {
		f.at += n
	}
}

// bytes reads what may be null.
func (f *fields) bytes() []byte {
	n := f.varint()
	if n < 0 || f.err != nil {
		return nil
	}
	if n > int64(len(f.p)-f.at) {
		f.err = errShort
		return nil
	}
	start := f.at
	f.at += int(n)
	return f.p[start:f.at:f.at]
}
