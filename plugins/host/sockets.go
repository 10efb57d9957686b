package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// sockets is a folder that one plugin's sockets are made in. It is locked for as long as its host lives, however that ends.
type sockets struct {
	dir  string
	lock *os.File
}

// socketsAge is how old a folder must be before its lock says anything: it is made first and locked then.
const socketsAge = time.Minute

var socketsName = regexp.MustCompile(`^ackproxy-\d+$`)

// newSockets makes a folder below dir, and removes those that hosts left there which were killed.
func newSockets(dir string) (*sockets, error) {
	sweep(dir, time.Now().Add(-socketsAge))
	made, err := os.MkdirTemp(dir, "ackproxy-")
	if err != nil {
		return nil, err
	}
	lock, err := lockDir(made)
	if err != nil {
		return nil, errors.Join(err, os.Remove(made))
	}
	return &sockets{dir: made, lock: lock}, nil
}

// remove may be called twice.
func (s *sockets) remove() error {
	err := os.RemoveAll(s.dir)
	if closed := s.lock.Close(); !errors.Is(closed, os.ErrClosed) {
		err = errors.Join(err, closed)
	}
	return err
}

// sweep removes folders of sockets made before a time whose host is gone. What it cannot remove, or what has anything but sockets in it, stays.
func sweep(dir string, before time.Time) {
	all, _ := os.ReadDir(dir)
	for _, d := range all {
		info, err := d.Info()
		if err != nil || !d.IsDir() || !socketsName.MatchString(d.Name()) || info.ModTime().After(before) {
			continue
		}
		path := filepath.Join(dir, d.Name())
		if lock, err := lockDir(path); err == nil {
			removeSockets(path)
			_ = lock.Close()
		}
	}
}

// removeSockets removes sockets, and then the folders that are empty.
func removeSockets(dir string) {
	var folders []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			folders = append(folders, path)
		case d.Type() == fs.ModeSocket:
			_ = os.Remove(path)
		}
		return nil
	})
	for i := len(folders) - 1; i >= 0; i-- {
		_ = os.Remove(folders[i])
	}
}
