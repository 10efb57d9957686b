package proxy

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// errDecision is a mistake of ours: a decision that was not made for this request. Nothing of it may reach a broker.
var errDecision = errors.New("a decision does not fit its request")

// target is what one verdict of the protocol is about.
type target struct {
	topic     codec.UUID
	partition int32
}

// rewriteRequest returns the frame to forward instead of frame, a request whose body begins at body: it acknowledges what d says. Header,
// session epoch, member, and partitions that d does not edit stay as they are, so that the broker's session moves on as the client expects
// (KIP-932). A partition that nothing is left of disappears from acknowledgements, and is still fetched from in a ShareFetch.
//
// Brokers apply the last entry of a partition that is named twice, and d is about that one; where it has no batches, d does not name the
// partition. Where d edits the partition, the earlier entries lose their batches: in an acknowledgement the last one may disappear.
//
// frame is only read. An error means that no frame was made: the request cannot be read, or d is not about it.
func rewriteRequest(frame []byte, body int, version int16, carrier policy.Carrier, d *policy.Decision) ([]byte, error) {
	r := &rewriter{d: d, keepEmpty: carrier == policy.ShareFetch}
	out, err := r.body(append(make([]byte, 0, len(frame)+256), frame[:body]...), frame[body:], version, carrier)
	if err == nil {
		err = checkRewritten(out, body, version, carrier)
	}
	if err != nil {
		return nil, fmt.Errorf("rewrite %s: %w", carrier, err)
	}
	return sized(out), nil
}

// body appends the new body to dst.
func (r *rewriter) body(dst, body []byte, version int16, carrier policy.Carrier) ([]byte, error) {
	at := len(dst)
	switch carrier {
	case policy.ShareFetch:
		var m codec.ShareFetchRequest
		if err := readable(m.Decode(body, at, version)); err != nil {
			return nil, err
		}
		if err := r.rewrite(&m.Topics, m.IsRenewAck); err != nil {
			return nil, err
		}
		return m.Append(dst, version), nil
	case policy.ShareAcknowledge:
		var m codec.ShareAcknowledgeRequest
		if err := readable(m.Decode(body, at, version)); err != nil {
			return nil, err
		}
		had := m.IsRenewAck && renews(m.Topics)
		if err := r.rewrite(&m.Topics, m.IsRenewAck); err != nil {
			return nil, err
		}
		m.IsRenewAck = m.IsRenewAck && (!had || renews(m.Topics))
		return m.Append(dst, version), nil
	}
	var m codec.TxnShareAcknowledgeRequest
	if err := readable(m.Decode(body, at, version)); err != nil {
		return nil, err
	}
	if err := r.rewrite(&m.Topics, false); err != nil {
		return nil, err
	}
	return m.Append(dst, version), nil
}

// checkRewritten reads what was written: cutting batches may lead over a limit of the broker's readers, which would close the connection.
func checkRewritten(frame []byte, body int, version int16, carrier policy.Carrier) error {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	req := &s.req
	*req = policy.Request{}
	if s.decode(req, carrier, frame, body, version); req.Decode != codec.Exact {
		return fmt.Errorf("the result is %v: %w", req.Decode, req.Problem)
	}
	return nil
}

// renews says whether any offset is renewed. A type 4 without the flag of KIP-1222 is an error, and so the flag goes with the last of them:
// also entries that a later one replaces count, since brokers check them.
func renews(topics codec.Array[codec.AckTopic]) bool {
	for topic := range topics.All() {
		for p := range topic.Partitions.All() {
			for b := range p.Batches.All() {
				if bytes.IndexByte(b.Types, byte(policy.Renew)) >= 0 {
					return true
				}
			}
		}
	}
	return false
}

// rewriter makes the topics of one request anew.
type rewriter struct {
	d         *policy.Decision
	keepEmpty bool // an entry without batches stays: it is fetched from
	decided   map[target]*decided
	cut       cutter
}

// decided is a partition of the decision, and its entries in the request.
type decided struct {
	*policy.Decided
	edited bool
	left   int // entries with batches that are still to come
}

// rewrite replaces topics by what the decision makes of them. With renew the request may renew.
func (r *rewriter) rewrite(topics *codec.Array[codec.AckTopic], renew bool) error {
	if err := r.match(*topics); err != nil {
		return err
	}
	r.cut.renew = renew
	var out codec.Array[codec.AckTopic]
	for topic := range topics.All() {
		var err error
		before := topic.Partitions.Len()
		if topic.Partitions, err = r.partitions(topic.TopicID, topic.Partitions); err != nil {
			return fmt.Errorf("topic %s: %w", topic.TopicID, err)
		}
		if before == 0 || topic.Partitions.Len() > 0 {
			out.Append(topic)
		}
	}
	*topics = out
	return nil
}

// match finds the entries of each partition, and makes sure that request and decision name the same partitions.
func (r *rewriter) match(topics codec.Array[codec.AckTopic]) error {
	all := r.d.Partitions
	r.decided = make(map[target]*decided, len(all))
	for i := range all {
		t := target{all[i].TopicID, all[i].Index}
		if r.decided[t] != nil || all[i].Malformed && len(all[i].Pieces) > 0 {
			return fmt.Errorf("%w: partition %d of topic %s twice, or malformed with pieces", errDecision, t.partition, t.topic)
		}
		r.decided[t] = &decided{Decided: &all[i], edited: all[i].Edited()}
	}
	found, strange := 0, map[target]bool{} // asked, but for an empty entry that comes later
	for topic := range topics.All() {
		for p := range topic.Partitions.All() {
			t := target{topic.TopicID, p.PartitionIndex}
			if p.Batches.Len() == 0 {
				delete(strange, t)
				continue
			}
			e := r.decided[t]
			if e == nil {
				strange[t] = true
				continue
			}
			if e.left++; e.left == 1 {
				found++
			}
		}
	}
	for t := range strange {
		return fmt.Errorf("%w: nothing about partition %d of topic %s", errDecision, t.partition, t.topic)
	}
	if found < len(all) {
		return fmt.Errorf("%w: %d partitions, and the request acknowledges %d", errDecision, len(all), found)
	}
	return nil
}

func (r *rewriter) partitions(topic codec.UUID, in codec.Array[codec.AckPartition]) (out codec.Array[codec.AckPartition], err error) {
	for p := range in.All() {
		had := p.Batches.Len() > 0
		if had {
			if p.Batches, err = r.batches(target{topic, p.PartitionIndex}, p.Batches); err != nil {
				return out, fmt.Errorf("partition %d: %w", p.PartitionIndex, err)
			}
		}
		if !had || p.Batches.Len() > 0 || r.keepEmpty {
			out.Append(p)
		}
	}
	return out, nil
}

// batches returns what is left of one entry.
func (r *rewriter) batches(t target, in codec.Array[codec.AckBatch]) (codec.Array[codec.AckBatch], error) {
	e := r.decided[t]
	if e == nil { // replaced by an empty one
		return in, nil
	}
	e.left--
	switch {
	case !e.edited:
		return in, nil
	case e.left > 0: // replaced by a later entry
		return codec.Array[codec.AckBatch]{}, nil
	}
	return r.cut.batches(in, e.Pieces)
}

func editedPiece(p *policy.Piece) bool { return p.Withheld || p.Forwarded != p.Asked }
