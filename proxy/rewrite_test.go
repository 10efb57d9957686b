package proxy

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// acknowledge is a ShareAcknowledge v2 of one partition.
func acknowledge(batches ...codec.AckBatch) (frame []byte, body int) {
	p := codec.AckPartition{PartitionIndex: 3}
	for _, b := range batches {
		p.Batches.Append(b)
	}
	topic := codec.AckTopic{TopicID: codec.UUID{1}}
	topic.Partitions.Append(p)
	m := codec.ShareAcknowledgeRequest{ShareSessionEpoch: 5}
	m.Topics.Append(topic)
	h := codec.RequestHeader{APIKey: codec.KeyShareAcknowledge, APIVersion: 2, CorrelationID: 8, Version: 2}
	frame = h.Append(make([]byte, 4))
	body = len(frame)
	return sized(m.Append(frame, 2)), body
}

func batchOf(first, last int64, types ...byte) codec.AckBatch {
	return codec.AckBatch{FirstOffset: first, LastOffset: last, Types: types}
}

// of decides about that partition.
func of(pieces ...policy.Piece) *policy.Decision {
	return &policy.Decision{Partitions: []policy.Decided{{TopicID: codec.UUID{1}, Index: 3, Pieces: pieces}}}
}

func same(first, last int64, t int8) policy.Piece {
	return policy.Piece{First: first, Last: last, Asked: t, Forwarded: t}
}

func held(first, last int64, t int8) policy.Piece {
	return policy.Piece{First: first, Last: last, Asked: t, Forwarded: t, Withheld: true, ErrorCode: 121}
}

func changedTo(first, last int64, from, to int8) policy.Piece {
	return policy.Piece{First: first, Last: last, Asked: from, Forwarded: to}
}

// A batch is cut no finer than it must be, whatever its range: shapes that brokers see, and sizes in proportion.
func TestRewriteShapes(t *testing.T) {
	const top = math.MaxInt64
	for name, c := range map[string]struct {
		asked  []codec.AckBatch
		pieces []policy.Piece
		want   []codec.AckBatch
	}{
		"one type for a range": {
			[]codec.AckBatch{batchOf(0, 9, 3)},
			[]policy.Piece{changedTo(0, 9, 3, 2)},
			[]codec.AckBatch{batchOf(0, 9, 2)},
		},
		"a hole in any range": {
			[]codec.AckBatch{batchOf(0, top-1, 1)},
			[]policy.Piece{same(0, 6, 1), held(7, 7, 1), same(8, top-1, 1)},
			[]codec.AckBatch{batchOf(0, 6, 1), batchOf(8, top-1, 1)},
		},
		"up to the last offset": {
			[]codec.AckBatch{batchOf(top-2, top, 1, 2, 1)},
			[]policy.Piece{held(top-2, top-2, 1), same(top-1, top-1, 2), same(top, top, 1)},
			[]codec.AckBatch{batchOf(top-1, top, 2, 1)},
		},
		"in place in an array": {
			[]codec.AckBatch{batchOf(1, 4, 1, 3, 2, 1)},
			[]policy.Piece{same(1, 1, 1), changedTo(2, 2, 3, 2), same(3, 3, 2), same(4, 4, 1)},
			[]codec.AckBatch{batchOf(1, 4, 1, 2, 2, 1)},
		},
		"an array of one type": {
			[]codec.AckBatch{batchOf(1, 4, 1, 1, 1, 3)},
			[]policy.Piece{same(1, 3, 1), held(4, 4, 3)},
			[]codec.AckBatch{batchOf(1, 3, 1)},
		},
		"types inside a range": {
			[]codec.AckBatch{batchOf(1, 9, 1)},
			[]policy.Piece{same(1, 2, 1), changedTo(3, 3, 1, 2), changedTo(4, 4, 1, 2), same(5, 9, 1)},
			[]codec.AckBatch{batchOf(1, 2, 1), batchOf(3, 4, 2), batchOf(5, 9, 1)},
		},
		"a piece of two batches": {
			[]codec.AckBatch{batchOf(1, 2, 1), batchOf(3, 5, 1, 1, 2)},
			[]policy.Piece{held(1, 4, 1), same(5, 5, 2)},
			[]codec.AckBatch{batchOf(5, 5, 2)},
		},
		"nothing is left": {[]codec.AckBatch{batchOf(0, top, 1)}, []policy.Piece{held(0, top, 1)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			frame, body := acknowledge(c.asked...)
			out, err := rewriteRequest(frame, body, 2, policy.ShareAcknowledge, of(c.pieces...))
			if err != nil {
				t.Fatal(err)
			}
			want, _ := acknowledge(c.want...)
			if c.want == nil { // the session goes on
				want = sized((&codec.ShareAcknowledgeRequest{ShareSessionEpoch: 5}).Append(slices.Clone(frame[:body]), 2))
			}
			if !bytes.Equal(out, want) {
				t.Errorf("%x, want %x", out, want)
			}
		})
	}
}

