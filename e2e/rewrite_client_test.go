package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/e2e/tap"
	"github.com/ackproxy/ackproxy/policy"
)

// rewriteWorker is a raw client: a member of a group of its own, which opens and closes sessions.
type rewriteWorker struct {
	rig *rewriteRig
	rewriteTally
	rand          *rand.Rand
	model         *rewriteModel
	group, member string
	conn          net.Conn
	id, epoch     int32
	failed        error
}

func newRewriteWorker(rig *rewriteRig, i int, seed uint64) *rewriteWorker {
	return &rewriteWorker{rig: rig, rand: rand.New(rand.NewPCG(seed, uint64(i))), model: newRewriteModel(),
		group: fmt.Sprintf("%s-%d", rig.names[0], i), member: fmt.Sprintf("AAAAAAAAAAAAAAAAAAAA%dA", i)}
}

// run plays sessions until there were n cases.
func (w *rewriteWorker) run(ctx context.Context, n int) (err error) {
	if w.conn, err = w.rig.dial(); err != nil {
		return err
	}
	defer w.conn.Close()
	if err := w.join(); err != nil {
		return err
	}
	for w.cases < n {
		if err := w.open(ctx); err != nil {
			return err
		}
		for i := range 12 {
			if err := w.play(i == 11); err != nil {
				return err
			}
		}
	}
	return nil
}

// join makes the group one that had a member.
func (w *rewriteWorker) join() error {
	q := kmsg.NewPtrShareGroupHeartbeatRequest()
	q.Version, q.GroupID, q.MemberID, q.SubscribedTopicNames = 1, w.group, w.member, w.rig.names
	_, err := w.answer(w.frame(q))
	return err
}

// frame is the next request.
func (w *rewriteWorker) frame(q kmsg.Request) []byte {
	w.id++
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw")).AppendRequest(nil, q, w.id)
}

// answer sends a request and reads what answers it.
func (w *rewriteWorker) answer(frame []byte) ([]byte, error) {
	if _, err := w.conn.Write(frame); err != nil {
		return nil, err
	}
	return tap.ReadFrame(w.conn)
}

// open opens a session, and fetches until all that was given back is there again, which no lock delays, and enough to play with.
func (w *rewriteWorker) open(ctx context.Context) error {
	w.epoch = 0
	for end := time.Now().Add(2 * time.Minute); ; {
		got := total(w.model.held)
		x, err := w.exchange(w.fetch(w.everything(), 2, w.rand.IntN(2) == 0, 40), nil)
		if err != nil {
			return err
		}
		due, now := total(w.model.due), total(w.model.held)
		switch {
		case due == 0 && now >= 60:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("%d records were given back and do not come again, %v; %d are held; the last answer had %v", due, w.model.due, now, x.Fetch)
		case failed(x): // the group is new to the broker, and what failed stays so as long as the session does
			w.epoch = 0
		case due == 0 && now == got:
			if err := w.rig.more(ctx); err != nil {
				return err
			}
		}
	}
}

// failed says whether nothing was fetched of a partition because of an error.
func failed(x *tap.Exchange) bool {
	for _, code := range x.Fetch {
		if code != 0 {
			return true
		}
	}
	return false
}

// everything is all partitions, without acknowledgements.
func (w *rewriteWorker) everything() (all []rewriteEntry) {
	for _, topic := range w.rig.topics {
		for p := range int32(partitions) {
			all = append(all, rewriteEntry{Target: tap.Target{Topic: topic, Partition: p}})
		}
	}
	return all
}

