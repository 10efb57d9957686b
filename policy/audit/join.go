package audit

import (
	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// target is what a verdict is about.
type target struct {
	topic     codec.UUID
	partition int32
}

// entry is one partition entry of a request that carries acknowledgements. Entries of one partition form a list: the request may name it
// more than once.
type entry struct {
	target
	batches  codec.Array[codec.AckBatch]
	head     bool              // the first entry of its partition; the fields below are kept there
	next     int               // the next entry of the same partition, -1
	last     int               // the last one
	answered bool              // the reply has a row for it
	code     int16             // of that row; of several the first that is not zero
	message  string            // likewise
	edited   *policy.Decided   // what policies made of it; nil where it was forwarded as asked
	reply    *policy.ReplyEdit // what a policy puts into its row of the answer
}

// smallRequest is up to how many entries a scan finds a partition faster than a map.
const smallRequest = 16

// joiner brings a request's entries and the reply's rows together. It is reused; its memory follows the largest request within reason.
type joiner struct {
	entries []entry
	index   map[target]int // of heads; nil while the request is small
	latest  int            // where the last look-up ended: rows often come in the order of the entries
}

// load reads all entries that carry acknowledgements. One without batches only lists a partition, unless it takes the place of an earlier one.
func (j *joiner) load(r *policy.Request) {
	j.reset()
	for t := range r.Topics.All() {
		for p := range t.Partitions.All() {
			if to := (target{t.TopicID, p.PartitionIndex}); p.Batches.Len() > 0 || j.acknowledges(to) {
				j.add(to, p.Batches)
			}
		}
	}
}

// acknowledges says whether what was read so far acknowledges anything in a partition.
func (j *joiner) acknowledges(t target) bool {
	head := j.find(t)
	return head >= 0 && j.entries[j.entries[head].last].batches.Len() > 0
}

func (j *joiner) reset() {
	const keep = 4096
	if cap(j.entries) > keep {
		j.entries = nil
	}
	clear(j.entries)
	j.entries, j.index, j.latest = j.entries[:0], nil, 0
}

func (j *joiner) add(t target, batches codec.Array[codec.AckBatch]) {
	i := len(j.entries)
	head := j.find(t)
	j.entries = append(j.entries, entry{target: t, batches: batches, head: head < 0, next: -1, last: i})
	if head >= 0 {
		h := &j.entries[head]
		j.entries[h.last].next = i
		j.entries[head].last = i
		return
	}
	switch {
	case j.index != nil:
		j.index[t] = i
	case i == smallRequest:
		j.index = make(map[target]int, 4*smallRequest)
		for n := range j.entries {
			if j.entries[n].head {
				j.index[j.entries[n].target] = n
			}
		}
	}
}

// find is the head entry of a partition, -1 where the request does not acknowledge it.
func (j *joiner) find(t target) int {
	if j.index != nil {
		if i, ok := j.index[t]; ok {
			return i
		}
		return -1
	}
	for n := range j.entries {
		i := j.latest + n
		if i >= len(j.entries) {
			i -= len(j.entries)
		}
		if e := &j.entries[i]; e.head && e.target == t {
			j.latest = i
			return i
		}
	}
	return -1
}

// answer notes the reply's rows at their entries. Rows about anything else (a ShareFetch answers for what it fetched as well) are not ours.
func (j *joiner) answer(rows []policy.PartitionResult) {
	for i := range rows {
		row := &rows[i]
		n := j.find(target{row.TopicID, row.Partition})
		if n < 0 {
			continue
		}
		if e := &j.entries[n]; !e.answered || e.code == 0 {
			e.answered, e.code, e.message = true, row.ErrorCode, row.ErrorMessage
		}
	}
}

// decide notes at the entries what policies made of them. Of a request that was not forwarded there is nothing to note.
func (j *joiner) decide(o *policy.Outcome) {
	d := o.Decision
	if d == nil || closedBefore(o) {
		return
	}
	for i := range d.Partitions {
		p := &d.Partitions[i]
		if !p.Edited() {
			continue
		}
		if n := j.find(target{p.TopicID, p.Index}); n >= 0 {
			j.entries[n].edited = p
		}
	}
	for i := range d.Replies {
		r := &d.Replies[i]
		if r.TopLevel {
			continue
		}
		if n := j.find(target{r.TopicID, r.Partition}); n >= 0 {
			j.entries[n].reply = r
		}
	}
}

// events counts the events of a request: one for each partition that it acknowledges, two where a part of that was withheld.
func (j *joiner) events() (n uint64) {
	for i := range j.entries {
		e := &j.entries[i]
		if !e.head {
			continue
		}
		n++
		if e.edited != nil {
			if forwarded, withheld := fates(e.edited); forwarded && withheld {
				n++
			}
		}
	}
	return n
}

// repeats judges a partition that is named more than once: "duplicate_ack" when all its entries ask the same, "conflicting_acks" when what an
// earlier one asked was not applied, "" for a single entry.
func (j *joiner) repeats(head *entry) string {
	if head.next < 0 {
		return ""
	}
	last := &j.entries[head.last]
	for e := head; e != last; e = &j.entries[e.next] {
		if !sameBatches(e.batches, last.batches) {
			return conflictingAcks
		}
	}
	return duplicateAck
}
