package outage

import (
	"sync"
	"time"

	"github.com/ackproxy/ackproxy/e2e/client"
	"github.com/ackproxy/ackproxy/e2e/tap"
)

// The times of a run.
const (
	before = iota
	away   // the dead-letter broker is
	back
	over // no more records come
	phases
)

// book is what the source's broker said.
type book struct {
	mu     sync.Mutex
	groups map[string]*tally
	now    int // the phase
}

// tally is one group's.
type tally struct {
	accepted, refused int // acknowledgements of single records
	early             int // Rejects of deliveries that were not the last
	rejects           map[client.Record]time.Time
	accepts           map[client.Record]bool
	counts            map[client.Record]int16 // of the last delivery
	last              time.Time               // when an Accept was accepted
	gaps              [phases]time.Duration   // the longest time between two of them
}

func newBook() *book { return &book{groups: map[string]*tally{}} }

func (b *book) add(group string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.groups[group] = &tally{rejects: map[client.Record]time.Time{}, accepts: map[client.Record]bool{}, counts: map[client.Record]int16{}}
}

func (b *book) phase(p int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = p
}

// allReject says whether each group has begun to.
func (b *book) allReject() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.groups {
		if len(t.rejects) == 0 {
			return false
		}
	}
	return true
}

// saw is told of each exchange with the broker, before the proxy hears of the answer.
func (b *book) saw(topic [16]byte, x *tap.Exchange) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.groups[x.Group]
	if t == nil {
		return
	}
	for target, acks := range x.Acks {
		if target.Topic == topic {
			t.answered(x, target, acks, b.now)
		}
	}
	for target, all := range x.Acquired {
		for _, a := range all {
			for o := a.First; o <= a.Last; o++ {
				t.counts[client.Record{Partition: target.Partition, Offset: o}] = a.Count
			}
		}
	}
}

func (t *tally) answered(x *tap.Exchange, target tap.Target, acks map[int64]int8, phase int) {
	if x.Top != 0 || x.Codes[target] != 0 {
		t.refused += len(acks)
		return
	}
	t.accepted += len(acks)
	for o, kind := range acks {
		r := client.Record{Partition: target.Partition, Offset: o}
		switch kind {
		case accept:
			t.accepts[r] = true
			if t.last.Before(x.Answered) {
				if !t.last.IsZero() {
					t.gaps[phase] = max(t.gaps[phase], x.Answered.Sub(t.last))
				}
				t.last = x.Answered
			}
		case reject:
			t.rejects[r] = x.Answered
			if t.counts[r] < limit {
				t.early++
			}
		}
		if kind != release {
			delete(t.counts, r)
		}
	}
}

// The acknowledgement types that clients use here.
const (
	accept  = 1
	release = 2
	reject  = 3
)
