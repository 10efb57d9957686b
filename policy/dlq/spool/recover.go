package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// openQueue opens a queue's directory, which it makes, and cuts off what a crash left torn.
func openQueue(s *Store, name string) (*Queue, error) {
	q := &Queue{store: s, name: name, dir: queueDir(s.dir, name)}
	if err := os.Mkdir(q.dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	q.read = readPosition(q.dir)
	q.number = q.read.number
	numbers, err := segmentNumbers(q.dir)
	if err != nil {
		return nil, err
	}
	for i, n := range numbers {
		if err := q.recover(n, i == len(numbers)-1); err != nil {
			return nil, err
		}
	}
	if q.marks, err = os.OpenFile(filepath.Join(q.dir, positionFile), os.O_CREATE|os.O_RDWR, fileMode); err != nil {
		return nil, err
	}
	return q, nil
}

// recover takes in a segment of an earlier process.
func (q *Queue) recover(number uint64, last bool) error {
	path := segmentPath(q.dir, number)
	found, err := scan(path, last, q.read.in(number), func(e Entry, at int64) {
		if q.read.behind(number, at) {
			return
		}
		if q.waiting == 0 {
			q.oldest = e.Time
		}
		q.waiting++
		q.largest = max(q.largest, int64(len(e.Data)))
	})
	if err != nil {
		return err
	}
	q.number = max(q.number, number)
	switch {
	case found.torn && found.size == 0: // not even its head was written
		return os.Remove(path)
	case found.torn && len(found.gaps) == 0: // else all of it is kept
		if err := truncate(path, found.size); err != nil {
			return fmt.Errorf("cutting off a torn tail: %w", err)
		}
	}
	unreadable := found.unreadable()
	for _, g := range unreadable {
		q.damage = append(q.damage, Damage{File: path, At: g.from, Bytes: g.to - g.from})
	}
	q.segments = append(q.segments, segment{number, max(found.size, int64(len(magic))), found.gaps, len(unreadable) > 0})
	return nil
}

// truncate cuts a file off, and has that on disk before anything is written to the next: else it might be torn, and not the last.
func truncate(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Sync(), f.Close())
}

// Damage is a stretch of a segment that cannot be read, and is not what an interrupted write leaves.
type Damage struct {
	File      string // the segment's; it is kept under a name with *.damaged once its other entries are delivered
	At, Bytes int64
}

// String says what is damaged, and where.
func (d Damage) String() string {
	return fmt.Sprintf("%s: %d bytes from byte %d on cannot be read", d.File, d.Bytes, d.At)
}

// Damaged is what could not be read when the spool was opened.
func (s *Store) Damaged() []Damage {
	var all []Damage
	for _, q := range s.Queues() {
		all = append(all, q.damage...)
	}
	return all
}

// Read tells each about the entries of a spool that are not delivered, whoever has it open: queue by queue, oldest first. It changes nothing.
// It is for people who want to look: what is written meanwhile may be missing, and what is delivered may be there still. The error wraps
// fs.ErrNotExist where the directory is no spool.
func Read(dir string, each func(queue string, e Entry) error) error {
	if _, err := os.Stat(filepath.Join(dir, lockFile)); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	names, err := queueNames(dir)
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	for _, name := range names {
		if err := readQueue(queueDir(dir, name), func(e Entry) error { return each(name, e) }); err != nil {
			return err
		}
	}
	return nil
}

func readQueue(dir string, each func(Entry) error) error {
	from := readPosition(dir)
	numbers, err := segmentNumbers(dir)
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	for i, n := range numbers {
		var failed error
		_, err := scan(segmentPath(dir, n), i == len(numbers)-1, from.in(n), func(e Entry, at int64) {
			if failed == nil && !from.behind(n, at) {
				failed = each(e)
			}
		})
		switch {
		case failed != nil:
			return failed
		case err != nil && !errors.Is(err, fs.ErrNotExist): // delivered meanwhile
			return fmt.Errorf("spool: %w", err)
		}
	}
	return nil
}
