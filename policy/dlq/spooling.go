package dlq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ackproxy/ackproxy/policy/dlq/letter"
	"github.com/ackproxy/ackproxy/policy/dlq/spool"
)

const (
	spoolRetry   = time.Second // between attempts to open a spool that another process has, or that cannot be opened
	spoolPrefix  = "dlq-"      // of the directory below the state directory
	spoolPiece   = 1 << 20     // bytes of a request's letters that are written at a time: on a slow disk some are kept in time, if not all
	refusedQueue = "!refused"  // after a queue's name: letters that its topic will never take
)

// Waiting is a letter in a spool.
type Waiting struct {
	letter.Record
	Since   time.Time
	Refused bool // no topic will ever take it: it waits for somebody to look at it
}

// ReadSpool tells each about the letters of a spool, whoever has it open, and says how many entries cannot be read. It changes nothing. The error
// wraps fs.ErrNotExist where the directory is no spool.
func ReadSpool(dir string, each func(*Waiting)) (unreadable int, err error) {
	err = spool.Read(dir, func(queue string, e spool.Entry) error {
		r, err := letter.Decode(e.Data)
		if err != nil {
			unreadable++
			return nil
		}
		each(&Waiting{Record: r, Since: e.Time, Refused: strings.HasSuffix(queue, refusedQueue)})
		return nil
	})
	return unreadable, err
}

// Spools are the names of the policies that have letters in a spool below a state directory. Directories that cannot be read are passed over.
func Spools(stateDir string) (policies []string) {
	waits := errors.New("a letter waits")
	entries, _ := os.ReadDir(stateDir)
	for _, e := range entries {
		escaped, is := strings.CutPrefix(e.Name(), spoolPrefix)
		name, err := url.PathUnescape(escaped)
		if !is || err != nil {
			continue
		}
		if err := spool.Read(SpoolDir(stateDir, name), func(string, spool.Entry) error { return waits }); errors.Is(err, waits) {
			policies = append(policies, name)
		}
	}
	return policies
}

// store is the policy's spool, once it is open.
type store struct {
	open atomic.Pointer[spool.Store]
}

// SpoolDir is where a policy of a name keeps its spool, below the state directory.
func SpoolDir(stateDir, name string) string {
	return filepath.Join(stateDir, spoolPrefix+url.PathEscape(name))
}

// queueName is the name of the queue for a target: a cluster's name cannot have an @ in it, nor can a topic's.
func queueName(l *letter.Record) string { return l.Cluster + "@" + l.Topic }

// openSpool opens the spool, now or as soon as that is possible, and drains what an earlier process left.
func (p *Policy) openSpool() {
	if !slices.Contains(p.config.OnFailure, Spool) {
		return
	}
	p.store = &store{}
	if err := p.tryOpen(); err != nil {
		p.deps.Notify("no spool for now: " + err.Error())
		p.spawn(p.keepOpening)
	}
}

func (p *Policy) tryOpen() error {
	s, err := spool.Open(SpoolDir(p.deps.StateDir, p.name),
		spool.Options{MaxBytes: p.config.SpoolBytes, MaxAge: p.config.SpoolAge, Now: p.deps.Now, Aside: refusedQueue})
	if err != nil {
		return err
	}
	p.tellDamage(s)
	for _, q := range s.Queues() {
		if q.Waiting() > 0 {
			p.drain(q)
		}
	}
	p.store.open.Store(s)
	return nil
}

func (p *Policy) keepOpening() {
	for p.sleep(spoolRetry) {
		if p.tryOpen() == nil {
			p.deps.Notify("the spool is open")
			return
		}
	}
}

// sleep says whether the policy is still there afterwards.
func (p *Policy) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// opened is the spool; nil where there is none, or none yet.
func (p *Policy) opened() *spool.Store {
	if p.store == nil {
		return nil
	}
	return p.store.open.Load()
}

func (p *Policy) spoolOpen() bool { return p.opened() != nil }

func (p *Policy) spooled() (bytes int64, oldest time.Duration) {
	if s := p.opened(); s != nil {
		return s.Size()
	}
	return 0, 0
}

func (p *Policy) aside() (letters int, bytes int64) {
	if s := p.opened(); s != nil {
		return s.Aside()
	}
	return 0, 0
}

func (p *Policy) closeSpool() error {
	if s := p.opened(); s != nil {
		return s.Close()
	}
	return nil
}

// backlog says whether earlier letters for the same topic wait in the spool. Later ones then go there as well: the order stays, and nobody waits
// for a topic that takes nothing.
func (p *Policy) backlog(l *letter.Record) bool {
	s := p.opened()
	return s != nil && s.Waiting(queueName(l))
}

// spoolAll spools items, those of one topic together. What the spool does not take stays pending.
func (p *Policy) spoolAll(ctx context.Context, items []*item) {
	s := p.opened()
	if s == nil {
		return
	}
	byQueue := make(map[string][]*item)
	for _, it := range items {
		name := queueName(&it.record)
		byQueue[name] = append(byQueue[name], it)
	}
	for name, some := range byQueue {
		for len(some) > 0 {
			n := piece(some)
			p.spoolPiece(ctx, s, name, some[:n])
			some = some[n:]
		}
	}
}

// piece is how many of the items are spooled at a time.
func piece(items []*item) (n int) {
	for bytes := 0; n < len(items); n++ {
		if bytes += items[n].record.Size(); bytes > spoolPiece {
			return max(n, 1)
		}
	}
	return n
}

// spoolPiece spools some items of one topic, all or none. What is on disk is not in memory any more.
func (p *Policy) spoolPiece(ctx context.Context, s *spool.Store, name string, items []*item) {
	err := p.spoolSome(ctx, s, name, items)
	for _, it := range items {
		if err != nil {
			it.err = fmt.Errorf("%w; %w", it.err, err)
			continue
		}
		it.fate = spooled
		it.drop()
	}
}

func (p *Policy) spoolSome(ctx context.Context, s *spool.Store, name string, items []*item) error {
	q, err := s.Queue(name)
	if err != nil {
		return err
	}
	letters := make([]io.WriterTo, len(items))
	for i, it := range items {
		it.hold.use()
		record := it.record
		letters[i] = &record
	}
	written := func() { // maybe long after ctx has ended: the disk hangs
		for _, it := range items {
			it.hold.end()
		}
		p.drain(q) // what is there now is to be delivered, whether somebody still waits or not
	}
	return q.Write(ctx, letters, written)
}

// drain begins to deliver what a queue has, unless that goes on already.
func (p *Policy) drain(q *spool.Queue) {
	if strings.HasSuffix(q.Name(), refusedQueue) {
		return
	}
	if _, goesOn := p.draining.LoadOrStore(q.Name(), true); !goesOn {
		p.spawn(func() { (&drainer{policy: p, queue: q}).run() })
	}
}
