package dlq

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/dlq/letter"
)

const (
	maxLast   = 10_000          // last deliveries that are watched
	lastSlack = 2 * time.Second // after the lock, for an answer that is under way
	lastLook  = time.Second
	lastWrite = 10 * time.Second
)

// lastDeliveries watches deliveries that no other follows: when the lock runs out, the broker archives the record, and nothing crosses the wire. A
// broker acquires such records one by one.
type lastDeliveries struct {
	policy  *Policy
	mu      sync.Mutex
	watched map[lastPlace]map[int64]*lastDelivery
	n       int
	looking bool
}

type lastPlace struct {
	group     string
	topic     codec.UUID
	partition int32
}

type lastDelivery struct {
	member, topic string
	count         int16
	until         time.Time
	records       policy.Records
}

func newLastDeliveries(p *Policy) *lastDeliveries {
	return &lastDeliveries{policy: p, watched: make(map[lastPlace]map[int64]*lastDelivery)}
}

// Delivered is told of deliveries as they pass by. It returns at once. A program that does not call it counts nothing as lost without a
// letter, and infers none.
func (p *Policy) Delivered(d *policy.Delivery) {
	p.groups.ahead(d.Group)
	for _, a := range d.Acquired {
		limit := math.MaxInt
		if a.DeliveryCount > 1 && !a.LockUntil.IsZero() { // no broker has a limit below 2
			limit = p.groups.known(d.Group).limit
		}
		p.last.watch(d, a, limit)
	}
}

// watch watches a run of deliveries, or forgets earlier ones of the same records where these are not the last.
func (l *lastDeliveries) watch(d *policy.Delivery, a policy.Acquisition, limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := lastPlace{d.Group, d.TopicID, d.Partition}
	l.forget(at, a.First, a.Last)
	if int(a.DeliveryCount) < limit || a.First > a.Last {
		return
	}
	for offset := a.First; l.n < maxLast; offset++ {
		if l.watched[at] == nil {
			l.watched[at] = make(map[int64]*lastDelivery)
		}
		l.watched[at][offset] = &lastDelivery{d.Member, d.Topic, a.DeliveryCount, a.LockUntil, d.Records}
		if l.n++; offset == a.Last { // there may be no offset after it
			break
		}
	}
	if !l.looking {
		l.looking = l.policy.spawn(l.look)
	}
}

// forget ends the watch over a run of offsets.
func (l *lastDeliveries) forget(at lastPlace, first, last int64) {
	for offset := range l.watched[at] {
		if first <= offset && offset <= last {
			delete(l.watched[at], offset)
			l.n--
		}
	}
	if len(l.watched[at]) == 0 {
		delete(l.watched, at)
	}
}

// acknowledged ends the watch over what the broker took. A Renew makes the lock longer instead.
func (l *lastDeliveries) acknowledged(o *policy.Outcome, d *policy.Decided, p *policy.Piece, verdict string) {
	if verdict != verdictAccepted {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := lastPlace{string(o.Request.GroupID), d.TopicID, d.Index}
	if p.Forwarded != policy.Renew {
		l.forget(at, p.First, p.Last)
		return
	}
	for offset, one := range l.watched[at] {
		if p.First <= offset && offset <= p.Last {
			one.until = o.Reply.Received.Add(time.Duration(o.Reply.LockTimeoutMs) * time.Millisecond)
		}
	}
}

// look counts what has run out, from time to time, until nothing is watched.
func (l *lastDeliveries) look() {
	for l.policy.sleep(lastLook) {
		if !l.expire(l.policy.deps.Now().Add(-lastSlack)) {
			return
		}
	}
}

// expire takes out what ran out before a time, and says whether more is watched.
func (l *lastDeliveries) expire(before time.Time) bool {
	var lost []letter.Letter
	var records []policy.Records
	l.mu.Lock()
	for at, all := range l.watched {
		for offset, one := range all {
			if one.until.After(before) {
				continue
			}
			l.forget(at, offset, offset)
			lost = append(lost, l.letter(at, offset, one))
			records = append(records, one.records)
		}
	}
	more := l.n > 0
	l.looking = more
	l.mu.Unlock()
	for i := range lost {
		l.policy.lose(&lost[i], records[i])
	}
	return more
}

func (l *lastDeliveries) letter(at lastPlace, offset int64, one *lastDelivery) letter.Letter {
	return letter.Letter{Group: at.group, Member: one.member, Topic: one.topic, TopicID: at.topic, Partition: at.partition, Offset: offset,
		DeliveryCount: one.count, Reason: letter.LockExpiredAtLimit, Message: letter.MessageAtLimit, Time: l.policy.deps.Now()}
}

// lose counts a record that was archived without an acknowledgement, and writes its letter where the configuration wants that.
func (p *Policy) lose(l *letter.Letter, records policy.Records) {
	ctx, cancel := context.WithTimeout(p.ctx, lastWrite)
	defer cancel()
	looking, cancelLooking := context.WithTimeout(ctx, lastWrite/2) // a source that says nothing leaves time to write
	defer cancelLooking()
	fetch := p.source.reader(l.TopicID, l.Partition, time.Now().Add(lastWrite/2))
	defer fetch.close()
	if l.Topic == "" { // nor did the name pass by
		l.Topic = fetch.name(looking, "")
	}
	if g := p.groups.get(looking, l.Group); p.config.StandDown && g.own.works(l.Topic) {
		return // the broker has written it
	}
	p.metrics.lostWithout.Inc()
	if !p.config.Infer {
		return
	}
	p.payload(looking, records, l, fetch)
	if p.config.again(l) {
		return
	}
	it := &item{offset: l.Offset, bare: l.Payload == letter.Unavailable}
	if p.address(l, &it.record) != nil || p.within(it) != nil { // no spool would help
		p.metrics.fates[forwarded].Inc()
		return
	}
	p.metrics.payloads[l.Payload].Inc()
	p.infer(ctx, it)
	p.metrics.fates[inferredAs(it.fate)].Inc()
}

// infer writes a letter. Where there is a spool, that has time as well.
func (p *Policy) infer(ctx context.Context, it *item) {
	if !p.backlog(&it.record) {
		producing, cancel := ctx, context.CancelFunc(func() {})
		if p.spoolOpen() {
			producing, cancel = context.WithTimeout(ctx, min(p.config.Budget, lastWrite/4))
		}
		p.produceNow(producing, it)
		cancel()
	}
	if it.fate == pending && !it.final {
		p.spoolAll(ctx, []*item{it})
	}
}

// inferredAs counts what was not written as forwarded: nothing could hold it.
func inferredAs(f fate) fate {
	if f == pending {
		return forwarded
	}
	return f
}
