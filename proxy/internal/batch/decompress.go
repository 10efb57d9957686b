package batch

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

// MaxSize is how many bytes the records of a batch may decompress to.
const MaxSize = 128 << 20

// most is how many batches are decompressed at once, in the whole process: so bombs together cannot take more than that many times MaxSize.
const most = 2

var (
	errTooLarge   = fmt.Errorf("it decompresses to more than %d bytes", MaxSize)
	errBadSnappy  = errors.New("snappy: it is corrupt")
	xerial        = []byte("\x82SNAPPY\x00")
	decompressing = make(chan struct{}, most)
)

// zstds are decoders at rest. One has no goroutine, and need not be closed.
var zstds = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(MaxSize))
	if err != nil {
		panic(err) // an option is wrong
	}
	return d
}}

// decompress returns the records of a batch. Those of an uncompressed one are p itself.
func decompress(p []byte, codec int16) (records []byte, err error) {
	if codec == 0 {
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
	case 1:
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(p)); err == nil {
			records, err = readAll(z)
		}
	case 2:
		records, err = unsnappy(p)
	case 3:
		records, err = readAll(lz4.NewReader(bytes.NewReader(p)))
	case 4:
		z := zstds.Get().(*zstd.Decoder)
		records, err = z.DecodeAll(p, nil)
		zstds.Put(z)
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
			err = errTooLarge
		}
	default:
		err = fmt.Errorf("compression %d is not known", codec)
	}
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return records, nil
}

func readAll(r io.Reader) ([]byte, error) {
	p, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err == nil && len(p) > MaxSize {
		err = errTooLarge
	}
	return p, err
}

// unsnappy reads a block, or what Java makes of it: blocks behind a header of 16 bytes, each with its length before it.
func unsnappy(p []byte) ([]byte, error) {
	if len(p) < 16 || !bytes.HasPrefix(p, xerial) {
		return unblock(nil, p)
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
		if all, err = unblock(all, p[:size]); err != nil {
			return nil, err
		}
		p = p[size:]
	}
	return all, nil
}

// unblock appends what a block decompresses to. A block says how much that is: no more than 32 times its size, since an element of two
// bytes stands for 64 at most.
func unblock(dst, block []byte) ([]byte, error) {
	n, err := s2.DecodedLen(block)
	switch {
	case err != nil:
		return nil, err
	case n > MaxSize-len(dst):
		return nil, errTooLarge
	case n > 32*len(block):
		return nil, errBadSnappy
	}
	out, err := s2.Decode(nil, block)
	if dst == nil || err != nil {
		return out, err
	}
	return append(dst, out...), nil
}
