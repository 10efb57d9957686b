package spool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Entry is what a queue keeps.
type Entry struct {
	Time time.Time // when it was appended, to the millisecond
	Data []byte
}

// Queue is the entries for one place, oldest first. Many may append; one takes.
type Queue struct {
	store *Store
	name  string
	dir   string

	damage []Damage // that was found when it was opened

	mu       sync.Mutex
	segments []segment // ascending; the last is written to while file is open
	number   uint64    // of the last segment there ever was
	read     position  // of the oldest entry that is not delivered
	waiting  int
	largest  int64     // bytes of the largest of those, or of one before
	oldest   time.Time // when the oldest of those was appended, or earlier
	pending  *batch    // entries that wait to be written
	closed   bool

	writing sync.WaitGroup // one, while pending is not nil or being written
	busy    bool
	file    *os.File // of the last segment; the writing goroutine's while busy
	marks   *os.File // the position's
}

// batch is entries that are written and synchronised together.
type batch struct {
	frames  []frame
	size    int64    // bytes of all
	written []func() // of those who appended
	done    chan struct{}
	err     error
}

// Name is the queue's.
func (q *Queue) Name() string { return q.name }

func (q *Queue) aside() bool {
	return q.store.options.Aside != "" && strings.HasSuffix(q.name, q.store.options.Aside)
}

// Waiting is how many entries are to be delivered.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// Age is how long the oldest entry has waited, or longer by what was delivered since it was looked at.
func (q *Queue) Age() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.age()
}

func (q *Queue) age() time.Duration {
	if q.waiting == 0 {
		return 0
	}
	return max(q.store.options.Now().Sub(q.oldest), 0)
}

// Largest is how many bytes an entry that waits has, at most.
func (q *Queue) Largest() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.largest
}

// Append keeps an entry, as Write does.
func (q *Queue) Append(ctx context.Context, data []byte) error {
	return q.Write(ctx, []io.WriterTo{Bytes(data)}, func() {})
}

// Write keeps entries, all or none: it returns nil once they are on disk. What many write at a time is synchronised once. On any error they may be
// kept all the same.
//
// Entries are not copied: each is written twice, to a checksum first, and must write the same then. written is called, once, when no entry will be
// written any more. That may be after Write has returned, when ctx ends first.
func (q *Queue) Write(ctx context.Context, entries []io.WriterTo, written func()) error {
	return q.put(ctx, entries, written, true)
}

// Move keeps an entry of another queue of the store, which takes it off there afterwards: a crash in between leaves it in both. MaxBytes and MaxAge
// do not count: the entry is in the spool already, and there is no other place for it. So the spool may be larger than MaxBytes by what was moved
// out of the segments that are being delivered: about SegmentBytes, or one entry, a queue.
func (q *Queue) Move(ctx context.Context, e Entry) error {
	return q.put(ctx, []io.WriterTo{Bytes(e.Data)}, func() {}, false)
}

// put is Write, within the bounds or not.
func (q *Queue) put(ctx context.Context, entries []io.WriterTo, written func(), bounded bool) error {
	b, err := q.enqueue(entries, written, bounded)
	if err != nil {
		written()
		return err
	}
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return fmt.Errorf("spool: %w", ctx.Err())
	}
}

// enqueue puts entries into the batch that is written next, and has that written.
func (q *Queue) enqueue(entries []io.WriterTo, written func(), bounded bool) (*batch, error) {
	now, frames, size := q.store.options.Now(), make([]frame, len(entries)), int64(0)
	for i, e := range entries {
		var err error
		if frames[i], err = newFrame(now, e); err != nil {
			return nil, err
		}
		size += frames[i].size
	}
	if err := q.store.reserve(size, bounded); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	limit := q.store.options.MaxAge
	switch {
	case q.closed:
		q.store.free(size)
		return nil, ErrClosed
	case bounded && limit > 0 && q.age() > limit:
		q.store.free(size)
		return nil, ErrAge
	case q.pending == nil:
		q.pending = &batch{done: make(chan struct{})}
	}
	b := q.pending
	b.frames, b.size, b.written = append(b.frames, frames...), b.size+size, append(b.written, written)
	if !q.busy {
		q.busy = true
		q.writing.Go(q.write)
	}
	return b, nil
}

// write writes what is pending until nothing is.
func (q *Queue) write() {
	for more := true; more; {
		q.mu.Lock()
		b := q.pending
		q.pending = nil
		last := len(q.segments) - 1
		at := int64(-1)
		if q.file != nil && q.segments[last].size < q.store.options.SegmentBytes {
			at = q.segments[last].size
		}
		next := q.number + 1
		q.mu.Unlock()
		if at < 0 {
			at, b.err = q.rotate(next)
		}
		if b.err == nil {
			b.err = q.commit(b.frames, at)
		}
		more = q.committed(b)
	}
}

// rotate closes the last segment and begins another.
func (q *Queue) rotate(number uint64) (size int64, err error) {
	if q.file != nil {
		q.file.Close() // all of it is synchronised
		q.file = nil
	}
	f, err := os.OpenFile(segmentPath(q.dir, number), os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		q.mu.Lock()
		q.number = number // should the file be there, another will not be
		q.mu.Unlock()
		return 0, fmt.Errorf("spool: %w", err)
	}
	_, err = f.WriteString(magic)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncDir(q.dir)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.number = number
	if err != nil {
		return 0, fmt.Errorf("spool: %w", errors.Join(err, f.Close(), os.Remove(f.Name())))
	}
	q.file = f
	q.segments = append(q.segments, segment{number: number, size: int64(len(magic))})
	return int64(len(magic)), nil
}

// commit makes frames durable. Where that fails the segment is left for good: what a disk says afterwards about the same bytes proves nothing.
func (q *Queue) commit(frames []frame, at int64) error {
	w := bufio.NewWriterSize(io.NewOffsetWriter(q.file, at), writeBuffer)
	var err error
	for i := range frames {
		if err = frames[i].writeTo(w); err != nil {
			break
		}
	}
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = q.file.Sync()
	}
	if err != nil {
		err = fmt.Errorf("spool: %w", errors.Join(err, q.file.Truncate(at), q.file.Close()))
		q.file = nil
	}
	return err
}

// committed says so to those who appended, and whether more is pending.
func (q *Queue) committed(b *batch) (more bool) {
	q.mu.Lock()
	if b.err == nil {
		q.segments[len(q.segments)-1].size += b.size
		if q.waiting == 0 {
			q.oldest, q.largest = q.store.options.Now(), 0
		}
		q.waiting += len(b.frames)
		for i := range b.frames {
			q.largest = max(q.largest, b.frames[i].size)
		}
	}
	q.busy = q.pending != nil
	more = q.busy
	q.mu.Unlock()
	if b.err != nil {
		q.store.free(b.size)
	}
	for _, written := range b.written {
		written()
	}
	close(b.done)
	return more
}

// size is how many bytes the segments have, as Append counts them.
func (q *Queue) size() (n int64) {
	for _, s := range q.segments {
		n += s.size - int64(len(magic))
	}
	return n
}

// close waits for what is being written, and closes the files.
func (q *Queue) close() error {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.writing.Wait()
	var err error
	if q.file != nil {
		err = q.file.Close()
	}
	return errors.Join(err, q.marks.Close())
}
