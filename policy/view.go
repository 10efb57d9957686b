package policy

import (
	"bytes"
	"sync"

	"github.com/ackproxy/ackproxy/codec"
)

// view is the memory behind a Request's Partitions.
type view struct {
	partitions []Partition
	ranges     []Range
	acquired   []Acquisition
}

var views = sync.Pool{New: func() any { return new(view) }}

const keepRanges = 1 << 10 // that an unused view may hold on to

// fill shows what is left to decide about: withheld pieces are left out, and so are partitions where nothing else is. seen is what was seen
// of the deliveries of each, or nil.
func (v *view) fill(from []Decided, seen [][]Acquisition) []Partition {
	v.reset(from)
	for i := range from {
		d := &from[i]
		start := len(v.ranges)
		for j := range d.Pieces {
			p := &d.Pieces[j]
			if p.Withheld {
				continue
			}
			if n := len(v.ranges) - 1; n >= start && v.ranges[n].Last+1 == p.First && v.ranges[n].Type == p.Forwarded {
				v.ranges[n].Last = p.Last
			} else {
				v.ranges = append(v.ranges, Range{p.First, p.Last, p.Forwarded})
			}
		}
		if end := len(v.ranges); end > start || d.Malformed {
			v.partitions = append(v.partitions,
				Partition{TopicID: d.TopicID, Topic: d.Topic, Index: d.Index, Ranges: v.ranges[start:end:end], Malformed: d.Malformed})
			if seen != nil {
				v.partitions[len(v.partitions)-1].Acquired = v.cut(seen[i], v.ranges[start:end])
			}
		}
	}
	return v.partitions
}

// cut returns the parts of acquisitions that lie in ranges. Both are ascending and disjoint.
func (v *view) cut(seen []Acquisition, ranges []Range) []Acquisition {
	start := len(v.acquired)
	for len(seen) > 0 && len(ranges) > 0 {
		a, r := seen[0], ranges[0]
		if first, last := max(a.First, r.First), min(a.Last, r.Last); first <= last {
			a.First, a.Last = first, last
			v.acquired = append(v.acquired, a)
		}
		if seen[0].Last < r.Last {
			seen = seen[1:]
		} else {
			ranges = ranges[1:]
		}
	}
	end := len(v.acquired)
	return v.acquired[start:end:end]
}

// reset makes room for all there may be, so that the ranges of one view lie in one piece of memory.
func (v *view) reset(from []Decided) {
	pieces := 0
	for i := range from {
		pieces += len(from[i].Pieces)
	}
	if cap(v.ranges) < pieces {
		v.ranges = make([]Range, 0, pieces)
	}
	if cap(v.partitions) < len(from) {
		v.partitions = make([]Partition, 0, len(from))
	}
	v.partitions, v.ranges, v.acquired = v.partitions[:0], v.ranges[:0], v.acquired[:0]
}

// release lets others use the memory.
func (v *view) release() {
	if cap(v.ranges) > keepRanges || cap(v.partitions) > keepRanges || cap(v.acquired) > keepRanges {
		return
	}
	clear(v.partitions[:cap(v.partitions)])
	views.Put(v)
}

// detach copies a request so that nothing of it is shared with a frame that is used again: a policy that was given up on may still read it.
// Conn and Problem are shared; they never change. Partitions are not copied.
func detach(r *Request) *Request {
	c := *r
	c.Partitions, c.Records, c.Deliveries = nil, nil, nil
	c.Frame, c.ClientID = bytes.Clone(r.Frame), bytes.Clone(r.ClientID)
	c.GroupID, c.MemberID, c.TransactionalID = bytes.Clone(r.GroupID), bytes.Clone(r.MemberID), bytes.Clone(r.TransactionalID)
	c.Topics = codec.Array[codec.AckTopic]{}
	for t := range r.Topics.All() {
		c.Topics.Append(t)
	}
	return &c
}
