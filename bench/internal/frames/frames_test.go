package frames

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
)

func TestPairsAreWholeFrames(t *testing.T) {
	for _, p := range All() {
		for what, f := range map[string][]byte{"request": p.Request, "response": p.Response} {
			if got := binary.BigEndian.Uint32(f); int(got) != len(f)-4 {
				t.Errorf("%s, %s: size %d in %d bytes", p.Name(), what, got, len(f))
			}
		}
		q := kmsg.RequestForKey(p.Key)
		q.SetVersion(p.Version)
		checkBody(t, p.Name()+" request", p.Request, 4+8+2+len(clientID)+1, q)
		a := kmsg.ResponseForKey(p.Key)
		a.SetVersion(p.Version)
		checkBody(t, p.Name()+" response", p.Response, 4+4+1, a)
	}
}

type message interface {
	ReadFrom([]byte) error
	AppendTo([]byte) []byte
}

// checkBody reads the body with kmsg, which has its own idea of the schemas, and wants the same bytes back.
func checkBody(t *testing.T, name string, frame []byte, at int, m message) {
	t.Helper()
	key := binary.BigEndian.Uint16(frame[4:])
	if err := m.ReadFrom(frame[at:]); err != nil {
		t.Errorf("%s (key %d): %v", name, key, err)
		return
	}
	if !bytes.Equal(m.AppendTo(nil), frame[at:]) {
		t.Errorf("%s does not encode back to itself", name)
	}
}

func TestSizes(t *testing.T) {
	for _, v := range []int16{ShareOldest, ShareVersion} {
		if p := ack(v); len(p.Request) != 201 || len(p.Response) != 65 {
			t.Errorf("ShareAcknowledge v%d: %d bytes answered by %d", v, len(p.Request), len(p.Response))
		}
	}
	if n := len(shareFetch(ShareVersion).Response); n < 100<<10 || n > 105<<10 {
		t.Errorf("ShareFetch answer of %d bytes", n)
	}
	for what, n := range map[string]int{"produce": len(produce().Request), "fetch": len(fetch().Response)} {
		if n < 1<<20 || n > 1<<20+20<<10 {
			t.Errorf("%s of %d bytes", what, n)
		}
	}
}

// TestShareFramesAreExact: the proxy's own codec takes each share frame for what it is, with its five batches.
func TestShareFramesAreExact(t *testing.T) {
	for _, p := range []Pair{shareFetch(ShareVersion), shareFetch(ShareOldest)} {
		_, body, o, problem := codec.DecodeRequestHeader(p.Request, 0)
		if o != codec.Exact {
			t.Fatal(o, problem)
		}
		var q codec.ShareFetchRequest
		if o, problem := q.Decode(p.Request[body:], body, p.Version); o != codec.Exact {
			t.Fatal(o, problem)
		}
		for topic := range q.Topics.All() {
			for part := range topic.Partitions.All() {
				if part.Batches.Len() != 5 {
					t.Errorf("%d batches", part.Batches.Len())
				}
			}
		}
	}
}

func TestRecordBatch(t *testing.T) {
	raw := batch(1100, 100, 1<<10)
	var b kmsg.RecordBatch
	if err := b.ReadFrom(raw); err != nil {
		t.Fatal(err)
	}
	if int(b.Length) != len(raw)-12 || uint32(b.CRC) != crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)) {
		t.Errorf("length %d of %d bytes, CRC %x", b.Length, len(raw), uint32(b.CRC))
	}
	rest, n := b.Records, 0
	for ; len(rest) > 0; n++ {
		var r kmsg.Record
		if err := r.ReadFrom(rest); err != nil || len(r.Value) != 1<<10 || int(r.OffsetDelta) != n {
			t.Fatal(n, err, len(r.Value), r.OffsetDelta)
		}
		rest = rest[len(r.AppendTo(nil)):]
	}
	if n != 100 {
		t.Errorf("%d records", n)
	}
}
