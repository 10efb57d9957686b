package e2e

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/e2e/tap"
	"github.com/ackproxy/ackproxy/policy"
)

// rewriteGen makes random requests about records that are held, and random verdicts about them.
type rewriteGen struct {
	*rand.Rand
	tally   *rewriteTally
	strange map[tap.Target]bool // the broker may refuse these
	kinds   int8                // acknowledgement types that the request may use
	tagged  bool
}

func (g *rewriteGen) one(n int) bool { return g.IntN(n) == 0 }

// rewriteEntry is one entry of a request.
type rewriteEntry struct {
	tap.Target
	batches []kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch
}

// tired is the delivery from which on a record is only accepted: a broker hands out records one by one where many are near their limit.
const tired = 3

// entries acknowledges some of what is held. What is tired is accepted, always when the session is closed.
func (g *rewriteGen) entries(held map[tap.Target]map[int64]int16, closing bool) (all []rewriteEntry) {
	targets := slices.SortedFunc(maps.Keys(held), func(a, b tap.Target) int {
		return cmp.Or(slices.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition))
	})
	g.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
	for _, t := range targets {
		if g.one(8) {
			all = append(all, rewriteEntry{Target: t})
		}
		if !closing && g.one(3) {
			continue
		}
		e := rewriteEntry{t, g.batches(held[t], closing)}
		if len(e.batches) == 0 {
			continue
		}
		if g.one(10) { // an earlier entry does not count
			all = append(all, rewriteEntry{t, g.batches(held[t], false)})
			g.tally.repeated++
		}
		switch g.IntN(40) {
		case 0:
			e.batches = append(e.batches, g.batch(e.batches[len(e.batches)-1].LastOffset+1_000_000, []int8{1}))
			g.strange[t] = true
			g.tally.strange++
		case 1:
			e.batches = g.malformed()
			g.tally.malformed++
		}
		all = append(all, e)
	}
	if g.one(4) {
		g.Shuffle(len(all), func(i, j int) {
			if all[i].Target != all[j].Target {
				all[i], all[j] = all[j], all[i]
			}
		})
	}
	return all
}

func (g *rewriteGen) batches(held map[int64]int16, closing bool) (all []kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch) {
	var types []int8
	first, kind := int64(0), int8(1)
	end := func() {
		if len(types) > 0 {
			all = append(all, g.batch(first, types))
		}
		types = nil
	}
	for _, o := range slices.Sorted(maps.Keys(held)) {
		old := held[o] >= tired
		if g.one(4) && !(old && closing) {
			continue
		}
		if n := len(types); n > 0 && (o != first+int64(n) || g.one(6)) {
			end()
		}
		if kind = g.kind(kind); old {
			kind = policy.Accept
		}
		if len(types) == 0 {
			first = o
		}
		types = append(types, kind)
	}
	end()
	return all
}

// kind goes on with a type, or draws another.
func (g *rewriteGen) kind(last int8) int8 {
	if g.one(3) {
		return int8(g.IntN(int(g.kinds)))
	}
	return last
}

// batch has one type for all where it can, or one each.
func (g *rewriteGen) batch(first int64, types []int8) kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch {
	b := kmsg.NewShareAcknowledgeRequestTopicPartitionAcknowledgementBatch()
	b.FirstOffset, b.LastOffset = first, first+int64(len(types))-1
	same := !slices.ContainsFunc(types, func(k int8) bool { return k != types[0] })
	if same && g.one(2) {
		types = types[:1]
	}
	b.AcknowledgeTypes = types
	if g.tagged && g.one(4) {
		b.UnknownTags.Set(uint32(7+g.IntN(5)), []byte("tag"))
	}
	return b
}

func (g *rewriteGen) malformed() []kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch {
	b := g.batch(0, []int8{1, 2, 3})
	switch g.IntN(4) {
	case 0:
		b.LastOffset = 7
	case 1:
		b.FirstOffset, b.LastOffset = 5, 2
	case 2:
		b.AcknowledgeTypes = nil
	default:
		b.AcknowledgeTypes = []int8{9}
	}
	return []kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{b}
}

// withheldCodes are what a verdict withholds with; 0 stands for 121.
var withheldCodes = []int16{0, 121, 121, 42, 56, 56, 124, 3}

// verdict is about what a request asks. Records that are tired are left alone, with their partition.
func (g *rewriteGen) verdict(x *tap.Exchange, held map[tap.Target]map[int64]int16) (v policy.Verdict) {
	code := withheldCodes[g.IntN(len(withheldCodes))]
	for _, t := range x.Asked {
		acks := x.Acks[t]
		if len(acks) == 0 && g.one(4) { // of which nothing is asked, or the broker will refuse it
			v.Edits = append(v.Edits, g.edit(t, 0, 1<<40, code))
		}
		if len(acks) == 0 || g.one(3) || hasTired(acks, held[t]) {
			continue
		}
		offsets := slices.Sorted(maps.Keys(acks))
		first, last := offsets[0]-2, offsets[len(offsets)-1]+2
		if g.one(4) {
			v.Edits = append(v.Edits, g.edit(t, first, last, code))
			continue
		}
		for range 1 + g.IntN(4) {
			from := first + g.Int64N(last-first+1)
			if g.one(3) {
				code = withheldCodes[g.IntN(len(withheldCodes))]
			}
			v.Edits = append(v.Edits, g.edit(t, from, min(from+g.Int64N(12), last), code))
		}
	}
	for _, t := range x.Asked {
		if len(x.Acks[t]) > 0 && g.one(6) {
			v.Replies = append(v.Replies, policy.ReplyEdit{TopicID: t.Topic, Partition: t.Partition, ErrorCode: 124, Message: "no"})
			g.tally.replies++
		}
	}
	if g.one(30) && len(x.Acks) > 0 { // nobody is asked about other requests
		v.Replies = append(v.Replies, policy.ReplyEdit{TopLevel: true, ErrorCode: 29})
		g.tally.top++
	}
	return v
}

func hasTired(acks map[int64]int8, held map[int64]int16) bool {
	for o := range acks {
		if held[o] >= tired {
			return true
		}
	}
	return false
}

func (g *rewriteGen) edit(t tap.Target, first, last int64, code int16) policy.Edit {
	e := policy.Edit{TopicID: t.Topic, Partition: t.Partition, First: first, Last: last}
	if g.one(3) {
		e.Action, e.Type = policy.Change, int8(g.IntN(int(g.kinds)))
	} else {
		e.Action, e.ErrorCode = policy.Withhold, code
	}
	return e
}
