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

	doubtful bool // it is as it was read once, and may have been changed: doubt says what still counts
}

// comesAgain says whether the record is delivered once more when it is not acknowledged, or released, for sure.
func (g *group) comesAgain(it *item) bool {
	return it.count > 0 && int(it.count) < g.limit && (it.count == 1 || !g.doubtful)
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
	group   group         // what counts
	last    group         // as it was read last; at first the configuration's
	due     time.Time     // when to read again
	reading chan struct{} // closed when what goes on has ended; nil: nothing
	read    bool          // with success, ever
	wait    time.Time     // from when on a decision may wait for a reading: the last one failed, or was waited for in vain
}

func newGroups(p *Policy) *groups {
	g := &groups{policy: p, slots: make(chan struct{}, lookups)}
	g.entries, _ = lru.New[string, *groupEntry](groupsKept) // fails for sizes below 1 only
	return g
}

// get returns a group's settings: as they were read last, else, when they cannot be read soon, the configuration's. It waits for a reading
// where there has been none for so long that the last does not count any more, as after a time without requests.
func (g *groups) get(ctx context.Context, name string) group {
	entry := g.entry(name)
	entry.mu.Lock()
	defer entry.mu.Unlock()
	now := g.policy.deps.Now()
	if wait := entry.reading; wait != nil && now.After(entry.due.Add(groupRetry)) && !now.Before(entry.wait) {
		limited, cancel := context.WithTimeout(ctx, min(groupWait, g.policy.config.Budget/4))
		defer cancel()
		entry.mu.Unlock()
		select {
		case <-wait:
		case <-limited.Done():
		}
		entry.mu.Lock()
		if entry.reading == wait {
			g.doubt(entry, "no answer in time")
		}
	}
	return entry.group
}

// doubt has settings count less that could not be read. A broker's queue that cannot be seen may not work any more; the limit may be lower, so that
// the configured one is as likely as what was read, and only a first delivery is surely not the last. What was never read is the configuration's
// already. The entry is locked.
func (g *groups) doubt(entry *groupEntry, problem string) {
	if entry.wait = g.policy.deps.Now().Add(groupFresh); !entry.read {
		return
	}
	next := entry.last
	next.doubtful, next.limit = true, min(next.limit, g.policy.config.DeliveryLimit)
	if next.own.topic != "" {
		next.own.why, next.own.problem = whyUnseen, problem
	}
	g.set(entry, next)
}

// set changes what counts, and says so where that is about the broker's queue. The entry is locked.
func (g *groups) set(entry *groupEntry, next group) {
	before := entry.group.own.state()
	if entry.group = next; before != next.own.state() {
		g.policy.deps.Notify("group " + strconv.Quote(next.name) + ": " + next.own.state())
	}
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
	configured := group{name: name, limit: c.DeliveryLimit, lock: c.Lock}
	entry := &groupEntry{group: configured, last: configured}
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
	next := entry.last
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
	entry.due = g.policy.deps.Now().Add(groupRetry)
	if err != nil {
		g.doubt(entry, cause(err))
	} else {
		entry.read, entry.last, entry.wait = true, next, time.Time{}
		g.set(entry, next)
		if next.own.topic == "" {
			entry.due = g.policy.deps.Now().Add(groupFresh)
		}
	}
	close(entry.reading)
	entry.reading = nil
}
