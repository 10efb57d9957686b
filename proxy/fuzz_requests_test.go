package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/ackproxy/ackproxy/codec"
)

// FuzzRequests takes anything as a client's request, as it arrives: in two parts, then whole. Nothing panics or changes it, it is
// refused for a rule of the protocol or owed one answer, and what the observers are to get points into a copy of it.
func FuzzRequests(f *testing.F) {
	seeds(f, "request", func(g goldenFrame) { f.Add(uint8(g.Key), uint16(20), g.frame[4:]) })
	s := unmappable(f)
	f.Fuzz(func(t *testing.T, how uint8, first uint16, payload []byte) {
		frame := frameOf(payload)
		c := stubConn(s)
		c.broker = &brokerState{addr: "upstream:9092"}
		c.broker.armed.Store(how&1 == 1)
		r := &requests{c: c, h: &half{send: func([]byte) error { return nil }}}
		if how&2 == 2 {
			r.sasl = saslState{mechanism: "SCRAM-SHA-256", bare: int(how>>2) % 3}
		}
		before := slices.Clone(frame)
		act, err := taken(r, frame, int(first))
		if err == nil && act == holdWhole {
			var instead []byte
			if instead, err = r.whole(frame); instead != nil {
				t.Fatalf("%x became %x", frame, instead)
			}
		}
		if !bytes.Equal(frame, before) {
			t.Fatalf("%x was written to: %x", before, frame)
		}
		if err != nil {
			if !errors.Is(err, errBadFrame) && !errors.Is(err, errVersion) && !errors.Is(err, errNotKafka) {
				t.Fatal(err)
			}
			return
		}
		if n := int(c.pending.next - c.pending.done); n > 1 || n == 0 && int16(binary.BigEndian.Uint16(frame[4:])) != codec.KeyProduce {
			t.Fatalf("%d answers are owed", n)
		}
		for _, x := range c.pending.unanswered() {
			if x.outcome == nil {
				continue
			}
			if !bytes.Equal(x.outcome.Request.Frame, before) || x.need&needObserve == 0 || x.outcome.Request.Decode != codec.Exact && x.outcome.Request.Problem == nil && x.outcome.Request.Decode != codec.Opaque {
				t.Fatalf("%+v", x.outcome.Request)
			}
			clear(frame)
			concernsAcknowledgements(&x.outcome.Request)
			if !bytes.Equal(x.outcome.Request.Frame, before) {
				t.Fatal("the copy is the loop's buffer")
			}
		}
	})
}

// taken shows a frame to the request loop as a half does, with n bytes of it at first.
func taken(r *requests, frame []byte, n int) (action, error) {
	for _, p := range [][]byte{frame[:min(len(frame), max(4, n))], frame} {
		if err := r.check(p, int32(len(frame)-4)); err != nil {
			return undecided, err
		}
		if len(p) < r.headerSize() {
			continue
		}
		if act, err := r.begin(p, len(frame)); err != nil || act != undecided {
			return act, err
		}
	}
	return undecided, errBadFrame
}
