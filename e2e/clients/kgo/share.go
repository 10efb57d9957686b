package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// flushTime bounds FlushAcks, which does not return while an acknowledgement that failed for the moment waits for a fetch.
const flushTime = 10 * time.Second

type key struct {
	partition int32
	offset    int64
}

// batch is acknowledgements of one partition that were asked for together. The library reports results by partition, without
// offsets, in the order of its requests; a request takes all that is pending for the partition.
type batch map[int64]kgo.AckStatus

type member struct {
	args
	cl *kgo.Client

	mu      sync.Mutex
	waiting map[int32][]batch
	settled map[key]bool
}

func share(ctx context.Context, a args) error {
	m := &member{args: a, waiting: map[int32][]batch{}, settled: map[key]bool{}}
	o := append(options(a), kgo.ConsumeTopics(a.topic), kgo.ShareGroup(a.group), kgo.FetchMaxWait(500*time.Millisecond),
		kgo.ShareMaxRecords(int32(a.maxPoll)), kgo.ShareAckCallback(m.results),
		// One fetch a poll: what was prefetched and never polled would be released at the end, and the records of a late answer
		// would be acknowledged before the application saw them.
		kgo.MaxConcurrentFetches(0))
	if a.acquire == "record_limit" {
		o = append(o, kgo.ShareMaxRecordsStrict())
	}
	var err error
	if m.cl, err = kgo.NewClient(o...); err != nil {
		return err
	}
	for ctx.Err() == nil && !m.done() {
		m.handle(m.poll(ctx))
	}
	m.flush() // what was polled last
	m.cl.Close()
	say("closed", fields{"settled": len(m.settled)})
	return nil
}

func (m *member) done() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count > 0 && len(m.settled) >= m.count
}

// poll waits for records, at most for a time in which results of acknowledgements may come.
func (m *member) poll(ctx context.Context) []*kgo.Record {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	return m.cl.PollFetches(ctx).Records()
}

func (m *member) handle(records []*kgo.Record) {
	if len(records) == 0 {
		return
	}
	explicit, sync := strings.HasPrefix(m.mode, "explicit"), strings.HasSuffix(m.mode, "sync")
	if explicit {
		m.acknowledge(records)
	} else {
		all := map[*kgo.Record]kgo.AckStatus{}
		for _, r := range records {
			all[r] = kgo.AckAccept
		}
		m.ask(records, all)
		if sync { // the library flushes only what is marked; without a mark the next poll accepts
			m.cl.MarkAcks(kgo.AckAccept)
		}
	}
	if sync {
		m.flush()
	}
}

// acknowledge renews first, waits for the answer, and then acknowledges all for good.
func (m *member) acknowledge(records []*kgo.Record) {
	final, renew := map[*kgo.Record]kgo.AckStatus{}, map[*kgo.Record]kgo.AckStatus{}
	for _, r := range records {
		final[r] = kgo.AckAccept
		sum := m.seed*31 + int(r.Partition)*7 + int(r.Offset)*13
		if m.rejects > 0 {
			if sum%100 < m.rejects {
				final[r] = m.releaseOrReject(r)
			}
			continue
		}
		if r.DeliveryCount() > 1 {
			continue
		}
		switch sum % 10 {
		case 0:
			final[r] = kgo.AckRelease
		case 1:
			final[r] = kgo.AckReject
		case 2:
			if m.renew && r.Offset < 100 {
				renew[r] = kgo.AckRenew
			}
		}
	}
	if len(renew) > 0 {
		m.flush() // what is still pending, so that it has its results before those of the renewals
		m.mark(records, renew)
		m.flush()
	}
	m.mark(records, final)
}

// releaseOrReject is for records that are to be rejected when they come again.
func (m *member) releaseOrReject(r *kgo.Record) kgo.AckStatus {
	if r.DeliveryCount() > 1 {
		return kgo.AckReject
	}
	return kgo.AckRelease
}

func (m *member) mark(records []*kgo.Record, types map[*kgo.Record]kgo.AckStatus) {
	m.ask(records, types)
	same := map[kgo.AckStatus][]*kgo.Record{}
	for r, t := range types {
		same[t] = append(same[t], r)
	}
	for t, rs := range same {
		m.cl.MarkAcks(t, rs...)
	}
}

// ask prints the acknowledgements and remembers them, in the order of records, before the library hears of them.
func (m *member) ask(records []*kgo.Record, types map[*kgo.Record]kgo.AckStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	batches := map[int32]batch{}
	for _, r := range records {
		t, ok := types[r]
		if !ok {
			continue
		}
		if batches[r.Partition] == nil {
			batches[r.Partition] = batch{}
		}
		batches[r.Partition][r.Offset] = t
		say("ack", fields{"topic": r.Topic, "partition": r.Partition, "offset": r.Offset, "delivery_count": r.DeliveryCount(), "type": t.String()})
	}
	for p, b := range batches {
		m.waiting[p] = append(m.waiting[p], b)
	}
}

// flush waits until all results are there. Batches that have none by then were sent again together with later ones, after an error that
// the library retries: which result was theirs is not known.
func (m *member) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := m.cl.FlushAcks(ctx); err != nil {
		say("error", fields{"error": "flush: " + err.Error()})
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for p, left := range m.waiting {
		if len(left) > 0 {
			say("error", fields{"error": fmt.Sprintf("partition %d: %d batches without a result", p, len(left))})
		}
	}
	clear(m.waiting)
}

// results takes the oldest batch of each partition for the one that was answered.
func (m *member) results(_ *kgo.Client, rs kgo.ShareAckResults) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range rs {
		w := m.waiting[r.Partition]
		if len(w) == 0 {
			say("error", fields{"error": "a result for no acknowledgement"})
			continue
		}
		m.waiting[r.Partition] = w[1:]
		offsets := []int64{}
		for o, t := range w[0] {
			offsets = append(offsets, o)
			if r.Err == nil && (t == kgo.AckAccept || t == kgo.AckReject) {
				m.settled[key{r.Partition, o}] = true
			}
		}
		sort.Slice(offsets, func(i, j int) bool { return offsets[i] < offsets[j] })
		say("result", fields{"topic": r.Topic, "partition": r.Partition, "offsets": offsets, "error": text(r.Err)})
	}
}
