package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// fetchMax is how many records a member takes from a broker at a time, and fetchWait how long the broker waits for some: low, so that
	// acknowledgements that ride on a fetch are not kept waiting, and that flushing, which waits for a fetch under way, is not either.
	fetchMax  = 50
	fetchWait = 100 * time.Millisecond
	// sameWay is how many polls in a row go the same way at most.
	sameWay = 3
)

// member is one consumer of the share group. It acknowledges every record that it gets, as the pattern says, and tells the tally.
type member struct {
	name    string
	cl      *kgo.Client
	pattern pattern
	tally   *tally
	note    func(string)

	rng   *rand.Rand
	flush bool // polls are followed by a flush, which sends their acknowledgements on ShareAcknowledge; otherwise they ride on the next ShareFetch
	left  int  // polls until that changes

	mu   sync.Mutex
	held map[place]bool // fetched by the client in the background and not polled yet
}

type place struct {
	topic     string
	partition int32
	offset    int64
}

func placeOf(r *kgo.Record) place { return place{r.Topic, r.Partition, r.Offset} }

// newMember joins the group. The caller closes the member.
func newMember(s *stage, name string, number int, p pattern, t *tally, note func(string)) (*member, error) {
	m := &member{name: name, pattern: p, rng: p.rng(number), tally: t, note: note, held: map[place]bool{}}
	var err error
	m.cl, err = s.client(name, kgo.ConsumeTopics(topicNames...), kgo.ShareGroup(group), kgo.WithHooks(m), kgo.ShareAckCallback(m.answered),
		kgo.ShareMaxRecords(fetchMax), kgo.ShareMaxRecordsStrict(), kgo.FetchMaxWait(fetchWait),
		kgo.MaxConcurrentFetches(MaxBrokers)) // strict clients ask one broker at a time, and wait for it, unless they are told otherwise
	return m, err
}

// OnFetchRecordBuffered is told of a record that the broker has handed to the client.
func (m *member) OnFetchRecordBuffered(r *kgo.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held[placeOf(r)] = true
}

// OnFetchRecordUnbuffered is told of a record that is being polled.
func (m *member) OnFetchRecordUnbuffered(r *kgo.Record, _ bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.held, placeOf(r))
}

// OnBrokerRead is told of every answer. One that does not come ends the connection and the session on it, and the client then drops acknowledgements
// that it has not sent: kgo waits for a ShareFetch for five seconds longer than the broker may.
func (m *member) OnBrokerRead(b kgo.BrokerMetadata, key int16, _ int, wait, read time.Duration, err error) {
	if err != nil {
		took := (wait + read).Round(time.Millisecond)
		m.note(fmt.Sprintf("%s: no answer to %s from broker %d after %s: %v", m.name, kmsg.NameForKey(key), b.NodeID, took, err))
	}
}

// answered is told what became of acknowledgements, a partition at a time.
func (m *member) answered(_ *kgo.Client, results kgo.ShareAckResults) {
	for _, r := range results {
		if r.Err != nil {
			m.note(m.name + ": acknowledgements of " + r.Topic + " failed: " + r.Err.Error())
		}
	}
}

// run polls and acknowledges until ctx ends. Every record that it polls is acknowledged.
func (m *member) run(ctx context.Context) {
	for {
		fetches := m.cl.PollFetches(ctx)
		fetches.EachRecord(m.settle)
		if ctx.Err() != nil || fetches.IsClientClosed() {
			return
		}
		fetches.EachError(func(topic string, _ int32, err error) { m.note(m.name + ": " + topic + ": " + err.Error()) })
		if fetches.NumRecords() == 0 || !m.flushes() {
			continue
		}
		if err := m.cl.FlushAcks(ctx); err != nil && ctx.Err() == nil {
			m.note(m.name + ": flush: " + err.Error())
		}
	}
}

// flushes says whether this poll is one that is followed by a flush.
func (m *member) flushes() bool {
	if m.left--; m.left < 0 {
		m.flush, m.left = !m.flush, m.rng.IntN(sameWay)
	}
	return m.flush
}

func (m *member) settle(r *kgo.Record) {
	status := m.pattern.decide(r.Topic, r.Partition, r.Offset, r.DeliveryCount())
	m.tally.delivered(1)
	m.tally.acknowledged(ack{group, r.Topic, r.Partition, r.Offset, status.String(), m.name})
	r.Ack(status)
}

// close leaves the group. Acknowledgements that were not sent yet are sent with the end of the session, and so are releases of the records that the
// client has fetched and the member has not polled: the client makes them by itself, and they are counted as the member's.
func (m *member) close(ctx context.Context) {
	if err := m.cl.LeaveGroupContext(ctx); err != nil {
		m.note(m.name + ": leaving: " + err.Error())
	}
	m.cl.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	for p := range m.held {
		m.tally.delivered(1)
		m.tally.acknowledged(ack{group, p.topic, p.partition, p.offset, kgo.AckRelease.String(), m.name})
	}
}
