package dlq

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"
)

// bounded decompresses what a fetch brought, up to a number of bytes: who wrote a batch may have made it to unfold to any size.
type bounded struct{ limit int64 }

var (
	errUnfolds = errors.New("the batch unfolds to more bytes than allowed")
	xerial     = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0} // Java's framing of snappy
)

const xerialHeader = 16 // the magic, a version, the least compatible version

// Decompress is kgo.Decompressor's.
func (b bounded) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	switch codec {
	case kgo.CodecNone:
		return src, nil
	case kgo.CodecGzip:
		r, err := gzip.NewReader(bytes.NewReader(src))
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		return b.read(r)
	case kgo.CodecSnappy:
		return b.snappy(src)
	case kgo.CodecLz4:
		return b.read(lz4.NewReader(bytes.NewReader(src)))
	case kgo.CodecZstd:
		r, err := zstd.NewReader(bytes.NewReader(src), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(b.limit)))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		defer r.Close()
		return b.read(r)
	}
	return nil, fmt.Errorf("compression %d is not known", codec)
}

func (b bounded) read(r io.Reader) ([]byte, error) {
	all, err := io.ReadAll(io.LimitReader(r, b.limit+1))
	if err == nil && int64(len(all)) > b.limit {
		err = errUnfolds
	}
	return all, err
}

// snappy reads one block, or Java's frame of many.
func (b bounded) snappy(src []byte) ([]byte, error) {
	if len(src) < xerialHeader || !bytes.HasPrefix(src, xerial) {
		return b.block(nil, src)
	}
	var all []byte
	for src = src[xerialHeader:]; len(src) > 0; {
		if len(src) < 4 || uint64(binary.BigEndian.Uint32(src)) > uint64(len(src)-4) {
			return nil, errors.New("snappy: a block is cut off")
		}
		n := 4 + int(binary.BigEndian.Uint32(src))
		var err error
		if all, err = b.block(all, src[4:n]); err != nil {
			return nil, err
		}
		src = src[n:]
	}
	return all, nil
}

// block appends what a block unfolds to.
func (b bounded) block(to, src []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(src)
	switch {
	case err != nil:
		return nil, fmt.Errorf("snappy: %w", err)
	case int64(n) > b.limit-int64(len(to)):
		return nil, errUnfolds
	}
	out, err := snappy.Decode(nil, src)
	if err != nil {
		return nil, fmt.Errorf("snappy: %w", err)
	}
	if to == nil {
		return out, nil
	}
	return append(to, out...), nil
}
