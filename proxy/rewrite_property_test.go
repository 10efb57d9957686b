package proxy

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// message is a request as it was decoded.
type message struct {
	topics  codec.Array[codec.AckTopic]
	rest    any // the message without its topics, and without the flag of ShareAcknowledge
	renew   bool
	outcome codec.Outcome
}

func decodeRequest(carrier policy.Carrier, body []byte, version int16) (is message) {
	switch carrier {
	case policy.ShareFetch:
		var m codec.ShareFetchRequest
		is.outcome, _ = m.Decode(body, 0, version)
		is.topics, is.renew, m.Topics = m.Topics, m.IsRenewAck, codec.Array[codec.AckTopic]{}
		is.rest = m
	case policy.ShareAcknowledge:
		var m codec.ShareAcknowledgeRequest
		is.outcome, _ = m.Decode(body, 0, version)
		is.topics, is.renew, m.Topics, m.IsRenewAck = m.Topics, m.IsRenewAck, codec.Array[codec.AckTopic]{}, false
		is.rest = m
	default:
		var m codec.TxnShareAcknowledgeRequest
		is.outcome, _ = m.Decode(body, 0, version)
		is.topics, m.Topics = m.Topics, codec.Array[codec.AckTopic]{}
		is.rest = m
	}
	return is
}

// TestRewriteProperties makes random requests and decisions, and compares what a broker would read with a model that knows single offsets
// only; then a model of a broker answers, and the client finds the code that the rules give for each partition it asked about.
func TestRewriteProperties(t *testing.T) {
	edited, merged := 0, 0
	for seed := range uint64(3000) {
		g := newGen(seed)
		frame, body := g.request()
		before := slices.Clone(frame)
		was := decodeRequest(g.carrier, frame[body:], g.version)
		d := g.decision(was.topics)
		out, err := rewriteRequest(frame, body, g.version, g.carrier, d)
		if err == nil {
			err = checkRequest(g, d, was, frame, out, body)
		}
		if err == nil {
			err = checkMerge(g, d, decodeRequest(g.carrier, out[body:], g.version), &merged)
		}
		if err == nil && !bytes.Equal(frame, before) {
			err = fmt.Errorf("the frame was written to")
		}
		if err != nil {
			t.Fatalf("seed %d, %s v%d: %v\n%x\n%+v\n%x", seed, g.carrier, g.version, err, frame, d, out)
		}
		if slices.ContainsFunc(d.Partitions, func(p policy.Decided) bool { return p.Edited() }) {
			edited++
		}
	}
	if edited < 1000 || merged < 700 {
		t.Errorf("%d requests edited, %d answers merged", edited, merged)
	}
}

func checkRequest(g *gen, d *policy.Decision, was message, frame, out []byte, body int) error {
	is := decodeRequest(g.carrier, out[body:], g.version)
	switch {
	case is.outcome != codec.Exact:
		return fmt.Errorf("decodes %v", is.outcome)
	case len(out) != int(be32(out))+4 || !bytes.Equal(out[4:body], frame[4:body]):
		return fmt.Errorf("size or header differ")
	case !reflect.DeepEqual(is.rest, was.rest):
		return fmt.Errorf("%+v became %+v", was.rest, is.rest)
	case g.carrier == policy.ShareFetch && is.renew != was.renew:
		return fmt.Errorf("the renew flag of a ShareFetch changed")
	case g.carrier == policy.ShareAcknowledge && is.renew != (was.renew && (anyFour(is.topics) || !anyFour(was.topics))):
		return fmt.Errorf("renew flag %v, was %v", is.renew, was.renew)
	}
	if err := checkEntries(g, d, was, is); err != nil {
		return err
	}
	now := lastEntries(is.topics)
	for _, p := range d.Partitions {
		i := slices.IndexFunc(now, func(e entryOf) bool { return e.target == target{p.TopicID, p.Index} })
		var left codec.Array[codec.AckBatch]
		if i >= 0 {
			left = now[i].batches
			now = slices.Delete(now, i, i+1)
		}
		if err := checkOffsets(p, was, left, is.renew); err != nil {
			return fmt.Errorf("partition %v/%d: %w", p.TopicID, p.Index, err)
		}
	}
	if len(now) > 0 {
		return fmt.Errorf("acknowledged without being asked: %v", now)
	}
	return nil
}

func be32(p []byte) uint32 {
	return uint32(p[0])<<24 | uint32(p[1])<<16 | uint32(p[2])<<8 | uint32(p[3])
}

