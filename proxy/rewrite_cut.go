package proxy

import (
	"bytes"
	"fmt"
	"math"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// maxTagCopies bounds the bytes that unknown tags of batches take in addition, where a batch is cut: each part carries a copy, and a peer
// chooses how long they are. No batch has tags today.
const maxTagCopies = 1 << 20

// cutter makes the batches of partitions anew from the pieces of a decision. What it takes is in proportion to the batches and the pieces: a
// range is never expanded.
type cutter struct {
	pieces []policy.Piece // those that are not used up
	at     int64          // the offset of pieces[0] that comes next
	renew  bool           // the request may renew
	copied int            // bytes of tags, in all partitions
	out    codec.Array[codec.AckBatch]

	overlaps []policy.Piece // of one batch, clipped to it
	types    []byte         // of the part that is being written
}

func (c *cutter) batches(in codec.Array[codec.AckBatch], pieces []policy.Piece) (codec.Array[codec.AckBatch], error) {
	c.pieces, c.out = pieces, codec.Array[codec.AckBatch]{}
	if len(pieces) > 0 {
		c.at = pieces[0].First
	}
	var last *codec.AckBatch
	for b := range in.All() {
		if err := c.batch(last, b.FirstOffset); err != nil {
			return c.out, err
		}
		last = &b
	}
	if err := c.batch(last, math.MinInt64); err != nil {
		return c.out, err
	}
	if len(c.pieces) > 0 {
		return c.out, fmt.Errorf("%w: a piece from offset %d on that was not asked", errDecision, c.at)
	}
	return c.out, nil
}

// batch writes what is left of b, nil for none, before one that begins at next. Where that is b's last offset, brokers read on, and the
// later type is the one that was decided about.
func (c *cutter) batch(b *codec.AckBatch, next int64) error {
	if b == nil {
		return nil
	}
	if b.LastOffset == next {
		if b.FirstOffset == b.LastOffset {
			return nil
		}
		b.LastOffset--
		if len(b.Types) > 1 {
			b.Types = b.Types[:len(b.Types)-1]
		}
	}
	edited, err := c.overlap(*b)
	switch {
	case err != nil:
		return err
	case edited:
		return c.cut(*b)
	}
	c.out.Append(*b)
	return nil
}

// overlap collects the pieces that make up b, and says whether any of them is edited. A piece may run over the border of two batches.
func (c *cutter) overlap(b codec.AckBatch) (edited bool, err error) {
	if n := len(b.Types); n == 0 || n > 1 && uint64(b.LastOffset)-uint64(b.FirstOffset) != uint64(n-1) || b.FirstOffset > b.LastOffset {
		return false, fmt.Errorf("%w: batch %d-%d with %d types is malformed", errDecision, b.FirstOffset, b.LastOffset, n)
	}
	c.overlaps = c.overlaps[:0]
	for first := b.FirstOffset; ; {
		if len(c.pieces) == 0 || c.at != first {
			return false, fmt.Errorf("%w: no piece begins at offset %d", errDecision, first)
		}
		p := c.pieces[0]
		p.First, p.Last = first, min(p.Last, b.LastOffset)
		if err = c.check(b, &p); err != nil {
			return false, err
		}
		edited = edited || editedPiece(&p)
		c.overlaps = append(c.overlaps, p)
		c.advance(p.Last)
		if p.Last == b.LastOffset {
			return edited, nil
		}
		first = p.Last + 1
	}
}

// advance uses up the pieces up to last, which lies in the first of them. No offset is counted up beyond it: it may be the highest one.
func (c *cutter) advance(last int64) {
	if last < c.pieces[0].Last {
		c.at = last + 1
	} else if c.pieces = c.pieces[1:]; len(c.pieces) > 0 {
		c.at = c.pieces[0].First
	}
}

// check compares a piece with what b asks there, and makes sure that brokers take its type (KIP-932, KIP-1222).
func (c *cutter) check(b codec.AckBatch, p *policy.Piece) error {
	asked := b.Types
	if len(asked) > 1 && p.First <= p.Last {
		asked = asked[p.First-b.FirstOffset : p.Last-b.FirstOffset+1]
	}
	highest := policy.Reject
	if c.renew {
		highest = policy.Renew
	}
	switch {
	case p.Last < p.First || !uniform(asked, byte(p.Asked)):
		return fmt.Errorf("%w: offsets %d-%d do not ask %d", errDecision, p.First, p.Last, p.Asked)
	case !p.Withheld && p.Forwarded != p.Asked && (p.Forwarded < policy.Gap || p.Forwarded > highest):
		return fmt.Errorf("%w: type %d for offsets %d-%d", errDecision, p.Forwarded, p.First, p.Last)
	}
	return nil
}

func uniform(types []byte, t byte) bool { return bytes.Count(types, []byte{t}) == len(types) }

// cut writes the forwarded pieces of b. A run of them stays one batch where b has a type for each offset, and is one batch for each type
// where it has one for all.
func (c *cutter) cut(b codec.AckBatch) error {
	perOffset := len(b.Types) > 1
	tags := -1 // not counted yet
	part := codec.AckBatch{Tags: b.Tags}
	c.types = c.types[:0]
	for _, p := range c.overlaps {
		if p.Withheld {
			continue
		}
		t, n := byte(p.Forwarded), 1
		joins := len(c.types) > 0 && part.LastOffset+1 == p.First && (perOffset || c.types[0] == t)
		if !joins {
			if c.write(part) {
				if tags < 0 {
					tags = tagBytes(b.Tags)
				}
				if c.copied += tags; c.copied > maxTagCopies {
					return fmt.Errorf("unknown tags of a batch that is cut would take more than %d bytes", maxTagCopies)
				}
			}
			part.FirstOffset = p.First
		}
		if perOffset {
			n = int(p.Last-p.First) + 1
		}
		for ; n > 0 && (perOffset || !joins); n-- {
			c.types = append(c.types, t)
		}
		part.LastOffset = p.Last
	}
	c.write(part)
	return nil
}

// write ends a part, if there is one: with one type where all its offsets have the same.
func (c *cutter) write(part codec.AckBatch) bool {
	if len(c.types) == 0 {
		return false
	}
	part.Types = c.types
	if uniform(c.types, c.types[0]) {
		part.Types = c.types[:1]
	}
	c.out.Append(part)
	c.types = c.types[:0]
	return true
}

// tagBytes is about what a section of tags takes.
func tagBytes(tags codec.Tags) int {
	n := 0
	for _, data := range tags.All() {
		n += 2 + len(data)
	}
	return n
}
