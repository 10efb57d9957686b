package batch

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"reflect"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/internal/decompress"
	"github.com/ackproxy/ackproxy/policy"
)

// codecs compress as clients do; by name, with the bits that say so.
var codecs = map[string]struct {
	attribute int16
	compress  func(p []byte) []byte
}{
	"none":   {0, func(p []byte) []byte { return p }},
	"gzip":   {1, gzipped},
	"snappy": {2, func(p []byte) []byte { return s2.EncodeSnappy(nil, p) }},
	"xerial": {2, xerialed},
	"lz4":    {3, lz4ed},
	"zstd":   {4, zstded},
}

func gzipped(p []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(p)
	w.Close()
	return b.Bytes()
}

func xerialed(p []byte) []byte {
	out := append([]byte("\x82SNAPPY\x00"), 0, 0, 0, 1, 0, 0, 0, 1)
	for len(p) > 0 {
		n := min(len(p), 100) // several blocks
		block := s2.EncodeSnappy(nil, p[:n])
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(block))), block...)
		p = p[n:]
	}
	return out
}

func lz4ed(p []byte) []byte {
	var b bytes.Buffer
	w := lz4.NewWriter(&b)
	w.Write(p)
	w.Close()
	return b.Bytes()
}

func zstded(p []byte) []byte {
	w, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	defer w.Close()
	return w.EncodeAll(p, nil)
}

// encode writes records the way a producer does. Their offsets must ascend from first on.
func encode(first int64, attributes int16, compress func([]byte) []byte, records ...policy.Record) []byte {
	const time = 1_700_000_000_000
	var raw []byte
	for _, r := range records {
		k := kmsg.Record{TimestampDelta64: r.Timestamp - time, OffsetDelta: int32(r.Offset - first), Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
		}
		body := k.AppendTo(nil)[1:] // of length 0, which has one byte
		raw = append(binary.AppendVarint(raw, int64(len(body))), body...)
	}
	last := int32(0)
	if n := len(records); n > 0 {
		last = int32(records[n-1].Offset - first)
	}
	b := kmsg.RecordBatch{
		FirstOffset: first, Magic: 2, Attributes: attributes, LastOffsetDelta: last, FirstTimestamp: time, MaxTimestamp: time + 99,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(records)), Records: compress(raw),
	}
	return sealed(b.AppendTo(nil))
}

// sealed makes length and checksum right.
func sealed(p []byte) []byte {
	binary.BigEndian.PutUint32(p[8:], uint32(len(p)-prefixSize))
	binary.BigEndian.PutUint32(p[atCRC:], crc32.Checksum(p[atCovered:], castagnoli))
	return p
}

// some are records with everything that a record may have, and a gap in their offsets.
func some(first int64) []policy.Record {
	const time = 1_700_000_000_000
	return []policy.Record{
		{Offset: first, Timestamp: time, Key: []byte("key"), Value: []byte(strings.Repeat("value", 100))},
		{Offset: first + 1, Timestamp: time - 5, Value: []byte{}, Headers: []policy.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a"}, {}}},
		{Offset: first + 4, Timestamp: time + 7, Key: []byte{}},
	}
}

func always(int) bool { return true }

func TestRecord(t *testing.T) {
	for name, c := range codecs {
		for _, worth := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " kept open ", worth), func(t *testing.T) {
				p := append(encode(100, c.attribute, c.compress, some(100)...), encode(200, c.attribute|transactional, c.compress, some(200)...)...)
				s := Open(p)
				asked := 0
				keep := func(n int) bool {
					if asked++; n < 3*entrySize {
						t.Errorf("%d bytes", n)
					}
					return worth
				}
				for _, want := range append(some(100), some(200)...) {
					want.Transactional = want.Offset >= 200
					if got, err := s.Record(want.Offset, keep); err != nil || !reflect.DeepEqual(got, want) {
						t.Errorf("record %d: %+v, %v; want %+v", want.Offset, got, err, want)
					}
				}
				if worth && asked != 2 {
					t.Errorf("two batches were opened %d times", asked)
				}
				for offset, want := range map[int64]error{102: ErrNone, 203: ErrNone, 0: policy.ErrNotKept, 99: policy.ErrNotKept,
					105: policy.ErrNotKept, 199: policy.ErrNotKept, 205: policy.ErrNotKept, 1 << 62: policy.ErrNotKept} {
					if r, err := s.Record(offset, always); !errors.Is(err, want) {
						t.Errorf("offset %d: %+v, %v, want %v", offset, r, err, want)
					}
				}
			})
		}
	}
}

func TestAppendTime(t *testing.T) {
	r, err := Open(encode(5, appendTimeBit, codecs["none"].compress, some(5)...)).Record(6, always)
	if err != nil || !r.AppendTime || r.Timestamp != 1_700_000_000_099 {
		t.Errorf("%+v, %v", r, err)
	}
}

func empty(n int) []byte { return make([]byte, 0, n) }

// TestKeep: batches that nobody wants, control batches, those of older formats and one that is cut short are left out.
func TestKeep(t *testing.T) {
	plain := codecs["none"].compress
	wanted, other := encode(10, 0, plain, some(10)...), encode(20, 0, plain, some(20)...)
	old := encode(30, 0, plain, some(30)...)
	old[atMagic] = 1
	control := encode(40, controlBit, plain, some(40)...)
	also := encode(50, 0, plain, some(50)...)
	p := bytes.Join([][]byte{wanted, other, old, control, also, wanted[:len(wanted)-1]}, nil)
	kept := Keep(p, func(first, last int64) bool { return first != 20 }, empty)
	if want := append(bytes.Clone(wanted), also...); !bytes.Equal(kept, want) {
		t.Errorf("kept %d bytes, want %d", len(kept), len(want))
	}
}

