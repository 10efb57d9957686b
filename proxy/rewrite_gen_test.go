package proxy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// gen makes random requests, decisions about them, and answers to them.
type gen struct {
	*rand.Rand
	carrier policy.Carrier
	version int16
	renew   bool
}

func newGen(seed uint64) *gen {
	g := &gen{Rand: rand.New(rand.NewPCG(seed, 78))}
	if g.carrier = policy.Carrier(g.IntN(3)); g.carrier != policy.TxnShareAcknowledge {
		g.version = int16(g.IntN(3))
		g.renew = g.version == 2 && g.one(2)
	}
	return g
}

// one is true once in n times.
func (g *gen) one(n int) bool { return g.IntN(n) == 0 }

func (g *gen) tags(to *codec.Tags) {
	for n := uint32(1); g.one(4); n++ {
		to.Append(7*n, fmt.Appendf(nil, "tag %d", g.IntN(1000)))
	}
}

func (g *gen) topicID() codec.UUID { return codec.UUID{15: byte(1 + g.IntN(3))} }

// ackType is up to Renew where the request has the flag.
func (g *gen) ackType() int8 {
	if g.renew {
		return int8(g.IntN(5))
	}
	return int8(g.IntN(4))
}

func (g *gen) batches() (out codec.Array[codec.AckBatch]) {
	at := []int64{0, 1 << 40, math.MaxInt64 - 150}[g.IntN(3)]
	for range 1 + g.IntN(5) {
		b := codec.AckBatch{FirstOffset: at + int64(g.IntN(3)), Types: []byte{byte(g.ackType())}}
		b.LastOffset = b.FirstOffset + int64(g.IntN(12))
		at = b.LastOffset + 1
		if n := int(b.LastOffset - b.FirstOffset); n > 0 && g.one(2) {
			for range n {
				t := b.Types[len(b.Types)-1]
				if g.one(2) {
					t = byte(g.ackType())
				}
				b.Types = append(b.Types, t)
			}
		}
		g.tags(&b.Tags)
		out.Append(b)
	}
	return out
}

func (g *gen) malformed() (out codec.Array[codec.AckBatch]) {
	out.Append([]codec.AckBatch{batchOf(3, 2, 1), batchOf(1, 2), batchOf(-1, 2, 1), batchOf(1, 2, 1, 1, 1), batchOf(1, 2, 9)}[g.IntN(5)])
	return out
}

func (g *gen) topics() (out codec.Array[codec.AckTopic]) {
	for range g.IntN(5) {
		topic := codec.AckTopic{TopicID: g.topicID()}
		for range g.IntN(5) {
			p := codec.AckPartition{PartitionIndex: int32(g.IntN(4))}
			if g.carrier == policy.ShareFetch && g.version == 0 {
				p.PartitionMaxBytes = g.Int32N(100)
			}
			switch {
			case g.one(12):
				p.Batches = g.malformed()
			case !g.one(6):
				p.Batches = g.batches()
			}
			g.tags(&p.Tags)
			topic.Partitions.Append(p)
		}
		g.tags(&topic.Tags)
		out.Append(topic)
	}
	return out
}

// request is a frame, and where its body begins.
func (g *gen) request() (frame []byte, body int) {
	h := codec.RequestHeader{APIKey: keyOf(g.carrier), APIVersion: g.version, CorrelationID: g.Int32(), ClientID: []byte("client"), Version: 2}
	if g.one(4) {
		h.ClientID = nil
	}
	g.tags(&h.Tags)
	frame = h.Append(make([]byte, 4))
	body = len(frame)
	var tags codec.Tags
	g.tags(&tags)
	group, member, epoch := []byte("group"), []byte("member"), g.Int32N(5)-1
	switch g.carrier {
	case policy.ShareFetch:
		m := codec.ShareFetchRequest{GroupID: group, MemberID: member, ShareSessionEpoch: epoch, MaxWaitMs: g.Int32N(9), MinBytes: g.Int32N(9),
			MaxBytes: g.Int32N(9), MaxRecords: g.Int32N(9), BatchSize: g.Int32N(9), ShareAcquireMode: int8(g.IntN(2)), IsRenewAck: g.renew,
			Topics: g.topics(), Tags: tags}
		forgotten := codec.ForgottenTopic{TopicID: g.topicID()}
		forgotten.Partitions.Append(g.Int32N(9))
		m.ForgottenTopicsData.Append(forgotten)
		frame = m.Append(frame, g.version)
	case policy.ShareAcknowledge:
		m := codec.ShareAcknowledgeRequest{GroupID: group, MemberID: member, ShareSessionEpoch: epoch, IsRenewAck: g.renew, Topics: g.topics(),
			Tags: tags}
		frame = m.Append(frame, g.version)
	default:
		m := codec.TxnShareAcknowledgeRequest{TransactionalID: []byte("txn"), GroupID: group, MemberID: member, ProducerID: g.Int64(),
			MemberEpoch: epoch, Topics: g.topics(), Tags: tags}
		frame = m.Append(frame, g.version)
	}
	if g.one(10) { // which brokers take
		frame = append(frame, 0xff)
	}
	return sized(frame), body
}

