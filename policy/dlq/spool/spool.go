// Package spool keeps entries in files until they can be delivered: what Append returns nil for survives the end of the process, and of the
// machine's power.
//
// A Store is a directory that one process has to itself. It has a Queue, a directory of its own, for each place that entries are for, so that one
// place that does not take its entries holds up no other, and the order within a place stays. A queue is a row of segment files:
//
//	ackspl01                                                          8 bytes
//	length, 4 bytes | CRC-32C, 4 bytes | time, 8 bytes | entry        again and again; little-endian; length and CRC are of time and entry
//
// A segment is written by one process only. The next one cuts off what a crash left of a last write: at the end of the last segment, the beginning of
// one entry, and zero bytes where a file had become longer and its data was not on disk yet. All else that does not match its checksum is damage: the
// entries around it are delivered, where it is certain that they are entries, and the segment is kept then, as *.damaged, for somebody to look at.
// Damaged tells of it.
//
// A file position says from where on entries are to be delivered. It is not synchronised to disk: after a power failure some entries may be delivered
// again. Segments whose entries are all delivered are removed.
package spool

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"time"
)

// Options bound a Store.
type Options struct {
	MaxBytes     int64            // of all segments; what would be more is refused, except by Move
	MaxAge       time.Duration    // of the oldest entry of a queue: one that has waited longer refuses more; 0 is no bound
	SegmentBytes int64            // a segment is closed when it has as many; 0 stands for 16 MiB
	Now          func() time.Time // nil is time.Now
	// Aside ends the names of queues whose entries wait for somebody to look at them, and not for a place: they were in another queue before, and
	// no bound keeps them from getting here. Empty: there are none.
	Aside string
}

// Errors of Append. The entry is then not kept, or may be: nothing is lost, but something may be delivered that was refused.
var (
	ErrFull   = errors.New("the spool is full")
	ErrAge    = errors.New("the spool's oldest entry waits for too long")
	ErrClosed = errors.New("the spool is closed")
	ErrLocked = errors.New("another process has the spool")
)

const (
	lockFile       = "lock"
	queuePrefix    = "q-"
	defaultSegment = 16 << 20
	dirMode        = 0o700
	fileMode       = 0o600
)

// Store is an open spool. Its methods may be called by many at once.
type Store struct {
	dir     string
	options Options
	lock    *os.File
	making  sync.Mutex // of queues: it may be held as long as the disk hangs, mu never is

	mu     sync.Mutex
	queues map[string]*Queue
	bytes  int64 // of segments, and of entries that are being written
	closed bool
}

// Open opens the spool in a directory, which it makes, and locks it. ErrLocked says that another process has it.
func Open(dir string, options Options) (*Store, error) {
	if options.SegmentBytes == 0 {
		options.SegmentBytes = defaultSegment
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	lock, err := lockPath(filepath.Join(dir, lockFile))
	if err != nil {
		return nil, fmt.Errorf("spool: %s: %w", dir, err)
	}
	s := &Store{dir: dir, options: options, lock: lock, queues: make(map[string]*Queue)}
	if err := s.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("spool: %w", err), s.Close())
	}
	return s, nil
}

// load opens the queues that are there.
func (s *Store) load() error {
	names, err := queueNames(s.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		q, err := openQueue(s, name)
		if err != nil {
			return err
		}
		s.queues[name] = q
		s.bytes += q.size()
		if err := q.remove(); err != nil {
			return err
		}
	}
	return nil
}

// queueNames are those of the queues in a directory.
func queueNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if len(e.Name()) > len(queuePrefix) && e.Name()[:len(queuePrefix)] == queuePrefix && e.IsDir() {
			if name, err := url.PathUnescape(e.Name()[len(queuePrefix):]); err == nil {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

func queueDir(dir, name string) string { return filepath.Join(dir, queuePrefix+url.PathEscape(name)) }

// Queue returns the queue of a name, which it makes where there is none. Only that waits for the disk.
func (s *Store) Queue(name string) (*Queue, error) {
	if q, err := s.opened(name); q != nil || err != nil {
		return q, err
	}
	s.making.Lock()
	defer s.making.Unlock()
	if q, err := s.opened(name); q != nil || err != nil {
		return q, err
	}
	q, err := openQueue(s, name)
	if err == nil {
		err = syncDir(s.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues[name] = q
	return q, nil
}

// opened returns the queue of a name, nil where there is none yet.
func (s *Store) opened(name string) (*Queue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	return s.queues[name], nil
}

// Queues are all that there are, by name.
func (s *Store) Queues() []*Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Queue, 0, len(s.queues))
	for _, q := range s.queues {
		all = append(all, q)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].name < all[j].name })
	return all
}

// Waiting says whether entries of a queue are still to be delivered, as far as it is known by name.
func (s *Store) Waiting(name string) bool {
	s.mu.Lock()
	q := s.queues[name]
	s.mu.Unlock()
	return q != nil && q.Waiting() > 0
}

// Aside is how many entries are set aside, and how many bytes of the spool they have.
func (s *Store) Aside() (entries int, bytes int64) {
	for _, q := range s.Queues() {
		if !q.aside() {
			continue
		}
		q.mu.Lock()
		entries, bytes = entries+q.waiting, bytes+q.size()
		q.mu.Unlock()
	}
	return entries, bytes
}

// Size is how many bytes the spool has on disk, and how long its oldest entry has waited that is not set aside.
func (s *Store) Size() (bytes int64, oldest time.Duration) {
	for _, q := range s.Queues() {
		if !q.aside() {
			oldest = max(oldest, q.Age())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes, oldest
}

// reserve makes sure that n more bytes are allowed, or takes them whatever there is already.
func (s *Store) reserve(n int64, bounded bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case bounded && s.bytes+n > s.options.MaxBytes:
		return ErrFull
	}
	s.bytes += n
	return nil
}

func (s *Store) free(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes -= n
}

// Close waits for what is being written, closes all files and lets another process have the spool. It may be called twice.
func (s *Store) Close() error {
	s.making.Lock()
	defer s.making.Unlock()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	queues := s.queues
	s.mu.Unlock()
	var errs []error
	for _, q := range queues {
		errs = append(errs, q.close())
	}
	return errors.Join(append(errs, s.lock.Close())...) // which unlocks it
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