// TestOpen: no record is looked for in a control batch, whoever kept it.
func TestOpen(t *testing.T) {
	plain := codecs["none"].compress
	s := Open(bytes.Join([][]byte{encode(10, 0, plain, some(10)...), encode(20, controlBit, plain, some(20)...)}, nil))
	if last, ok := s.Last(); last != 14 || !ok {
		t.Errorf("the last offset is %d, %v", last, ok)
	}
	if r, err := s.Record(20, always); !errors.Is(err, policy.ErrNotKept) {
		t.Errorf("%+v, %v", r, err)
	}
	if last, ok := Open(nil).Last(); ok {
		t.Errorf("nothing ends at %d", last)
	}
}

// TestUnreadable: what cannot be read says why, and again when it is asked for again.
func TestUnreadable(t *testing.T) {
	plain := codecs["none"].compress
	change := func(at int, to ...byte) []byte {
		p := encode(0, 0, plain, some(0)...)
		copy(p[at:], to)
		return sealed(p)
	}
	flipped := encode(0, 0, plain, some(0)...)
	flipped[len(flipped)-1] ^= 1
	zeros := func(p []byte) []byte { return make([]byte, MaxSize+1) }
	for name, tc := range map[string]struct {
		p    []byte
		want string
	}{
		"checksum":          {flipped, "checksum"},
		"too few records":   {change(atCount, 0, 0, 0, 4), "it has 3 records, and says 4"},
		"offset beyond":     {change(atLastDelta, 0, 0, 0, 2), "out of order"},
		"record too long":   {change(headerSize, 0xfe, 0xff, 0xff, 0xff, 0x0f), "ends too early"},
		"not descending":    {encode(0, 0, plain, some(0)[0], some(0)[0]), "out of order"},
		"codec":             {encode(0, 5, plain, some(0)...), "compression 5 is not known"},
		"not gzip":          {encode(0, 1, plain, some(0)...), "gzip"},
		"not snappy":        {encode(0, 2, func([]byte) []byte { return []byte{10, 0xff} }, some(0)...), "corrupt"},
		"not xerial":        {encode(0, 2, func([]byte) []byte { return append(xerialed(nil), 0, 0, 1, 0) }, some(0)...), "snappy"},
		"not lz4":           {encode(0, 3, plain, some(0)...), "lz4"},
		"not zstd":          {encode(0, 4, plain, some(0)...), "decompress"},
		"a bomb of gzip":    {encode(0, 1, func(p []byte) []byte { return gzipped(zeros(p)) }, some(0)...), decompress.ErrTooLarge.Error()},
		"a bomb of lz4":     {encode(0, 3, func(p []byte) []byte { return lz4ed(zeros(p)) }, some(0)...), decompress.ErrTooLarge.Error()},
		"a bomb of zstd":    {encode(0, 4, func(p []byte) []byte { return zstded(zeros(p)) }, some(0)...), decompress.ErrTooLarge.Error()},
		"a claim of snappy": {encode(0, 2, func([]byte) []byte { return binary.AppendUvarint(nil, MaxSize) }, some(0)...), "snappy"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Open(tc.p)
			for range 2 {
				if _, err := s.Record(0, always); err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%v, want %q", err, tc.want)
				}
			}
		})
	}
}

// TestHeaderClaim: a record that claims more headers than it has bytes for takes no memory for them.
func TestHeaderClaim(t *testing.T) {
	record := append([]byte{0, 0, 0, 1, 1}, binary.AppendVarint(nil, 1<<30)...) // null key, null value
	body := append(binary.AppendVarint(nil, int64(len(record))), record...)
	p := encode(0, 0, func([]byte) []byte { return body }, policy.Record{Timestamp: 1_700_000_000_000})
	if r, err := Open(p).Record(0, always); !errors.Is(err, errShort) {
		t.Errorf("%+v, %v", r, err)
	}
}

// FuzzRecord looks for bytes that make the reader panic, or believe in more than there is. Checksums are made right, so that what is behind
// them is reached.
func FuzzRecord(f *testing.F) {
	seeds := 0
	for _, c := range codecs {
		f.Add(append(encode(7, c.attribute, c.compress, some(7)...), encode(20, c.attribute, c.compress, some(20)...)...))
		seeds++
	}
	if seeds != 6 {
		f.Fatalf("%d seeds", seeds)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		p = bytes.Clone(p)
		for q := p; ; {
			raw, rest, _, ok := next(q)
			if raw == nil {
				break
			}
			if ok {
				sealed(raw)
			}
			q = rest
		}
		kept := Keep(p, func(first, last int64) bool { return first <= last }, empty)
		s := Open(kept)
		for _, b := range s.batches {
			for _, offset := range []int64{b.first, b.first + 1, b.last} {
				r, err := s.Record(offset, always)
				if err == nil && r.Offset != offset {
					t.Fatalf("record %d: %+v", offset, r)
				}
				if b.open != nil && (len(b.open.records) > MaxSize || len(b.open.index) > len(b.open.records)/4 || 2*len(r.Headers) > len(b.open.records)) {
					t.Fatalf("%d bytes, %d records, %d headers", len(b.open.records), len(b.open.index), len(r.Headers))
				}
			}
		}
		if len(kept) > len(p) {
			t.Fatalf("%d bytes kept of %d", len(kept), len(p))
		}
	})
}
