package dlq

import (
	"context"
	"math"
	"sort"
	"time"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/dlq/letter"
)

// part is what a request wants dead-lettered of one partition.
type part struct {
	asked *policy.Partition
	items []*item
	over  bool // more offsets than the policy looks at: nothing of it is dead-lettered

	looked bool   // for the topic's name, where that did not pass by
	name   string // which the source told; empty: it did not
}

// wanted says whether a request asks for anything that may have to be dead-lettered. It decides about most requests, cheaply: few reject.
func (c *Config) wanted(r *policy.Request) bool {
	for i := range r.Partitions {
		p := &r.Partitions[i]
		for _, asked := range p.Ranges {
			switch {
			case asked.Type == policy.Reject && c.OnReject:
				return true
			case asked.Type == policy.Release && c.OnReleaseAtLimit && redelivered(p):
				return true
			}
		}
	}
	return false
}

// redelivered says whether any delivery of the partition may have been a last one: no broker has a limit below 2.
func redelivered(p *policy.Partition) bool {
	for i := range p.Acquired {
		if p.Acquired[i].DeliveryCount > 1 {
			return true
		}
	}
	return false
}

// collect lists the offsets to dead-letter, at most as many as the configuration allows. Where the partitions before have used that up, a
// partition is over.
func (c *Config) collect(r *policy.Request, g group) []part {
	var parts []part
	left := int64(c.MaxLetters)
	for i := range r.Partitions {
		p := part{asked: &r.Partitions[i]}
		runs := c.runs(p.asked, g)
		if n := count(runs); n > left {
			p.over = true
		} else {
			left -= n
			p.items = items(runs, n)
		}
		if p.over || len(p.items) > 0 {
			parts = append(parts, p)
		}
	}
	return parts
}

// run is a run of offsets to dead-letter, of one delivery.
type run struct {
	policy.Acquisition      // a DeliveryCount of 0: not seen
	asked              int8 // the acknowledgement type
}

// runs says what is to be dead-lettered of a partition. Ranges are not expanded, and may be of any length.
func (c *Config) runs(p *policy.Partition, g group) []run {
	var runs []run
	for _, asked := range p.Ranges {
		switch {
		case asked.Type == policy.Reject && c.OnReject:
			runs = append(runs, rejected(p.Acquired, asked)...)
		case asked.Type == policy.Release && c.OnReleaseAtLimit:
			for _, a := range within(p.Acquired, asked) {
				if g.limit > 0 && int(a.DeliveryCount) >= g.limit {
					runs = append(runs, run{a, asked.Type})
				}
			}
		}
	}
	return runs
}

// rejected is all of a range, also the parts of it that were not seen.
func rejected(acquired []policy.Acquisition, asked policy.Range) []run {
	var runs []run
	unseen := func(first, last int64) {
		if first <= last {
			runs = append(runs, run{policy.Acquisition{First: first, Last: last}, asked.Type})
		}
	}
	next := asked.First
	for _, a := range within(acquired, asked) {
		unseen(next, a.First-1)
		runs = append(runs, run{a, asked.Type})
		if a.Last == asked.Last { // and there may be no offset after it
			return runs
		}
		next = a.Last + 1
	}
	unseen(next, asked.Last)
	return runs
}

// within cuts acquisitions to a range.
func within(acquired []policy.Acquisition, asked policy.Range) []policy.Acquisition {
	var cut []policy.Acquisition
	from := sort.Search(len(acquired), func(i int) bool { return acquired[i].Last >= asked.First })
	for _, a := range acquired[from:] {
		if a.First > asked.Last {
			break
		}
		a.First, a.Last = max(a.First, asked.First), min(a.Last, asked.Last)
		cut = append(cut, a)
	}
	return cut
}

// count is how many offsets the runs have, math.MaxInt64 where that is too small a number.
func count(runs []run) (n int64) {
	for _, r := range runs {
		length := uint64(r.Last) - uint64(r.First) + 1
		if length == 0 || length > uint64(math.MaxInt64-n) {
			return math.MaxInt64
		}
		n += int64(length)
	}
	return n
}