// decision about the topics of a request.
func (g *gen) decision(topics codec.Array[codec.AckTopic]) *policy.Decision {
	d := &policy.Decision{}
	for _, e := range lastEntries(topics) {
		p := policy.Decided{TopicID: e.topic, Index: e.partition}
		offsets, ok := expand(e.batches)
		if p.Malformed = !ok; ok {
			p.Pieces = g.pieces(offsets)
		}
		d.Partitions = append(d.Partitions, p)
	}
	for g.one(3) {
		d.Replies = append(d.Replies, policy.ReplyEdit{TopicID: g.topicID(), Partition: g.Int32N(4), ErrorCode: g.code(), Message: g.message()})
	}
	if g.one(8) {
		d.Replies = append(d.Replies, policy.ReplyEdit{TopLevel: true, ErrorCode: g.code(), Message: g.message()})
	}
	return d
}

func (g *gen) code() int16 { return []int16{3, 6, 42, 56, 121, 124}[g.IntN(6)] }

func (g *gen) message() string { return []string{"", "no", "not today"}[g.IntN(3)] }

// pieces is what may become of offsets: each run of a type is cut anywhere.
func (g *gen) pieces(offsets []offsetAck) (list []policy.Piece) {
	edits := g.IntN(4) // how likely: 0 none, 3 all is withheld
	code := g.code()
	for i, o := range offsets {
		if n := len(list); n > 0 && !g.one(4) && o.offset == offsets[i-1].offset+1 && o.kind == list[n-1].Asked {
			list[n-1].Last = o.offset
			continue
		}
		p := policy.Piece{First: o.offset, Last: o.offset, Asked: o.kind, Forwarded: o.kind}
		switch {
		case edits == 3 || edits > 0 && g.one(4):
			p.Withheld, p.ErrorCode, p.Forwarded = true, code, g.ackType()
			if g.one(6) {
				p.ErrorCode = g.code()
			}
		case edits > 0 && g.one(3):
			p.Forwarded = g.ackType()
		}
		list = append(list, p)
	}
	return list
}

func keyOf(c policy.Carrier) int16 {
	return [...]int16{codec.KeyShareFetch, codec.KeyShareAcknowledge, keyDraftTxn}[c]
}

// offsetAck is what a request says about one offset; tags are those of its batch.
type offsetAck struct {
	offset int64
	kind   int8
	tags   string
}

// expand reads batches offset by offset, as KIP-932 tells; false when they break its rules.
func expand(batches codec.Array[codec.AckBatch]) (list []offsetAck, ok bool) {
	next := int64(0)
	for b := range batches.All() {
		n := b.LastOffset - b.FirstOffset + 1
		if b.FirstOffset < next || n < 1 || len(b.Types) == 0 || len(b.Types) > 1 && int64(len(b.Types)) != n {
			return nil, false
		}
		for i := range n {
			kind := int8(b.Types[0])
			if len(b.Types) > 1 {
				kind = int8(b.Types[i])
			}
			if kind < policy.Gap || kind > policy.Renew {
				return nil, false
			}
			list = append(list, offsetAck{b.FirstOffset + i, kind, tagText(b.Tags)})
		}
		next = b.LastOffset + 1
	}
	return list, true
}

func tagText(tags codec.Tags) (text string) {
	for tag, data := range tags.All() {
		text += fmt.Sprintf("%d=%q ", tag, data)
	}
	return text
}

// entryOf is one entry of a request with batches.
type entryOf struct {
	target
	batches codec.Array[codec.AckBatch]
}

// lastEntries are those that a broker applies: the last of each partition, where it has batches.
func lastEntries(topics codec.Array[codec.AckTopic]) (list []entryOf) {
	for topic := range topics.All() {
		for p := range topic.Partitions.All() {
			t := target{topic.TopicID, p.PartitionIndex}
			list = slices.DeleteFunc(list, func(e entryOf) bool { return e.target == t })
			if p.Batches.Len() > 0 {
				list = append(list, entryOf{t, p.Batches})
			}
		}
	}
	return list
}
