package spool

import (
	"context"
	"errors"
	"hash"
	"io"
	"testing"
)

// stuck is an entry that cannot be written to a file until it is let go: a disk that hangs.
type stuck struct {
	Bytes
	written chan struct{} // gets a value when the file's turn has come
	letGo   chan struct{}
}

func (s *stuck) WriteTo(w io.Writer) (int64, error) {
	if _, sum := w.(hash.Hash); !sum {
		s.written <- struct{}{}
		<-s.letGo
	}
	return s.Bytes.WriteTo(w)
}

// TestDiskHangs: whoever appends does not wait for ever, and learns when its entry is not in use any more.
func TestDiskHangs(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	q := queue(t, s, "q")
	e := &stuck{Bytes("late"), make(chan struct{}), make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	ended, done := make(chan error), make(chan struct{})
	go func() { ended <- q.Write(ctx, []io.WriterTo{e}, func() { close(done) }) }()
	<-e.written
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a write that hangs: %v", err)
	}
	select {
	case <-done:
		t.Error("in use, and written")
	default:
	}
	close(e.letGo)
	<-done
	appendAll(t, q, "next")
	texts, _ := next(t, q, 1000)
	want(t, texts, "late", "next")
}

// TestLargest knows how much memory it takes to read what waits.
func TestLargest(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	q := queue(t, s, "q")
	is := func(least int64) {
		t.Helper()
		if n := q.Largest(); n < least || n > least+frameHead+timeSize {
			t.Errorf("the largest has %d bytes, want %d", n, least)
		}
	}
	is(0)
	appendAll(t, q, string(make([]byte, 5000)), "x", "y")
	is(5000)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{})
	q = queue(t, s, "q")
	is(5000)
	_, entries := next(t, q, 10_000)
	if err := q.Done(entries); err != nil {
		t.Fatal(err)
	}
	appendAll(t, q, string(make([]byte, 200)))
	is(200)
}
