package decompress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestBound has batches that unfold to as much as is allowed, and to one byte more.
func TestBound(t *testing.T) {
	zeros := make([]byte, 1<<20)
	for number, codec := range map[int16]kgo.CompressionCodec{None: kgo.NoCompression(), Gzip: kgo.GzipCompression(), Snappy: kgo.SnappyCompression(),
		Lz4: kgo.Lz4Compression(), Zstd: kgo.ZstdCompression()} {
		packed := zeros
		if number != None {
			c, err := kgo.DefaultCompressor(codec)
			if err != nil {
				t.Fatal(err)
			}
			var kind kgo.CompressionCodecType
			if packed, kind = c.Compress(new(bytes.Buffer), zeros); int16(kind) != number {
				t.Fatalf("compressed with %v", kind)
			}
		}
		enough, tight := New(1<<20), New(1<<20-1)
		for range 2 { // decoders are used again, also after an error
			if got, err := enough.Records(packed, number); err != nil || !bytes.Equal(got, zeros) {
				t.Errorf("codec %d: %d bytes, %v", number, len(got), err)
			}
			if got, err := tight.Records(packed, number); number != None && !errors.Is(err, ErrTooLarge) {
				t.Errorf("codec %d: %d bytes, %v", number, len(got), err)
			}
		}
	}
}

// TestJavaSnappy reads Java's framing, whose limit is that of all blocks.
func TestJavaSnappy(t *testing.T) {
	framed := append(bytes.Clone(xerial), 0, 0, 0, 1, 0, 0, 0, 1)
	for _, part := range []string{"one ", "two"} {
		block := s2.EncodeSnappy(nil, []byte(part))
		framed = append(binary.BigEndian.AppendUint32(framed, uint32(len(block))), block...)
	}
	if got, err := New(7).Records(framed, Snappy); err != nil || string(got) != "one two" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := New(6).Records(framed, Snappy); !errors.Is(err, ErrTooLarge) {
		t.Errorf("more than allowed: %v", err)
	}
	if _, err := New(7).Records(framed[:len(framed)-1], Snappy); err == nil {
		t.Error("cut off, and read")
	}
}