// items are the n offsets of the runs.
func items(runs []run, n int64) []*item {
	memory, list := make([]item, n), make([]*item, 0, n)
	for _, r := range runs {
		for i := range r.Last - r.First + 1 {
			it := &memory[len(list)]
			it.offset, it.asked, it.count, it.lockUntil = r.First+i, r.asked, r.DeliveryCount, r.LockUntil
			list = append(list, it)
		}
	}
	return list
}

// lockLeft is the shortest time that any of the locks is left; otherwise where none is known.
func lockLeft(parts []part, now time.Time, otherwise time.Duration) time.Duration {
	left, known := otherwise, false
	for i := range parts {
		for _, it := range parts[i].items {
			if it.lockUntil.IsZero() {
				continue
			}
			if d := it.lockUntil.Sub(now); !known || d < left {
				left, known = d, true
			}
		}
	}
	return max(left, 0)
}

// lockLeft is the shortest time that any lock is left of what the request rejects, or what else it acknowledges while that can be in time.
func (w *work) lockLeft(now time.Time) time.Duration {
	left := lockLeft(w.parts, now, w.group.lock)
	for i := range w.request.Partitions {
		for _, a := range w.request.Partitions[i].Acquired {
			if d := a.LockUntil.Sub(now); d > 0 { // else it is over, or not known
				left = min(left, d)
			}
		}
	}
	return left
}

// topic is the name of a partition's topic: as it passed by, else as the source tells it, which is asked once, for half of the time until ctx ends;
// empty where nobody knows.
func (p *part) topic(ctx context.Context, fetch *fetching) string {
	if p.asked.Topic != "" {
		return p.asked.Topic
	}
	if p.looked {
		return p.name
	}
	if end, ok := ctx.Deadline(); ok { // some letters can do without
		limited, cancel := context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
		ctx = limited
	}
	p.looked, p.name = true, fetch.name(ctx, "")
	return p.name
}

// letter makes the letter of an item; its payload and the name of its topic come later.
func (w *work) letter(of *part, it *item) *letter.Letter {
	r, p := w.request, of.asked
	l := &letter.Letter{
		Group: string(r.GroupID), Member: string(r.MemberID), ClientID: string(r.ClientID), Principal: r.Principal.Name,
		TopicID: p.TopicID, Partition: p.Index, Offset: it.offset, DeliveryCount: it.count,
		Reason: letter.ClientReject, Message: letter.MessageRejected, API: apiNames[r.Carrier], AuditRef: auditRef(r), Time: w.began,
	}
	if it.asked == policy.Release {
		l.Reason, l.Message = letter.ReleaseAtLimit, letter.MessageAtLimit
	}
	if asked, ok := w.original(p, it.offset); ok && asked != it.asked {
		l.Reason = letter.ByPolicy
	}
	return l
}

// original is the type that the client asked for, before other policies changed it.
func (w *work) original(p *policy.Partition, offset int64) (int8, bool) {
	if w.asked == nil {
		w.asked = make(map[partitionKey][]policy.Piece)
		asked, _ := policy.Asked(w.request) // an error leaves it empty: then no policy is asked either
		for i := range asked {
			w.asked[partitionKey{asked[i].TopicID, asked[i].Index}] = asked[i].Pieces
		}
	}
	pieces := w.asked[partitionKey{p.TopicID, p.Index}]
	at := sort.Search(len(pieces), func(j int) bool { return pieces[j].Last >= offset })
	if at == len(pieces) || pieces[at].First > offset {
		return 0, false
	}
	return pieces[at].Asked, true
}

type partitionKey struct {
	topic codec.UUID
	index int32
}

var apiNames = [...]string{policy.ShareFetch: "ShareFetch", policy.ShareAcknowledge: "ShareAcknowledge",
	policy.TxnShareAcknowledge: "TxnShareAcknowledge"}
