package withhold

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/ackproxy/ackproxy/e2e/tap"
	"github.com/ackproxy/ackproxy/policy"
)

// place is a record's.
type place struct {
	group string
	tap.Target
	offset int64
}

// record is one that was delivered and is not settled.
type record struct {
	count    int16 // its last delivery's
	held     int   // acknowledgements that were withheld since the last delivery
	closing  bool  // the last of them came with a request that closed the session
	withheld time.Time
}

// mostWithheld is up to which delivery acknowledgements may be withheld: far below the group's limit of deliveries, at which a record is gone.
const mostWithheld = 4

// book follows each record from its delivery until the broker has accepted what settles it.
type book struct {
	mu        sync.Mutex
	pending   map[id][]*decision // forwarded, not answered
	decisions []*decision
	records   map[place]*record
	settled   map[place]time.Time
	resets    int
	withheld  int // acknowledgements of records
	again     int // of these: the record was delivered again
	otherwise int // of these: the client asked again, and the broker accepted it
	closes    int // requests that closed a session and had something withheld
	slow      spread
	atOnce    spread
	wrong     []string
	wrongs    int
}

func newBook() *book {
	return &book{pending: map[id][]*decision{}, records: map[place]*record{}, settled: map[place]time.Time{}}
}

// mismatch notes that something is not as it must be. The caller holds b.mu.
func (b *book) mismatch(format string, args ...any) {
	if b.wrongs++; len(b.wrong) < 20 {
		b.wrong = append(b.wrong, fmt.Sprintf(format, args...))
	}
}

// may says whether the acknowledgement of a record may be withheld.
func (b *book) may(group string, t tap.Target, offset int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.records[place{group, t, offset}]
	return r != nil && r.count <= mostWithheld
}

// decided notes what the policy did, before the request goes on.
func (b *book) decided(d *decision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.decisions = append(b.decisions, d)
	b.pending[d.id] = append(b.pending[d.id], d)
	before := b.withheld
	for target, p := range d.parts {
		b.withheld += p.withheld()
		for _, c := range p.ranges(true) {
			for o := c.First; o <= c.Last; o++ {
				r := b.records[place{d.group, target, o}]
				if r == nil { // settled since may was asked
					b.otherwise++
					continue
				}
				r.held++
				r.closing, r.withheld = d.closes, time.Now()
			}
		}
	}
	if d.closes && b.withheld > before {
		b.closes++
	}
}

// saw is told of what reached the broker, and what it said.
func (b *book) saw(x *tap.Exchange) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x.Top == 122 || x.Top == 123 {
		b.resets++
		b.mismatch("the broker answered %d to request %d of %s, epoch %d", x.Top, x.Correlation, x.Member, x.Epoch)
	}
	key := id{x.Key, x.Correlation, x.Group, x.Member}
	if waiting := b.pending[key]; len(waiting) > 0 {
		if b.pending[key] = waiting[1:]; len(waiting) == 1 {
			delete(b.pending, key)
		}
		b.answered(waiting[0], x)
	} else if len(x.Acks)+len(x.Malformed) > 0 {
		b.mismatch("request %d of %s acknowledges, and no policy was asked", x.Correlation, x.Member)
	}
	for target, acquired := range x.Acquired {
		for _, a := range acquired {
			for o := a.First; o <= a.Last; o++ {
				b.delivered(place{x.Group, target, o}, a.Count, x)
			}
		}
	}
}

// answered compares what was forwarded with the decision, and takes the broker's verdict.
func (b *book) answered(d *decision, x *tap.Exchange) {
	d.answered, d.top = true, x.Top
	left := maps.Clone(x.Acks)
	for target, p := range d.parts {
		p.code = x.Codes[target]
		want := offsets(p.ranges(false))
		if !maps.Equal(left[target], want) {
			b.mismatch("request %d of %s, partition %d: forwarded %v, want %v", x.Correlation, x.Member, target.Partition, left[target], want)
		}
		delete(left, target)
		if len(want) > 0 && x.Top == 0 && x.Rows[target] != 1 {
			b.mismatch("request %d of %s, partition %d: %d rows in the broker's answer", x.Correlation, x.Member, target.Partition, x.Rows[target])
		}
		if x.Top != 0 || p.code != 0 {
			continue
		}
		for o, kind := range want {
			if kind == policy.Accept || kind == policy.Reject {
				b.settle(place{d.group, target, o}, x)
			}
		}
	}
	if len(left) > 0 || len(x.Malformed) > 0 {
		b.mismatch("request %d of %s: forwarded what nobody asked: %v", x.Correlation, x.Member, left)
	}
}

func (b *book) settle(p place, x *tap.Exchange) {
	if r := b.records[p]; r != nil {
		b.otherwise += r.held
		delete(b.records, p)
	}
	b.settled[p] = x.Answered
}

// delivered notes a delivery, x being the fetch.
func (b *book) delivered(p place, count int16, x *tap.Exchange) {
	if at, ok := b.settled[p]; ok && x.Sent.After(at) {
		b.mismatch("record %d/%d of %s was accepted by the broker, and delivered again", p.Partition, p.offset, p.group)
	}
	r := b.records[p]
	if r == nil {
		r = &record{}
		b.records[p] = r
	}
	if r.held > 0 {
		b.again += r.held
		if took := x.Answered.Sub(r.withheld); r.closing {
			b.atOnce.add(took)
		} else {
			b.slow.add(took)
		}
	}
	r.count, r.held = count, 0
}

// open is how many records wait for another delivery since their acknowledgement was withheld.
func (b *book) open() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.records {
		n += min(r.held, 1)
	}
	return n
}

// missing reports the records that were withheld and never came again, once all has ended.
func (b *book) missing() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p, r := range b.records {
		if r.held > 0 {
			b.mismatch("record %d/%d of %s was withheld after delivery %d, and did not come again", p.Partition, p.offset, p.group, r.count)
		}
	}
	for _, d := range b.decisions {
		if !d.answered {
			b.mismatch("request %d of %s never reached the broker, or was not answered", d.correlation, d.member)
		}
	}
}
