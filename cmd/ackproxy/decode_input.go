package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
	"unicode"

	"github.com/ackproxy/ackproxy/cmd/ackproxy/internal/capture"
	"github.com/ackproxy/ackproxy/codec"
)

// withoutSpace drops white space, and 0x in front.
func withoutSpace(b []byte) []byte {
	b = bytes.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, b)
	return bytes.TrimPrefix(b, []byte("0x"))
}

// unpack takes the text form off frames: hex, then base64; what is neither is frames already.
func unpack(in []byte) ([]byte, error) {
	if len(in) == 0 {
		return nil, errors.New("the input is empty")
	}
	for _, b := range in {
		if b >= 0x80 || b < 0x20 && b != '\n' && b != '\r' && b != '\t' {
			return in, nil
		}
	}
	text := withoutSpace(in)
	if len(text) > 0 && len(bytes.Trim(text, "0123456789abcdefABCDEF")) == 0 {
		if len(text)%2 == 1 {
			return nil, fmt.Errorf("the hex text has an odd number of digits, %d", len(text))
		}
		return hex.DecodeString(string(text))
	}
	unpadded := bytes.TrimRight(text, "=")
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if b, err := e.DecodeString(string(unpadded)); err == nil && len(b) > 0 {
			return b, nil
		}
	}
	return in, nil
}

// lane is one direction of a captured connection.
type lane struct {
	splitter
	kind codec.Kind
}

// link is a captured connection.
type link struct {
	session *session
	lanes   [2]lane // by codec.Kind
}

// capture decodes every connection of a capture, frames in the order in which they were complete.
func (d *decoder) capture(in *bufio.Reader) error {
	links := map[*capture.Conn]*link{}
	request := func(b []byte) bool { return looksLikeRequest(b, d.options.txnKey) }
	err := capture.Read(in, request, func(c capture.Chunk) error {
		l := links[c.Conn]
		if l == nil {
			l = &link{session: newSession(d.options.txnKey), lanes: [2]lane{{kind: codec.Request}, {kind: codec.Response}}}
			links[c.Conn] = l
		}
		lane := &l.lanes[codec.Response]
		if c.FromClient {
			lane = &l.lanes[codec.Request]
		}
		return d.chunk(l.session, lane, c)
	})
	var e *exit
	if err != nil && !errors.As(err, &e) {
		err = failed(err)
	}
	return err
}

func (d *decoder) chunk(s *session, l *lane, c capture.Chunk) error {
	show := func(p piece) error {
		o := s.inspect(l.kind, p)
		o.Connection, o.Time = c.Conn.Client+" > "+c.Conn.Server, c.Time
		return d.print(o)
	}
	if c.Missing > 0 {
		if p, cut := l.gap(c.Missing); cut {
			if err := show(p); err != nil {
				return err
			}
		}
	}
	l.push(c.Data)
	pieces := l.complete()
	if c.End {
		pieces = l.finish()
	}
	for p := range pieces {
		if err := show(p); err != nil {
			return err
		}
	}
	return nil
}

// looksLikeRequest says whether the first bytes that one side sends can be those of a client: a key and a version that exist, and a
// client id in letters. An answer begins with its correlation id, which may well read as a key and a version, but hardly ever goes on
// like that.
func looksLikeRequest(b []byte, txnKey int16) bool {
	if len(b) < 8 {
		return true // too little to tell: clients speak first
	}
	key, version := int16(binary.BigEndian.Uint16(b[4:])), int16(binary.BigEndian.Uint16(b[6:]))
	if sizeProblem(b) != "" || !codec.Known(key) && key != txnKey || version < 0 || version > codec.MaxVersion(key)+1 {
		return false
	}
	if len(b) < 14 {
		return true
	}
	n, rest := int(int16(binary.BigEndian.Uint16(b[12:]))), b[14:]
	if n == -1 {
		return true
	}
	for _, c := range rest[:min(max(n, 0), len(rest))] {
		if c < 0x20 {
			return false
		}
	}
	return n > 0 && n <= int(binary.BigEndian.Uint32(b))-10
}

// stamp is the time of a packet as decode shows it; empty for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000Z")
}
