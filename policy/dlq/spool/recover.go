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
	for _, n := range numbers {
		if err := q.recover(n); err != nil {
			return nil, err
		}
	}
	if q.marks, err = os.OpenFile(filepath.Join(q.dir, positionFile), os.O_CREATE|os.O_RDWR, fileMode); err != nil {
		return nil, err
	}
	return q, nil
}

// recover takes in a segment of an earlier process.
func (q *Queue) recover(number uint64) error {
	path := segmentPath(q.dir, number)
	valid, err := scan(path, func(e Entry, at int64) {
		if number < q.read.number || number == q.read.number && at < q.read.at {
			return
		}
		if q.waiting == 0 {
			q.oldest = e.Time
		}
		q.waiting++
		q.largest = max(q.largest, int64(len(e.Data)))
	})
	q.number = max(q.number, number)
	switch {
	case errors.Is(err, errTorn) && valid == 0: // not even its head was written
		return os.Remove(path)
	case errors.Is(err, errTorn):
		if err := os.Truncate(path, valid); err != nil {
			return fmt.Errorf("cutting off a torn tail: %w", err)
		}
	case err != nil && !errors.Is(err, errDamaged):
		return err
	}
	q.segments = append(q.segments, segment{number, max(valid, int64(len(magic))), errors.Is(err, errDamaged)})
	return nil
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
	for _, n := range numbers {
		var failed error
		_, err := scan(segmentPath(dir, n), func(e Entry, at int64) {
			if failed == nil && (n > from.number || n == from.number && at >= from.at) {
				failed = each(e)
			}
		})
		switch {
		case failed != nil:
			return failed
		case err == nil, errors.Is(err, errTorn), errors.Is(err, errDamaged), errors.Is(err, fs.ErrNotExist): // delivered meanwhile
		default:
			return fmt.Errorf("spool: %w", err)
		}
	}
	return nil
}
