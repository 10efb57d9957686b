package dlq

import (
	"context"
	"sync"
	"time"
)

// gatherFor is the time between two departures, and so the longest that a letter waits for company.
const gatherFor = 5 * time.Millisecond

// gatherer has letters of many requests share produce requests, which cost a broker far more than the letters in them. A letter that comes alone is
// produced at once; those that come soon after it wait for the next departure, and go together.
type gatherer struct {
	mu      sync.Mutex
	next    time.Time       // departure
	of      context.Context // whose letters left last; nil: those of several
	waiting []func()
}

// add has start called, which begins to produce a letter: now or soon, by whoever. ctx is the same for all letters of a request, which travel together.
func (g *gatherer) add(ctx context.Context, start func()) {
	g.mu.Lock()
	now := time.Now()
	if wait := g.next.Sub(now); wait > 0 && g.of != ctx {
		if g.waiting = append(g.waiting, start); len(g.waiting) == 1 {
			time.AfterFunc(wait, g.depart)
		}
		g.mu.Unlock()
		return
	}
	if g.of != ctx {
		g.of, g.next = ctx, now.Add(gatherFor)
	}
	g.mu.Unlock()
	start()
}

// depart starts all that waits.
func (g *gatherer) depart() {
	g.mu.Lock()
	starts := g.waiting
	g.waiting = nil
	if len(starts) > 0 {
		g.of, g.next = nil, time.Now().Add(gatherFor)
	}
	g.mu.Unlock()
	for _, start := range starts {
		start()
	}
}
