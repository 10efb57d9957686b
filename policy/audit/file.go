package audit

import (
	"os"
	"sync"
)

// file is what a File sink writes to. The writing goroutine opens it anew; whoever gives up closes it under a write that hangs.
type file struct {
	path string

	mu      sync.Mutex
	f       *os.File
	release func() // of its claim
	closed  bool
}

func openFile(path string) (*file, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return nil, err
	}
	release, err := claim(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &file{path: path, f: f, release: release}, nil
}

// Write implements io.Writer.
func (s *file) Write(p []byte) (int, error) { return s.current().Write(p) }

func (s *file) current() *os.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.f
}

// Close implements io.Closer. It may be called twice.
func (s *file) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.release()
	return s.f.Close()
}

// reopen goes on in the file that the path names now, which another program may have moved away. After an error the old one stays.
func (s *file) reopen() error {
	if s.named() {
		return nil
	}
	next, err := openFile(s.path)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return next.Close()
	}
	s.release()
	old := s.f
	s.f, s.release = next.f, next.release
	return old.Close()
}

// torn says whether the file ends inside a line: of a process that was killed, or could not write the rest.
func (s *file) torn() bool {
	info, err := s.current().Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	f, err := os.Open(s.path) // the other is for writing only
	if err != nil {
		return false
	}
	defer f.Close()
	var last [1]byte
	n, _ := f.ReadAt(last[:], info.Size()-1)
	return n == 1 && last[0] != '\n'
}

// named says whether the path still names the file that is open.
func (s *file) named() bool {
	now, err1 := os.Stat(s.path)
	open, err2 := s.current().Stat()
	return err1 == nil && err2 == nil && os.SameFile(now, open)
}
