package proxy

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// carrierOf is what a golden frame carries acknowledgements on; false for other frames. 80 counts as TxnShareAcknowledge.
func carrierOf(key int16) (policy.Carrier, bool) {
	switch key {
	case codec.KeyShareFetch:
		return policy.ShareFetch, true
	case codec.KeyShareAcknowledge:
		return policy.ShareAcknowledge, true
	case codec.KeyAddRaftVoter, keyDraftTxn:
		return policy.TxnShareAcknowledge, true
	}
	return 0, false
}

// anyDecision is one about topics, made of the ranges as they are: it fits, or with bad nearly does.
func anyDecision(rnd *rand.Rand, topics codec.Array[codec.AckTopic], bad bool) *policy.Decision {
	d := &policy.Decision{}
	for _, e := range lastEntries(topics) {
		p := policy.Decided{TopicID: e.topic, Index: e.partition}
		add := func(first, last int64, t int8) {
			piece := policy.Piece{First: first, Last: last, Asked: t, Forwarded: int8(rnd.IntN(4)), Withheld: rnd.IntN(3) == 0, ErrorCode: 56}
			if bad && rnd.IntN(4) == 0 {
				piece.Last += rnd.Int64N(5) - 2
			}
			p.Pieces = append(p.Pieces, piece)
		}
		for b := range e.batches.All() {
			if n := len(b.Types); n == 1 && b.LastOffset > b.FirstOffset {
				add(b.FirstOffset, b.FirstOffset, int8(b.Types[0]))
				add(b.FirstOffset+1, b.LastOffset, int8(b.Types[0]))
			} else {
				for i, t := range b.Types {
					add(b.FirstOffset+int64(i), b.FirstOffset+int64(i), int8(t))
				}
			}
		}
		d.Partitions = append(d.Partitions, p)
	}
	return d
}

// FuzzRewrite rewrites anything as a request, by decisions that fit and by some that do not: no panic, and an error or a frame that
// reads exactly, no larger than frame and decision account for.
func FuzzRewrite(f *testing.F) {
	n := 0
	seeds(f, "request", func(g goldenFrame) {
		_, body, o, _ := codec.DecodeRequestHeader(g.frame, g.Key)
		if c, ok := carrierOf(g.Key); ok && o < codec.Anomalous {
			for i := range uint64(3) {
				f.Add(uint8(c), uint8(g.Version), i, g.frame[body:])
				n++
			}
		}
	})
	if n < 60 {
		f.Fatalf("%d seeds", n)
	}
	f.Fuzz(func(t *testing.T, which, v uint8, seed uint64, body []byte) {
		carrier, version := policy.Carrier(which%3), int16(v%4)
		frame := sized(append(make([]byte, 14), body...))
		is := decodeRequest(carrier, body, version)
		d := anyDecision(rand.New(rand.NewPCG(seed, 1)), is.topics, seed%2 == 1)
		out, err := rewriteRequest(frame, 14, version, carrier, d)
		if err != nil {
			if out != nil || is.outcome < codec.Anomalous && len(d.Partitions) == 0 {
				t.Fatal(err)
			}
			return
		}
		pieces := 0
		for _, p := range d.Partitions {
			pieces += len(p.Pieces)
		}
		if o := decodeRequest(carrier, out[14:], version).outcome; o != codec.Exact || int(binary.BigEndian.Uint32(out)) != len(out)-4 {
			t.Fatalf("%v: %x", o, out)
		}
		if len(out) > len(frame)+32*pieces+2*maxTagCopies {
			t.Fatalf("%d bytes of %d and %d pieces", len(out), len(frame), pieces)
		}
	})
}

// FuzzMerge merges into anything as an answer: no panic, and an error, or an answer that reads exactly and has a code for all that was
// withheld.
func FuzzMerge(f *testing.F) {
	n := 0
	seeds(f, "response", func(g goldenFrame) {
		if c, ok := carrierOf(g.Key); ok {
			for i := range uint64(3) {
				f.Add(uint8(c), uint8(g.Version), i, g.frame)
				n++
			}
		}
	})
	if n < 60 {
		f.Fatalf("%d seeds", n)
	}
	f.Fuzz(func(t *testing.T, which, v uint8, seed uint64, frame []byte) {
		if len(frame) < 9 {
			return
		}
		g := &gen{Rand: rand.New(rand.NewPCG(seed, 2)), carrier: policy.Carrier(which % 3), version: int16(v % 3)}
		if g.carrier == policy.TxnShareAcknowledge {
			g.version = 0
		}
		was, _ := readReply(g, frame)
		d := &policy.Decision{}
		for _, r := range append(was.rows, row{target: target{topic: codec.UUID{1}, partition: -1}}) {
			withheld := held(0, 9, 1)
			withheld.Withheld = g.one(2)
			p := policy.Decided{TopicID: r.topic, Index: r.partition, Pieces: []policy.Piece{withheld}}
			d.Partitions = append(d.Partitions, p)
			if g.one(4) {
				d.Replies = append(d.Replies, policy.ReplyEdit{TopicID: r.topic, Partition: r.partition, ErrorCode: g.code(), Message: g.message()})
			}
		}
		m := newMerge(d, g.carrier)
		if m == nil {
			return
		}
		out, did, err := m.apply(frame, 9, g.version)
		if (out != nil) != (did == changed) || err != nil && did != unchanged {
			t.Fatalf("%d, %v, %x", did, err, out)
		}
		if out == nil {
			return
		}
		is, o := readReply(g, out)
		if o != codec.Exact || int(binary.BigEndian.Uint32(out)) != len(out)-4 || len(is.rows) < len(was.rows) {
			t.Fatalf("%v: %x became %x", o, frame, out)
		}
		codes := map[target]int16{}
		for _, r := range is.rows {
			codes[r.target] = r.code
		}
		for i := range d.Partitions {
			p := &d.Partitions[i]
			if p.Code() != 0 && codes[target{p.TopicID, p.Index}] == 0 {
				t.Fatalf("%v/%d has no code in %x, made of %x", p.TopicID, p.Index, out, frame)
			}
		}
	})
}
