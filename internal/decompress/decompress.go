// Package decompress decompresses the records of a batch as Kafka knows them, and bounds what that takes: whoever wrote a batch may have made it
// to unfold to any size.
package decompress

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// The codecs, as the attributes of a batch have them.
const (
	None int16 = iota
	Gzip
	Snappy
	Lz4
	Zstd
)

// most is how many batches are decompressed at once, in the whole process: so bombs together cannot take more than that many times the limit.
const most = 2

// ErrTooLarge says that a batch has more bytes than the limit.
var ErrTooLarge = errors.New("it decompresses to more bytes than allowed")

var (
	errBadSnappy  = errors.New("snappy: it is corrupt")
	xerial        = []byte("\x82SNAPPY\x00")
	decompressing = make(chan struct{}, most)
)

// Bounded decompresses up to a number of bytes at a time. Many goroutines may use it at once.
type Bounded struct {
	limit int
	zstds sync.Pool // decoders at rest. One has no goroutine, and need not be closed
}

// New makes one with a limit, in bytes, above 0.
func New(limit int) *Bounded {
	return &Bounded{limit: limit, zstds: sync.Pool{New: func() any {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(uint64(limit)))
		if err != nil {
			panic(err) // an option is wrong
		}
		return d
	}}}
}

// Records returns the records of a batch. Those of an uncompressed one are p itself, whatever the limit. The error wraps ErrTooLarge, or says how
// p is corrupt.
func (b *Bounded) Records(p []byte, codec int16) (records []byte, err error) {
	if codec == None {
		return p, nil
	}
	decompressing <- struct{}{}
	defer func() {
		<-decompressing
		if r := recover(); r != nil { // bytes of a peer, read by somebody else's code
			records, err = nil, fmt.Errorf("decompress: panic: %v", r)
		}
	}()
	switch codec {
	case Gzip:
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(p)); err == nil {
			records, err = b.readAll(z)
		}
	case Snappy:
		records, err = b.unsnappy(p)
	case Lz4:
		records, err = b.readAll(lz4.NewReader(bytes.NewReader(p)))
	case Zstd:
		z := b.zstds.Get().(*zstd.Decoder)
		records, err = z.DecodeAll(p, nil)
		b.zstds.Put(z)
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
			err = ErrTooLarge
		}
	default:
		err = fmt.Errorf("compression %d is not known", codec)
	}
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return records, nil
}

func (b *Bounded) readAll(r io.Reader) ([]byte, error) {
	p, err := io.ReadAll(io.LimitReader(r, int64(b.limit)+1))
	if err == nil && len(p) > b.limit {
		err = ErrTooLarge
	}
	return p, err
}

// unsnappy reads a block, or what Java makes of it: blocks behind a header of 16 bytes, each with its length before it.
func (b *Bounded) unsnappy(p []byte) ([]byte, error) {
	if len(p) < 16 || !bytes.HasPrefix(p, xerial) {
		return b.unblock(nil, p)
	}
	var all []byte
	for p = p[16:]; len(p) > 0; {
		if len(p) < 4 {
			return nil, errBadSnappy
		}
		size := int64(binary.BigEndian.Uint32(p))
		if p = p[4:]; size > int64(len(p)) {
			return nil, errBadSnappy
		}
		var err error
		if all, err = b.unblock(all, p[:size]); err != nil {
			return nil, err
		}
		p = p[size:]
	}
	return all, nil
}

// unblock appends what a block decompresses to. A block says how much that is: no more than 32 times its size, since an element of two
// bytes stands for 64 at most.
func (b *Bounded) unblock(dst, block []byte) ([]byte, error) {
	n, err := s2.DecodedLen(block)
	switch {
	case err != nil:
		return nil, err
	case n > b.limit-len(dst):
		return nil, ErrTooLarge
	case n > 32*len(block):
		return nil, errBadSnappy
	}
	out, err := s2.Decode(nil, block)
	if dst == nil || err != nil {
		return out, err
	}
	return append(dst, out...), nil
}
