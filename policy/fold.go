package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

const (
	maxEdits   = 1 << 17 // of a verdict, of both kinds together
	maxTouches = 1 << 20 // pieces that the edits of a verdict may change between them: edits may overlap, so maxEdits is no bound
)

// fold adds what a policy wants to what those before it did. On an error nothing of the verdict is applied.
func (d *Decision) fold(policy string, r *Request, v *Verdict) error {
	if err := v.check(r); err != nil {
		return err
	}
	if len(v.Edits) > 0 {
		if err := d.edit(policy, v); err != nil {
			return err
		}
	}
	d.foldReplies(v.Replies)
	d.DelayForward, d.DelayReply = addDelays(d.DelayForward, v.DelayForward), addDelays(d.DelayReply, v.DelayReply)
	d.foldClose(v)
	return nil
}

// check finds what makes a verdict invalid for this request.
func (v *Verdict) check(r *Request) error {
	if n := len(v.Edits) + len(v.Replies); n > maxEdits {
		return fmt.Errorf("%d edits, more than %d", n, maxEdits)
	}
	for i := range v.Edits {
		if err := v.Edits[i].check(r); err != nil {
			return fmt.Errorf("edit %d: %w", i, err)
		}
	}
	for i := range v.Replies {
		if v.Replies[i].ErrorCode == 0 {
			return fmt.Errorf("reply edit %d: error code 0", i)
		}
	}
	switch {
	case v.DelayForward < 0 || v.DelayReply < 0:
		return errors.New("a negative delay")
	case v.Close > CloseTruncated:
		return fmt.Errorf("close %d is not known", v.Close)
	case v.Close == CloseTruncated && v.CloseAfter < 0:
		return fmt.Errorf("close after %d bytes", v.CloseAfter)
	}
	return nil
}

func (e *Edit) check(r *Request) error {
	switch {
	case e.First > e.Last:
		return fmt.Errorf("first offset %d, last %d", e.First, e.Last)
	case e.Action > Withhold:
		return fmt.Errorf("action %d is not known", e.Action)
	case e.Action == Withhold:
		return nil
	case e.Type < Gap || e.Type > Renew:
		return fmt.Errorf("acknowledgement type %d is not known", e.Type)
	case e.Type > highestType(r):
		return errors.New("the request cannot carry Renew")
	case e.Type == Release && r.Carrier == TxnShareAcknowledge:
		return errors.New("a transaction cannot carry Release") // KIP-1289: aborting it is what releases
	}
	return nil
}

// edit applies a verdict's edits, in their order within each partition. The new pieces are made beside the old ones, so that an error
// leaves these as they were.
func (d *Decision) edit(policy string, v *Verdict) error {
	type target struct{ partition, edit int }
	targets := make([]target, 0, len(v.Edits))
	at := d.places(len(v.Edits))
	for i := range v.Edits {
		if p := at(&v.Edits[i]); p >= 0 && len(d.Partitions[p].Pieces) > 0 {
			targets = append(targets, target{p, i})
		}
	}
	slices.SortStableFunc(targets, func(a, b target) int { return cmp.Compare(a.partition, b.partition) })

	type change struct {
		partition int
		pieces    []Piece
	}
	var changes []change
	e := editor{policy: policy, reason: v.Reason, room: MaxPieces}
	for i := range d.Partitions {
		e.room -= len(d.Partitions[i].Pieces)
	}
	for len(targets) > 0 {
		p := targets[0].partition
		e.edits = e.edits[:0]
		for len(targets) > 0 && targets[0].partition == p {
			e.edits = append(e.edits, &v.Edits[targets[0].edit])
			targets = targets[1:]
		}
		pieces, err := e.apply(d.Partitions[p].Pieces)
		if err != nil {
			return err
		}
		changes = append(changes, change{p, pieces})
	}
	for _, c := range changes {
		d.Partitions[c.partition].Pieces = c.pieces
	}
	return nil
}

// places finds the partitions of so many edits, -1 for one that the request does not acknowledge anything in.
func (d *Decision) places(edits int) func(*Edit) int {
	if len(d.Partitions) <= fewPartitions || edits == 1 {
		return func(e *Edit) int { return find(d.Partitions, e.TopicID, e.Partition) }
	}
	index := make(map[partitionKey]int, len(d.Partitions))
	for i := range d.Partitions {
		index[partitionKey{d.Partitions[i].TopicID, d.Partitions[i].Index}] = i
	}
	return func(e *Edit) int {
		if i, ok := index[partitionKey{e.TopicID, e.Partition}]; ok {
			return i
		}
		return -1
	}
}

// foldReplies keeps the first error for each place, as a withheld piece keeps its code: a later policy cannot see it, and so does not know
// what it would hide.
func (d *Decision) foldReplies(edits []ReplyEdit) {
	if len(edits) == 0 {
		return
	}
	type place struct {
		top bool
		key partitionKey
	}
	where := func(e *ReplyEdit) place {
		if e.TopLevel {
			return place{top: true}
		}
		return place{key: partitionKey{e.TopicID, e.Partition}}
	}
	taken := make(map[place]bool, len(d.Replies)+len(edits))
	for i := range d.Replies {
		taken[where(&d.Replies[i])] = true
	}
	for i := range edits {
		if w := where(&edits[i]); !taken[w] {
			taken[w] = true
			d.Replies = append(d.Replies, edits[i])
		}
	}
}

// addDelays adds up, to at most the longest Duration.
func addDelays(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// foldClose keeps the place that comes first on the way of the request and its answer.
func (d *Decision) foldClose(v *Verdict) {
	rank := [...]int{CloseBefore: 0, CloseAfter: 1, CloseTruncated: 2, CloseReplied: 3, CloseNever: 4}
	earlier := rank[v.Close] < rank[d.Close]
	if earlier || v.Close == CloseTruncated && d.Close == CloseTruncated && v.CloseAfter < d.CloseAfter {
		d.Close, d.CloseAfter = v.Close, 0
		if v.Close == CloseTruncated {
			d.CloseAfter = v.CloseAfter
		}
	}
}
