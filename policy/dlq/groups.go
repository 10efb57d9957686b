package dlq

import (
	"context"
	"strconv"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	groupsKept  = 1024             // groups whose settings are remembered
	groupFresh  = 30 * time.Second // settings are asked for again after that, while the old ones still count
	groupRetry  = 2 * time.Second  // where they could not be read, or the broker has a dead-letter queue: nobody writes letters once that is off
	groupWait   = 500 * time.Millisecond
	groupLookup = 10 * time.Second
	lookups     = 8 // that go on at once
)

// group is what counts for a share group.
type group struct {
	name  string
	limit int           // deliveries; 0: no Release has an effect, as in a transaction
	lock  time.Duration // of an acquisition
	own   brokerQueue   // the broker's own dead-letter queue
}

// groups remembers the settings of groups, and reads them where a source is configured.
type groups struct {
	policy  *Policy
	entries *lru.Cache[string, *groupEntry]
	slots   chan struct{}
}

// groupEntry is one group's. Settings are read by one goroutine at a time.
type groupEntry struct {
	mu      sync.Mutex
	group   group
	due     time.Time     // when to read again
	reading chan struct{} // closed when what goes on has ended; nil: nothing
	read    bool          // or waited for in vain
}

func newGroups(p *Policy) *groups {
	g := &groups{policy: p, slots: make(chan struct{}, lookups)}
	g.entries, _ = lru.New[string, *groupEntry](groupsKept) // fails for sizes below 1 only
	return g
}

// get returns a group's settings: as they were read last, else, when they cannot be read soon, the configuration's.
func (g *groups) get(ctx context.Context, name string) group {
	entry := g.entry(name)
	entry.mu.Lock()
	defer entry.mu.Unlock()
	if wait := entry.reading; wait != nil && !entry.read {
		limited, cancel := context.WithTimeout(ctx, min(groupWait, g.policy.config.Budget/4))
		defer cancel()
		entry.mu.Unlock()
		select {
		case <-wait:
		case <-limited.Done():
		}
		entry.mu.Lock()
		entry.read = true // nobody waits for it twice
	}
	return entry.group
}

// ahead has a group's settings read that has not been seen before: they are known then when its first last delivery comes.
func (g *groups) ahead(name string) {
	if g.policy.source != nil && !g.entries.Contains(name) {
		g.entry(name)
	}
}

// known returns the same without waiting.
func (g *groups) known(name string) group {
	entry := g.entry(name)
	entry.mu.Lock()
	defer entry.mu.Unlock()
	return entry.group
}

// entry finds a group, and has its settings read where that is due.
func (g *groups) entry(name string) *groupEntry {
	c := &g.policy.config
	entry := &groupEntry{group: group{name: name, limit: c.DeliveryLimit, lock: c.Lock}}
	if g.policy.source == nil {
		return entry
	}
	if before, found := g.entries.Get(name); found {
		entry = before
	} else if before, found, _ := g.entries.PeekOrAdd(name, entry); found {
		entry = before
	}
	entry.mu.Lock()
	defer entry.mu.Unlock()
	if entry.reading == nil && !g.policy.deps.Now().Before(entry.due) {
		entry.reading = make(chan struct{})
		if !g.policy.spawn(func() { g.refresh(entry) }) {
			entry.reading = nil
		}
	}
	return entry
}

// refresh reads a group's settings.
func (g *groups) refresh(entry *groupEntry) {
	ctx, cancel := context.WithTimeout(g.policy.ctx, groupLookup)
	defer cancel()
	entry.mu.Lock()
	next := entry.group
	entry.mu.Unlock()
	var err error
	select {
	case g.slots <- struct{}{}:
		err = g.policy.source.settings(ctx, &next)
		<-g.slots
	case <-ctx.Done():
		err = ctx.Err()
	}
	entry.mu.Lock()
	defer entry.mu.Unlock()
	before := entry.group
	if err != nil { // the rest stays as it was; a queue that cannot be seen may not work any more
		if next = before; next.own.topic != "" {
			next.own.why, next.own.problem = whyUnseen, cause(err)
		}
	}
	entry.group, entry.due = next, g.policy.deps.Now().Add(groupRetry)
	if err == nil && next.own.topic == "" {
		entry.due = g.policy.deps.Now().Add(groupFresh)
	}
	if entry.read = true; before.own.state() != next.own.state() {
		g.policy.deps.Notify("group " + strconv.Quote(next.name) + ": " + next.own.state())
	}
	close(entry.reading)
	entry.reading = nil
}
