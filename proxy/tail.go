package proxy

import (
	"encoding/binary"
	"fmt"

	"github.com/ackproxy/ackproxy/codec"
)

// endpoint is one entry of NodeEndpoints (KIP-951), the same in Produce, Fetch and ShareFetch.
type endpoint struct {
	id, port int32
	host     []byte
	rack     []byte // nil is null
	tags     []byte // the section as it came
}

// tail is the end of a Produce, Fetch or ShareFetch answer: its node endpoints, and the other top-level tagged fields.
type tail struct {
	inTag     bool // the endpoints are tag 0 of the section; in ShareFetch they are an array before it
	endpoints []endpoint
	others    []tagged
}

type tagged struct {
	tag   int
	value []byte
}

// readTail reads the end of an answer. Nothing may be left over: what is not understood could hold an address.
func readTail(key int16, p []byte) (*tail, error) {
	t := &tail{inTag: key != codec.KeyShareFetch}
	s := &scanner{p: p}
	if !t.inTag {
		t.readEndpoints(s)
	}
	s.tags(func(tag, size int) bool {
		if t.inTag && tag == 0 {
			t.readEndpoints(s)
			return true
		}
		t.others = append(t.others, tagged{tag, s.take(size)})
		return true
	})
	if s.err == nil && s.at != len(p) {
		s.err = fmt.Errorf("%w: %d bytes left after the body", errBadFrame, len(p)-s.at)
	}
	return t, s.err
}

func (t *tail) readEndpoints(s *scanner) {
	for range s.count() {
		e := endpoint{id: s.int32(), host: s.text(), port: s.int32(), rack: s.text()}
		start := s.at
		s.tags(nil)
		if s.err != nil {
			return
		}
		e.tags = s.p[start:s.at]
		t.endpoints = append(t.endpoints, e)
	}
}

// append writes the tail with a filler tag of the given size, 0 for none.
func (t *tail) append(dst []byte, filler int) []byte {
	n := len(t.others)
	if t.inTag && len(t.endpoints) > 0 {
		n++
	}
	if filler > 0 {
		n++
	}
	if !t.inTag {
		dst = t.appendEndpoints(dst)
	}
	dst = binary.AppendUvarint(dst, uint64(n))
	if t.inTag && len(t.endpoints) > 0 {
		value := t.appendEndpoints(nil)
		dst = append(binary.AppendUvarint(append(dst, 0), uint64(len(value))), value...)
	}
	last := fillerTag
	for _, o := range t.others {
		dst = append(binary.AppendUvarint(binary.AppendUvarint(dst, uint64(o.tag)), uint64(len(o.value))), o.value...)
		last = max(last, o.tag+1)
	}
	if filler > 0 {
		dst = appendFiller(dst, last, filler)
	}
	return dst
}

func (t *tail) appendEndpoints(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(t.endpoints)+1))
	for _, e := range t.endpoints {
		dst = binary.BigEndian.AppendUint32(dst, uint32(e.id))
		dst = append(binary.AppendUvarint(dst, uint64(len(e.host)+1)), e.host...)
		dst = binary.BigEndian.AppendUint32(dst, uint32(e.port))
		if e.rack == nil {
			dst = append(dst, 0)
		} else {
			dst = append(binary.AppendUvarint(dst, uint64(len(e.rack)+1)), e.rack...)
		}
		dst = append(dst, e.tags...)
	}
	return dst
}

// fillerTag is a tag number that no Kafka schema uses, one byte long. Readers skip tags they do not know.
const fillerTag = 126

// appendFiller writes a tagged field of zeros that takes size bytes in all, where there is one: behind a number of as many bytes as it
// takes, since a length of one byte says up to 127 and one of two at least 128.
func appendFiller(dst []byte, tag, size int) []byte {
	for width := len(binary.AppendUvarint(nil, uint64(tag))); width <= 5 && width < size; width++ {
		for length := 1; length <= 5; length++ {
			n := size - width - length
			if value := binary.AppendUvarint(nil, uint64(max(0, n))); n >= 0 && len(value) == length {
				dst = binary.AppendUvarint(dst, uint64(tag))
				return append(append(dst, value...), make([]byte, n)...)
			}
		}
		tag |= 1 << (7 * width)
	}
	return dst
}

// fit writes the tail at exactly size bytes: with a filler, or without the endpoints where they do not fit. False if even that fails.
func (t *tail) fit(size int) ([]byte, bool) {
	for {
		p := t.append(nil, 0)
		gap := size - len(p)
		if gap == 0 {
			return p, true
		}
		for filler := gap; filler >= max(2, gap-1); filler-- { // with one more field, the count of fields may take a byte more
			if p = t.append(nil, filler); len(p) == size {
				return p, true
			}
		}
		if len(t.endpoints) == 0 {
			return nil, false
		}
		t.endpoints = nil
	}
}
