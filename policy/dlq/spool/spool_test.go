package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

func open(t *testing.T, dir string, o Options) *Store {
	t.Helper()
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 20
	}
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func queue(t *testing.T, s *Store, name string) *Queue {
	t.Helper()
	q, err := s.Queue(name)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func appendAll(t *testing.T, q *Queue, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := q.Append(t.Context(), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
}

// next takes the texts of entries, without delivering them.
func next(t *testing.T, q *Queue, maxBytes int) (texts []string, entries []Entry) {
	t.Helper()
	entries, err := q.Next(maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		texts = append(texts, string(e.Data))
	}
	return texts, entries
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got %q instead of %q", got, want)
	}
}

// segmentsOf are the files of a queue.
func segmentsOf(t *testing.T, q *Queue) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(q.dir, "*"+extension))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestOrderAndRestart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{SegmentBytes: 40}) // a new segment after each two entries or so
	q := queue(t, s, "@dlq.orders")
	appendAll(t, q, "a", "bb", "ccc", "dddd", "eeeee")
	if n := len(segmentsOf(t, q)); n < 3 {
		t.Fatalf("%d segments", n)
	}
	texts, _ := next(t, q, 1)
	want(t, texts, "a")
	texts, entries := next(t, q, 6)
	want(t, texts, "a", "bb", "ccc")
	if err := q.Done(entries[:2]); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{SegmentBytes: 40})
	q = queue(t, s, "@dlq.orders")
	if q.Waiting() != 3 {
		t.Fatalf("%d wait", q.Waiting())
	}
	appendAll(t, q, "f")
	texts, entries = next(t, q, 1000)
	want(t, texts, "ccc", "dddd", "eeeee", "f")
	if err := q.Done(entries); err != nil {
		t.Fatal(err)
	}
	texts, _ = next(t, q, 1000)
	want(t, texts)
	if n, age := s.Size(); n != 0 || age != 0 || len(segmentsOf(t, q)) != 0 || q.Waiting() != 0 {
		t.Errorf("empty, and still %d bytes of age %v in %d segments", n, age, len(segmentsOf(t, q)))
	}
	appendAll(t, q, "g")
	texts, _ = next(t, q, 1000)
	want(t, texts, "g")
}

// TestTornTail cuts a segment off at every byte, as a crash might.
func TestTornTail(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	q := queue(t, s, "q")
	appendAll(t, q, "first", "second")
	whole, err := os.ReadFile(segmentsOf(t, q)[0])
	if err != nil {
		t.Fatal(err)
	}
	for cut := range whole {
		dir := t.TempDir()
		path := segmentPath(queueDir(dir, "q"), 1)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), dirMode), os.WriteFile(path, whole[:cut], fileMode)); err != nil {
			t.Fatal(err)
		}
		s := open(t, dir, Options{})
		q := queue(t, s, "q")
		appendAll(t, q, "third")
		texts, _ := next(t, q, 1000)
		switch one := len(magic) + frameHead + timeSize + len("first"); {
		case cut < one:
			want(t, texts, "third")
		default:
			want(t, texts, "first", "third")
		}
	}
}

