package dlq

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/ackproxy/ackproxy/policy"
)

var errBreaker = errors.New("the group's breaker is open: it rejects too much")

// breakers has one breaker a group.
type breakers struct {
	policy *Policy
	mu     sync.Mutex
	known  *lru.Cache[string, *breaker]
}

// breaker counts what a group wants dead-lettered in windows of time, one after the other. It opens as soon as a window has more than the rate
// allows, and closes at the first probe that follows on a window with no more than that.
type breaker struct {
	start    time.Time // of the window
	count    int       // in the window
	open     bool
	probeDue time.Time
}

func newBreakers(p *Policy) *breakers {
	b := &breakers{policy: p}
	b.known, _ = lru.New[string, *breaker](groupsKept) // fails for sizes below 1 only
	return b
}

// open counts what a request wants dead-lettered, and says whether the group's breaker is open for it.
func (b *breakers) open(w *work) bool {
	c := b.policy.config.Breaker
	if c == nil {
		return false
	}
	n := 0
	for i := range w.parts {
		n += len(w.parts[i].items)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	one, ok := b.known.Get(w.group.name)
	if !ok {
		one = &breaker{start: w.began}
		b.known.Add(w.group.name, one)
	}
	before := one.open
	if one.take(c, w.began, n); one.open != before {
		b.notify(w.group.name, one.open, c)
	}
	return one.open
}

// take counts n.
func (b *breaker) take(c *Breaker, now time.Time, n int) {
	allowed := int(float64(c.Rate) * c.Window.Seconds())
	within := b.count <= allowed || now.Sub(b.start) >= 2*c.Window // of the window that may end here, or one after it without any
	ended := now.Sub(b.start) >= c.Window
	if ended {
		b.start, b.count = now, 0
	}
	b.count += n
	switch {
	case !b.open && b.count > allowed:
		b.open, b.probeDue = true, now.Add(c.Probe)
	case b.open && ended && !now.Before(b.probeDue):
		if b.open = !within || b.count > allowed; b.open {
			b.probeDue = now.Add(c.Probe)
		}
	}
}

func (b *breakers) notify(group string, open bool, c *Breaker) {
	switch {
	case !open:
		b.policy.deps.Notify("group " + strconv.Quote(group) + ": the breaker closed")
	case c.Pass:
		b.policy.deps.Notify(fmt.Sprintf("group %q: the breaker opened at more than %d rejects a second: they pass without dead letters", group, c.Rate))
	default:
		b.policy.deps.Notify(fmt.Sprintf("group %q: the breaker opened at more than %d rejects a second: they become releases", group, c.Rate))
	}
}

// opened is how many are open.
func (b *breakers) opened() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.known.Values() {
		if one.open {
			n++
		}
	}
	return n
}

// brake decides about what it can while the breaker is open. What a Release would lose is dead-lettered all the same.
func (w *work) brake() {
	pass := w.policy.config.Breaker.Pass
	for i := range w.parts {
		for _, it := range w.parts[i].items {
			switch {
			case pass:
				it.fate, it.err = forwarded, errBreaker
			case w.group.releasable(it):
				it.fate, it.err = released, errBreaker
			}
		}
	}
}

// releasable says whether a Release in place of a Reject makes the record come again.
func (g *group) releasable(it *item) bool {
	return it.asked == policy.Reject && g.comesAgain(it)
}