func anyFour(topics codec.Array[codec.AckTopic]) bool {
	for topic := range topics.All() {
		for p := range topic.Partitions.All() {
			for b := range p.Batches.All() {
				if slices.Contains(b.Types, 4) {
					return true
				}
			}
		}
	}
	return false
}

// checkOffsets compares what is left of a partition with each offset's fate, and with the rules that brokers check.
func checkOffsets(p policy.Decided, was message, left codec.Array[codec.AckBatch], renew bool) error {
	if p.Malformed {
		return nil // checkEntries has seen that it is as it was
	}
	before := lastEntries(was.topics)
	entry := before[slices.IndexFunc(before, func(e entryOf) bool { return e.target == target{p.TopicID, p.Index} })]
	all, _ := expand(entry.batches)
	var want []offsetAck
	for _, o := range all {
		i := slices.IndexFunc(p.Pieces, func(p policy.Piece) bool { return p.First <= o.offset && o.offset <= p.Last })
		if !p.Pieces[i].Withheld {
			want = append(want, offsetAck{o.offset, p.Pieces[i].Forwarded, o.tags})
		}
	}
	got, ok := expand(left)
	if !ok || !slices.Equal(got, want) {
		return fmt.Errorf("legal %v, %v, want %v", ok, got, want)
	}
	if !renew && slices.ContainsFunc(got, func(o offsetAck) bool { return o.kind == policy.Renew }) {
		return fmt.Errorf("renews without the flag")
	}
	for b := range entry.batches.All() {
		touched := slices.ContainsFunc(p.Pieces, func(p policy.Piece) bool {
			return p.First <= b.LastOffset && b.FirstOffset <= p.Last && isEdited(p)
		})
		if !touched && !slices.ContainsFunc(slices.Collect(left.All()), func(l codec.AckBatch) bool { return encodedBatch(l) == encodedBatch(b) }) {
			return fmt.Errorf("batch %+v has another shape", b)
		}
	}
	return nil
}

func isEdited(p policy.Piece) bool { return p.Withheld || p.Asked != p.Forwarded }

func encodedBatch(b codec.AckBatch) string {
	var p codec.AckPartition
	p.Batches.Append(b)
	return encodedEntry(p)
}

func encodedEntry(p codec.AckPartition) string {
	topic := codec.AckTopic{}
	topic.Partitions.Append(p)
	var m codec.ShareFetchRequest
	m.Topics.Append(topic)
	return string(m.Append(nil, 0))
}

// checkEntries compares the lists of topics and partitions: entries that the decision does not edit have their bytes, the others all but
// their batches; those that lost them are gone, or only without them in a ShareFetch.
func checkEntries(g *gen, d *policy.Decision, was, is message) error {
	var want, got []string
	left := map[target]int{}
	for topic := range was.topics.All() {
		for p := range topic.Partitions.All() {
			left[target{topic.TopicID, p.PartitionIndex}] += min(1, p.Batches.Len())
		}
	}
	for topic := range was.topics.All() {
		head := fmt.Sprint(topic.TopicID, tagText(topic.Tags))
		var entries []string
		for p := range topic.Partitions.All() {
			t := target{topic.TopicID, p.PartitionIndex}
			left[t] -= min(1, p.Batches.Len())
			i := slices.IndexFunc(d.Partitions, func(p policy.Decided) bool { return target{p.TopicID, p.Index} == t })
			if p.Batches.Len() > 0 && i >= 0 && slices.ContainsFunc(d.Partitions[i].Pieces, isEdited) {
				gone := left[t] > 0 || !slices.ContainsFunc(d.Partitions[i].Pieces, func(p policy.Piece) bool { return !p.Withheld })
				if p.Batches = (codec.Array[codec.AckBatch]{}); gone && g.carrier != policy.ShareFetch {
					continue
				}
				if !gone {
					p.Tags.Append(1<<20, []byte("edited"))
				}
			}
			entries = append(entries, encodedEntry(p))
		}
		if len(entries) > 0 || topic.Partitions.Len() == 0 {
			want = append(append(want, head), entries...)
		}
	}
	for topic := range is.topics.All() {
		got = append(got, fmt.Sprint(topic.TopicID, tagText(topic.Tags)))
		for p := range topic.Partitions.All() {
			if n := len(got); n < len(want) && encodedEntry(p) != want[n] && p.Batches.Len() > 0 { // only where it may differ
				p.Batches = codec.Array[codec.AckBatch]{}
				p.Tags.Append(1<<20, []byte("edited"))
			}
			got = append(got, encodedEntry(p))
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("entries\n%q, want\n%q", got, want)
	}
	return nil
}