func TestDamageIsKept(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	q := queue(t, s, "q")
	appendAll(t, q, "first", "second", "third")
	path := segmentsOf(t, q)[0]
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole[len(magic)+2*(frameHead+timeSize)+len("first")] ^= 1 // in "second"
	if err := os.WriteFile(path, whole, fileMode); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{})
	q = queue(t, s, "q")
	appendAll(t, q, "fourth")
	texts, entries := next(t, q, 1000)
	want(t, texts, "first", "third", "fourth")
	if err := q.Done(entries); err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(filepath.Join(q.dir, "*"+damaged))
	if err != nil || len(kept) != 1 {
		t.Fatalf("%v kept, %v", kept, err)
	}
	if text, err := os.ReadFile(kept[0]); err != nil || string(text) != string(whole) {
		t.Errorf("the damaged segment is not what it was: %v", err)
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	if _, err := Open(dir, Options{MaxBytes: 1}); !errors.Is(err, ErrLocked) {
		t.Fatalf("opened twice: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir, Options{})
}

func TestBounds(t *testing.T) {
	now := time.Now()
	s := open(t, t.TempDir(), Options{MaxBytes: 100, MaxAge: time.Minute, Now: func() time.Time { return now }})
	q, other := queue(t, s, "q"), queue(t, s, "other")
	appendAll(t, q, string(make([]byte, 60)))
	if err := other.Append(t.Context(), make([]byte, 60)); !errors.Is(err, ErrFull) {
		t.Fatalf("more than there is room for: %v", err)
	}
	now = now.Add(2 * time.Minute)
	if err := q.Append(t.Context(), nil); !errors.Is(err, ErrAge) {
		t.Fatalf("behind one that is too old: %v", err)
	}
	appendAll(t, other, "x") // has nothing to do with that
	_, entries := next(t, q, 1)
	if err := q.Done(entries); err != nil {
		t.Fatal(err)
	}
	appendAll(t, q, string(make([]byte, 50))) // there is room again
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := q.Append(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestAside: what is set aside is bound by nothing, and no place waits for it. It has its room of the rest, also after a restart.
func TestAside(t *testing.T) {
	now, dir := time.Now(), t.TempDir()
	o := Options{MaxBytes: 100, MaxAge: time.Minute, Now: func() time.Time { return now }, Aside: "!no"}
	s := open(t, dir, o)
	for range 2 {
		if err := queue(t, s, "q!no").Move(t.Context(), Entry{Data: make([]byte, 60)}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(2 * time.Minute)
	}
	check := func() {
		t.Helper()
		if n, age := s.Size(); n != 2*(60+frameHead+timeSize) || age != 0 {
			t.Errorf("%d bytes of age %v", n, age)
		}
		if n, bytes := s.Aside(); n != 2 || bytes != 2*(60+frameHead+timeSize) {
			t.Errorf("%d entries, %d bytes are set aside", n, bytes)
		}
		if err := queue(t, s, "q").Append(t.Context(), nil); !errors.Is(err, ErrFull) {
			t.Errorf("there is room: %v", err)
		}
	}
	check()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, o)
	check()
}

// TestMove: what another queue cannot get rid of is kept in a full spool, and behind one that is too old.
func TestMove(t *testing.T) {
	now := time.Now()
	s := open(t, t.TempDir(), Options{MaxBytes: 100, MaxAge: time.Hour, Now: func() time.Time { return now }})
	q, aside := queue(t, s, "q"), queue(t, s, "q!refused")
	appendAll(t, q, string(make([]byte, 60)))
	_, entries := next(t, q, 1000)
	for range 2 {
		if err := aside.Move(t.Context(), entries[0]); err != nil {
			t.Fatal("what no place takes stays at the head of its queue: ", err)
		}
		now = now.Add(2 * time.Hour)
	}
	if err := q.Done(entries); err != nil {
		t.Fatal(err)
	}
	if n, _ := s.Size(); n != 2*(frameHead+timeSize+60) || aside.Waiting() != 2 {
		t.Errorf("%d bytes, and %d wait", n, aside.Waiting())
	}
	if err := q.Append(t.Context(), []byte("x")); !errors.Is(err, ErrFull) {
		t.Errorf("the bound is no bound for others: %v", err)
	}
}

// TestMoveAndCrash ends before the entry is taken off its queue: it is in both.
func TestMoveAndCrash(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	q := queue(t, s, "q")
	appendAll(t, q, "a", "b")
	_, entries := next(t, q, 1000)
	if err := errors.Join(queue(t, s, "q!refused").Move(t.Context(), entries[0]), s.Close()); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{})
	texts, _ := next(t, queue(t, s, "q"), 1000)
	want(t, texts, "a", "b")
	texts, _ = next(t, queue(t, s, "q!refused"), 1000)
	want(t, texts, "a")
}

// TestDiskFails has the segment's file fail, and then work again.
func TestDiskFails(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	q := queue(t, s, "q")
	appendAll(t, q, "a")
	q.file.Close()
	if err := q.Append(t.Context(), []byte("b")); !errors.Is(err, os.ErrClosed) {
		t.Fatalf("written to a closed file: %v", err)
	}
	appendAll(t, q, "c")
	texts, entries := next(t, q, 1000)
	want(t, texts, "a", "c")
	if err := q.Done(entries); err != nil {
		t.Fatal(err)
	}
	if n, _ := s.Size(); n != 0 {
		t.Errorf("%d bytes, and all is delivered", n)
	}
}

// TestManyAppend has many append while one delivers.
func TestManyAppend(t *testing.T) {
	s := open(t, t.TempDir(), Options{SegmentBytes: 512})
	q := queue(t, s, "q")
	const writers, each = 8, 25
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				if err := q.Append(context.Background(), fmt.Appendf(nil, "%d-%d", w, i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	last := map[int]int{}
	for seen := 0; seen < writers*each; {
		texts, entries := next(t, q, 64)
		for _, text := range texts {
			var w, i int
			fmt.Sscanf(text, "%d-%d", &w, &i)
			if at, ok := last[w]; ok && i != at+1 || !ok && i != 0 {
				t.Fatalf("%s after %d", text, at)
			}
			last[w] = i
		}
		if err := q.Done(entries); err != nil {
			t.Fatal(err)
		}
		if seen += len(texts); len(texts) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	writing.Wait()
	if n, _ := s.Size(); n != 0 || q.Waiting() != 0 {
		t.Errorf("%d bytes and %d entries are left", n, q.Waiting())
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	appendAll(t, queue(t, s, "east@dlq.a"), "1", "2", "3")
	appendAll(t, queue(t, s, "@dlq.b!refused"), "4")
	q := queue(t, s, "east@dlq.a")
	_, entries := next(t, q, 1)
	if err := q.Done(entries); err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := Read(dir, func(name string, e Entry) error { got = append(got, name+" "+string(e.Data)); return nil }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	want(t, got, "@dlq.b!refused 4", "east@dlq.a 2", "east@dlq.a 3")
}

// appendFrame appends an entry as a segment has it.
func appendFrame(to []byte, at time.Time, text string) []byte {
	b := bytes.NewBuffer(slices.Clone(to))
	f, err := newFrame(at, Bytes(text))
	if err = errors.Join(err, f.writeTo(b)); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// FuzzSegment has any bytes in a segment: opening it must neither panic nor take memory out of proportion, and what is appended after it must come
// out.
func FuzzSegment(f *testing.F) {
	entry := appendFrame([]byte(magic), time.UnixMilli(1), "first")
	seeds := [][]byte{nil, []byte(magic), entry, appendFrame(entry, time.UnixMilli(2), ""), entry[:len(entry)-1],
		append(slices.Clone(entry), 0xff, 0xff, 0xff, 0xff), append([]byte(magic), make([]byte, 64)...), []byte("ackspl02")}
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		path := segmentPath(queueDir(dir, "q"), 7)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), dirMode), os.WriteFile(path, b, fileMode)); err != nil {
			t.Fatal(err)
		}
		s := open(t, dir, Options{MaxBytes: 1 << 30})
		defer s.Close()
		q := queue(t, s, "q")
		before := q.Waiting()
		appendAll(t, q, "last")
		texts, entries := next(t, q, 1<<20)
		if len(texts) != before+1 || texts[before] != "last" {
			t.Fatalf("%d waited, and then came %q", before, texts)
		}
		if err := q.Done(entries); err != nil || q.Waiting() != 0 {
			t.Fatalf("%d are left, %v", q.Waiting(), err)
		}
	})
}