// A decision about anything else than the request is an error, and nothing is forwarded.
func TestRewriteRefusesOtherDecisions(t *testing.T) {
	batch := batchOf(10, 14, 1, 1, 2, 2, 2)
	fits := []policy.Piece{held(10, 11, 1), same(12, 14, 2)}
	frame, body := acknowledge(batch)
	if _, err := rewriteRequest(frame, body, 2, policy.ShareAcknowledge, of(fits...)); err != nil {
		t.Fatal(err)
	}
	other, twice, malformed := of(fits...), of(fits...), of(fits...)
	other.Partitions[0].Index++
	twice.Partitions = append(twice.Partitions, twice.Partitions[0])
	malformed.Partitions[0].Malformed = true
	more := of(fits...)
	more.Partitions = append(more.Partitions, policy.Decided{TopicID: codec.UUID{2}})
	for name, d := range map[string]*policy.Decision{
		"nothing": {}, "another partition": other, "a partition more": more, "a partition twice": twice, "malformed with pieces": malformed,
		"too short":              of(held(10, 11, 1), same(12, 13, 2)),
		"too long":               of(held(10, 11, 1), same(12, 15, 2)),
		"an offset before":       of(held(9, 11, 1), same(12, 14, 2)),
		"one left out at first":  of(held(11, 11, 1), same(12, 14, 2)),
		"one left out":           of(held(10, 11, 1), same(13, 14, 2)),
		"overlapping":            of(held(10, 11, 1), same(11, 14, 2)),
		"a piece more":           of(held(10, 11, 1), same(12, 14, 2), same(20, 21, 1)),
		"inverted":               of(held(10, 11, 1), same(12, 3, 2)),
		"another type was asked": of(held(10, 11, 1), same(12, 14, 1)),
		"across two types":       of(held(10, 12, 1), same(13, 14, 2)),
		"a renewal":              of(held(10, 11, 1), changedTo(12, 14, 2, 4)),
		"a type that is none":    of(held(10, 11, 1), changedTo(12, 14, 2, -1)),
	} {
		if out, err := rewriteRequest(frame, body, 2, policy.ShareAcknowledge, d); !errors.Is(err, errDecision) || out != nil {
			t.Errorf("%s: %v, %x", name, err, out)
		}
	}
	for name, b := range map[string]codec.AckBatch{
		"no types":               batchOf(1, 1),
		"inverted":               batchOf(2, 1, 1),
		"too many types":         batchOf(1, 1, 1, 1),
		"two types for all":      batchOf(math.MinInt64, math.MaxInt64, 1, 1),
		"inverted, at the edges": batchOf(math.MaxInt64, math.MinInt64, 1),
	} {
		frame, body := acknowledge(b)
		d := of(held(b.FirstOffset, b.LastOffset, 1))
		if out, err := rewriteRequest(frame, body, 2, policy.ShareAcknowledge, d); !errors.Is(err, errDecision) || out != nil {
			t.Errorf("%s: %v, %x", name, err, out)
		}
	}
}

// A request that cannot be read is an error on every carrier.
func TestRewriteUnreadable(t *testing.T) {
	for _, c := range []policy.Carrier{policy.ShareFetch, policy.ShareAcknowledge, policy.TxnShareAcknowledge} {
		for name, version := range map[string]int16{"short": 0, "a version of later": 9} {
			if out, err := rewriteRequest([]byte{0, 0, 0, 5, 1}, 4, version, c, &policy.Decision{}); err == nil || out != nil {
				t.Errorf("%s, %s: %v, %x", c, name, err, out)
			}
		}
	}
}

// Every golden request of ours comes out as it is where nothing is edited; a tolerated header keeps its bytes, a tolerated body its meaning.
func TestRewriteNothing(t *testing.T) {
	n := 0
	for _, g := range goldenFrames(t) {
		ours := g.Key == codec.KeyShareFetch || g.Key == codec.KeyShareAcknowledge
		if !ours || g.Kind != "request" || g.Expect == "reject" {
			continue
		}
		_, body, _, _ := codec.DecodeRequestHeader(g.frame, 0)
		carrier := policy.ShareFetch
		if g.Key == codec.KeyShareAcknowledge {
			carrier = policy.ShareAcknowledge
		}
		was := decodeRequest(carrier, g.frame[body:], g.Version)
		d := &policy.Decision{}
		for _, e := range lastEntries(was.topics) {
			d.Partitions = append(d.Partitions, policy.Decided{TopicID: e.topic, Index: e.partition})
		}
		out, err := rewriteRequest(g.frame, body, g.Version, carrier, d)
		if err != nil || !bytes.Equal(out[4:body], g.frame[4:body]) || g.Expect == "ok" && !bytes.Equal(out, g.frame) {
			t.Errorf("%s: %v, %x", g.Name, err, out)
		}
		n++
	}
	if n < 20 {
		t.Errorf("%d golden requests", n)
	}
}

// What a peer sends does not multiply: neither types, nor the tags of a batch that is cut.
func TestRewriteInProportion(t *testing.T) {
	types := bytes.Repeat([]byte{1, 2}, 50_000)
	frame, body := acknowledge(batchOf(0, 100_000-1, types...))
	var pieces []policy.Piece
	for i := range int64(100_000) {
		pieces = append(pieces, same(i, i, int8(types[i])))
	}
	pieces[50_000].Forwarded = policy.Reject
	out, err := rewriteRequest(frame, body, 2, policy.ShareAcknowledge, of(pieces...))
	if err != nil || len(out) != len(frame) {
		t.Errorf("%v: %d bytes of %d", err, len(out), len(frame))
	}
	batch := batchOf(0, 4, 1)
	batch.Tags.Append(1, make([]byte, maxTagCopies/2))
	for parts, cuts := range map[string][]policy.Piece{
		"one":   {same(0, 3, 1), held(4, 4, 1)},
		"two":   {same(0, 1, 1), held(2, 2, 1), same(3, 4, 1)},
		"three": {same(0, 0, 1), held(1, 1, 1), same(2, 2, 1), held(3, 3, 1), same(4, 4, 1)},
	} {
		frame, body := acknowledge(batch)
		_, err := rewriteRequest(frame, body, 2, policy.ShareAcknowledge, of(cuts...))
		if refused := err != nil && strings.Contains(err.Error(), "tags"); refused != (parts == "three") {
			t.Errorf("%s parts: %v", parts, err)
		}
	}
}