// play is one case.
func (w *rewriteWorker) play(closing bool) error {
	w.cases++
	version := int16(1 + w.rand.IntN(2))
	onFetch, renew := w.rand.IntN(2) == 0, version == 2 && w.rand.IntN(3) == 0
	g := &rewriteGen{Rand: w.rand, tally: &w.rewriteTally, strange: map[tap.Target]bool{}, kinds: 4, tagged: w.rand.IntN(2) == 0}
	if renew {
		g.kinds = 5
		w.renews++
	}
	if closing {
		w.epoch = -1
		w.closes++
	}
	entries := g.entries(w.model.held, closing)
	if onFetch {
		w.onFetch++
		limit := int32(0)
		if !closing && !renew && total(w.model.held) < 60 {
			limit = 20
		}
		q := w.fetch(entries, version, w.rand.IntN(2) == 0, limit)
		q.IsRenewAck = renew
		_, err := w.exchange(q, g)
		return err
	}
	q := kmsg.NewPtrShareAcknowledgeRequest()
	q.Version, q.GroupID, q.MemberID, q.ShareSessionEpoch, q.IsRenewAck = version, &w.group, &w.member, w.epoch, renew
	for i, e := range entries {
		if i == 0 || entries[i-1].Topic != e.Topic || w.rand.IntN(8) == 0 {
			t := kmsg.NewShareAcknowledgeRequestTopic()
			t.TopicID = e.Topic
			q.Topics = append(q.Topics, t)
		}
		t := &q.Topics[len(q.Topics)-1]
		p := kmsg.NewShareAcknowledgeRequestTopicPartition()
		p.Partition, p.AcknowledgementBatches = e.Partition, e.batches
		t.Partitions = append(t.Partitions, p)
	}
	_, err := w.exchange(q, g)
	return err
}

// fetch is a ShareFetch; limit 0 only acknowledges.
func (w *rewriteWorker) fetch(entries []rewriteEntry, version int16, strict bool, limit int32) *kmsg.ShareFetchRequest {
	q := kmsg.NewPtrShareFetchRequest()
	q.Version, q.GroupID, q.MemberID, q.ShareSessionEpoch = version, &w.group, &w.member, w.epoch
	if limit > 0 {
		q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.MaxRecords, q.BatchSize = 20, 1, 1<<20, limit, limit
	} else {
		q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.MaxRecords, q.BatchSize = 0, 0, 0, 0, 0
	}
	if strict && version == 2 {
		q.ShareAcquireMode = 1
	}
	for i, e := range entries {
		if i == 0 || entries[i-1].Topic != e.Topic || w.rand.IntN(8) == 0 {
			t := kmsg.NewShareFetchRequestTopic()
			t.TopicID = e.Topic
			q.Topics = append(q.Topics, t)
		}
		t := &q.Topics[len(q.Topics)-1]
		p := kmsg.NewShareFetchRequestTopicPartition()
		p.Partition = e.Partition
		for _, b := range e.batches {
			c := kmsg.NewShareFetchRequestTopicPartitionAcknowledgementBatch()
			c.FirstOffset, c.LastOffset, c.AcknowledgeTypes, c.UnknownTags = b.FirstOffset, b.LastOffset, b.AcknowledgeTypes, b.UnknownTags
			p.AcknowledgementBatches = append(p.AcknowledgementBatches, c)
		}
		t.Partitions = append(t.Partitions, p)
	}
	return q
}

// exchange sends a request, under a verdict unless g is nil, and checks all that comes of it.
func (w *rewriteWorker) exchange(q kmsg.Request, g *rewriteGen) (*tap.Exchange, error) {
	frame := w.frame(q)
	asked, _, err := tap.ReadRequest(frame)
	if err != nil {
		return nil, err
	}
	id := rewriteID{w.member, asked.Correlation}
	var v policy.Verdict
	var strange map[tap.Target]bool
	if g != nil {
		strange, v = g.strange, g.verdict(asked, w.model.held)
		w.rig.tell(id, v)
	}
	answer, err := w.answer(frame)
	if err != nil {
		return nil, err
	}
	if err := asked.ReadAnswer(answer); err != nil {
		return nil, err
	}
	reached := w.rig.take(id)
	f := foldVerdict(asked, v, &w.rewriteTally)
	if err := checkForwarded(asked, reached, f, strange); err != nil {
		return nil, fmt.Errorf("asked %v under %+v: %w", asked.Acks, v, err)
	}
	if err := checkTold(asked, reached, f, v); err != nil {
		return nil, fmt.Errorf("asked %v under %+v: %w", asked.Acks, v, err)
	}
	if w.epoch++; asked.Epoch == -1 {
		w.epoch = 0
	}
	return asked, w.model.apply(reached, &w.rewriteTally)
}
