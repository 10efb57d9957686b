package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// image is a segment with entries in it, and where each begins.
func image(texts ...string) (b []byte, starts []int) {
	b = []byte(magic)
	for _, text := range texts {
		starts = append(starts, len(b))
		b = appendFrame(b, time.Now(), text)
	}
	return b, starts
}

// reopen opens a spool whose queue "q" has segments, from 1 on, with these bytes.
func reopen(t *testing.T, segments ...[]byte) (*Store, *Queue) {
	t.Helper()
	dir := t.TempDir()
	for i, b := range segments {
		path := segmentPath(queueDir(dir, "q"), uint64(i+1))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), dirMode), os.WriteFile(path, b, fileMode)); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir, Options{MaxBytes: 1 << 30})
	return s, queue(t, s, "q")
}

// take delivers all.
func take(t *testing.T, q *Queue) []string {
	t.Helper()
	texts, entries := next(t, q, 1<<30)
	if err := q.Done(entries); err != nil {
		t.Fatal(err)
	}
	if q.Waiting() != 0 {
		t.Fatalf("%d wait, and all is delivered", q.Waiting())
	}
	return texts
}

// damagedFiles are what damaged segments of a queue had in them.
func damagedFiles(t *testing.T, q *Queue) (all [][]byte) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(q.dir, "*"+damaged))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

// wantKept is a segment that was kept as it was, and of which the store told.
func wantKept(t *testing.T, s *Store, q *Queue, segment []byte) {
	t.Helper()
	if kept := damagedFiles(t, q); len(kept) != 1 || !bytes.Equal(kept[0], segment) {
		t.Errorf("%d files are kept, or one that is not as it was", len(kept))
	}
	if len(s.Damaged()) == 0 {
		t.Error("nobody is told")
	}
}

// wantQuiet is a segment that was only torn.
func wantQuiet(t *testing.T, s *Store, q *Queue) {
	t.Helper()
	if kept, told := damagedFiles(t, q), s.Damaged(); len(kept) != 0 || len(told) != 0 {
		t.Errorf("%d files are kept, and told is %v", len(kept), told)
	}
}

// TestDamagedLength: the letters behind one whose length is wrong are not what a write left that was interrupted.
func TestDamagedLength(t *testing.T) {
	b, starts := image("first", "second", "third")
	b[starts[1]+2] ^= 1 // 64 KiB more
	s, q := reopen(t, b)
	want(t, take(t, q), "first", "third")
	wantKept(t, s, q, b)
	if d := s.Damaged(); len(d) != 1 || d[0].At != int64(starts[1]) || d[0].Bytes != int64(starts[2]-starts[1]) ||
		!strings.Contains(d[0].String(), segmentPath(q.dir, 1)) {
		t.Errorf("told is %v", d)
	}
}

// TestFlipAnyByte has any one byte wrong, in the last segment of a queue and in one before it: all letters but that one are delivered, the segment
// is kept, and told of.
func TestFlipAnyByte(t *testing.T) {
	texts := []string{"first", "", "a longer one, with \x00 in it", strings.Repeat("x", 40), "\x00\x00\x00\x00", "last"}
	whole, starts := image(texts...)
	other, _ := image("other")
	for at := range whole {
		flipped := slices.IndexFunc(starts, func(s int) bool { return at < s }) - 1 // -1 is the head
		switch {
		case at < len(magic):
			flipped = -1
		case flipped < 0:
			flipped = len(texts) - 1
		}
		rest := slices.Clone(texts)
		if flipped >= 0 {
			rest = slices.Delete(rest, flipped, flipped+1)
		}
		for _, mask := range []byte{1, 16, 128, 255, max(whole[at], 1)} {
			b := slices.Clone(whole)
			b[at] ^= mask
			s, q := reopen(t, b)
			want(t, take(t, q), rest...)
			wantKept(t, s, q, b)
			s.Close()
			if mask == 1 {
				s, q = reopen(t, b, other)
				want(t, take(t, q), append(slices.Clone(rest), "other")...)
				wantKept(t, s, q, b)
				s.Close()
			}
			if t.Failed() {
				t.Fatalf("byte %d ^ %d", at, mask)
			}
		}
	}
}

// TestTornIsQuiet has the last write end anywhere, in nothing or in zero bytes, as it does when the machine stops.
func TestTornIsQuiet(t *testing.T) {
	whole, starts := image("first", "", strings.Repeat("second ", 20))
	for cut := 0; cut <= len(whole); cut++ {
		for _, zeros := range []int{0, 1, 100, 5000} {
			if zeros == 1 && slices.Contains(append(slices.Clone(starts), len(whole)), cut+1) {
				continue // all bytes are there, and the last is wrong
			}
			b, n := append(slices.Clone(whole[:cut]), make([]byte, zeros)...), 0
			for _, end := range append(slices.Clone(starts[1:]), len(whole)) {
				if bytes.HasPrefix(b, whole[:end]) {
					n++
				}
			}
			s, q := reopen(t, b)
			if q.Waiting() != n {
				t.Fatalf("%d wait of what is cut off at byte %d, with %d zero bytes", q.Waiting(), cut, zeros)
			}
			if got := take(t, q); len(got) != n {
				t.Fatalf("got %q", got)
			}
			if wantQuiet(t, s, q); t.Failed() {
				t.Fatalf("cut off at byte %d, with %d zero bytes", cut, zeros)
			}
			s.Close()
		}
	}
}

// TestTornTwice: what was cut off is not there the next time.
func TestTornTwice(t *testing.T) {
	whole, _ := image("first", "second")
	s, q := reopen(t, whole[:len(whole)-1])
	appendAll(t, q, "third")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, s.dir, Options{})
	q = queue(t, s, "q")
	want(t, take(t, q), "first", "third")
	wantQuiet(t, s, q)
}

// TestTornInTheMiddle: only the last segment is written to.
func TestTornInTheMiddle(t *testing.T) {
	whole, _ := image("first", "second")
	other, _ := image("other")
	torn := whole[:len(whole)-1]
	s, q := reopen(t, torn, other)
	want(t, take(t, q), "first", "other")
	wantKept(t, s, q, torn)
}

// TestNotTorn has what no interrupted write leaves at the end.
func TestNotTorn(t *testing.T) {
	whole, starts := image("first", "second", "third")
	lengthAndData := slices.Clone(whole)
	lengthAndData[starts[1]+2] ^= 1
	lengthAndData[starts[1]+entryHead] ^= 1
	for what, b := range map[string][]byte{
		"another entry behind it":        lengthAndData,
		"a length that no entry has":     append(slices.Clone(whole), 4, 0, 0, 0, 1, 2, 3, 4),
		"more than one entry":            []byte(string(whole) + "\x09\x00\x00\x00" + strings.Repeat("\x01", 100) + strings.Repeat("\x00", 100)),
		"a segment of another version":   append([]byte("ackspl02"), bytes.Repeat([]byte{1}, 100)...),
		"the head of another version":    []byte("ackspl02"),
		"the beginning of no such head":  []byte("acksql"),
		"a head that is wrong, and zero": append([]byte("ackspl03"), make([]byte, 100)...),
	} {
		t.Run(what, func(t *testing.T) {
			s, q := reopen(t, b)
			take(t, q)
			wantKept(t, s, q, b)
		})
	}
}

// TestDamagedTwice has several entries wrong, those between them good, and the last one torn.
func TestDamagedTwice(t *testing.T) {
	whole, starts := image("0", "1", "2", "3", "4", "5")
	b := slices.Clone(whole[:len(whole)-1])
	b[starts[1]+entryHead] ^= 1
	b[starts[2]+entryHead-1] ^= 1 // of its time: two that follow each other are not passed over one by one
	b[starts[4]+5] ^= 1           // of its checksum
	s, q := reopen(t, b)
	got := take(t, q)
	want(t, got[:1], "0")
	wantKept(t, s, q, b)
	b = slices.Clone(whole)
	b[starts[1]+entryHead] ^= 1
	b[starts[3]+2] ^= 1
	s, q = reopen(t, b)
	want(t, take(t, q), "0", "2", "4", "5")
	wantKept(t, s, q, b)
	if d := s.Damaged(); len(d) != 2 {
		t.Errorf("told is %v", d)
	}
}

// TestDamageBehindPosition: what was delivered is not missed, and what was not is delivered wherever the damage before it seems to end.
func TestDamageBehindPosition(t *testing.T) {
	whole, starts := image("0", "1", "2", "3", "4")
	s, q := reopen(t, whole)
	_, entries := next(t, q, 3)
	if err := errors.Join(q.Done(entries), s.Close()); err != nil {
		t.Fatal(err)
	}
	b := slices.Clone(whole)
	b[starts[0]+2] ^= 1
	b[starts[0]+entryHead] ^= 1 // its data as well, so that nobody knows where it ends
	b[starts[4]+4] ^= 1
	if err := os.WriteFile(segmentPath(q.dir, 1), b, fileMode); err != nil {
		t.Fatal(err)
	}
	s = open(t, s.dir, Options{})
	q = queue(t, s, "q")
	want(t, take(t, q), "3")
	wantKept(t, s, q, b)
}

// TestDamageAndRestart delivers some of a damaged segment, on both sides of the gap, and the rest in another process: it is kept all the same.
func TestDamageAndRestart(t *testing.T) {
	for delivered := range 4 {
		b, starts := image("0", "1", "2", "3")
		b[starts[1]+1] ^= 1
		s, q := reopen(t, b)
		_, entries := next(t, q, 100)
		if err := errors.Join(q.Done(entries[:min(delivered, 2)]), s.Close()); err != nil {
			t.Fatal(err)
		}
		s = open(t, s.dir, Options{})
		q = queue(t, s, "q")
		want(t, take(t, q), []string{"0", "2", "3"}[min(delivered, 2):]...)
		wantKept(t, s, q, b)
	}
}

// TestDamageKeepsEarlier does not write one damaged segment over another of the same number.
func TestDamageKeepsEarlier(t *testing.T) {
	b, starts := image("first")
	b[starts[0]+entryHead] ^= 1
	s, q := reopen(t, b)
	if err := errors.Join(s.Close(), os.WriteFile(segmentPath(q.dir, 1), b, fileMode)); err != nil {
		t.Fatal(err)
	}
	s = open(t, s.dir, Options{})
	if n := len(damagedFiles(t, queue(t, s, "q"))); n != 2 {
		t.Errorf("%d files are kept of two", n)
	}
}

// TestForgedEntry: who makes the data of a letter cannot have it taken for letters, where the letter's own length is damaged.
func TestForgedEntry(t *testing.T) {
	forged := string(appendFrame(nil, time.Now(), "forged"))
	cut := string(binary.LittleEndian.AppendUint32(nil, 1<<31))
	for _, data := range []string{forged, "data " + forged + forged + " data", forged + cut, strings.Repeat(forged, 100)} {
		b, starts := image("first", data+" headers", "third")
		b[starts[1]+3] ^= 1
		s, q := reopen(t, b)
		want(t, take(t, q), "first", "third")
		wantKept(t, s, q, b)
	}
}

// TestForgedInTornTail: nor where a write was cut off behind what looks like an entry.
func TestForgedInTornTail(t *testing.T) {
	forged := string(appendFrame(nil, time.Now(), "forged"))
	whole, starts := image("first", strings.Repeat(forged, 5)+" headers")
	for cut := starts[1]; cut < len(whole); cut++ {
		s, q := reopen(t, whole[:cut])
		want(t, take(t, q), "first")
		s.Close()
	}
}

// TestSearchIsBounded: data that looks like the beginning of entries everywhere does not keep the spool from being opened.
func TestSearchIsBounded(t *testing.T) {
	const size = 4 << 20
	head := binary.LittleEndian.AppendUint32(nil, size/2)
	head = append(head, make([]byte, 4+timeSize)...)
	b, starts := image("first", string(bytes.Repeat(head, size/len(head))), "third")
	b[starts[1]+3] ^= 0x40
	began := time.Now()
	s, q := reopen(t, b)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("opened after %v", took)
	}
	want(t, take(t, q), "first", "third")
	wantKept(t, s, q, b)
}

// FuzzDamage has entries of any sizes, and some bytes of a segment wrong: what is delivered was there, in its order, and what is not is kept.
func FuzzDamage(f *testing.F) {
	f.Add([]byte{3, 0, 200, 7}, uint16(9), byte(1), uint16(0), byte(0), false)
	f.Add([]byte{3, 0, 200, 7}, uint16(30), byte(128), uint16(60), byte(1), true)
	f.Add([]byte{}, uint16(3), byte(255), uint16(0), byte(0), false)
	f.Add([]byte{1, 1, 1, 1, 1, 1}, uint16(200), byte(4), uint16(20), byte(4), false)
	f.Fuzz(func(t *testing.T, sizes []byte, at uint16, mask byte, at2 uint16, mask2 byte, more bool) {
		var texts []string
		for i, n := range sizes[:min(len(sizes), 20)] {
			texts = append(texts, strings.Repeat(string(rune('a'+i)), int(n)+1))
		}
		whole, starts := image(texts...)
		b := slices.Clone(whole)
		b[int(at)%len(b)] ^= mask
		b[int(at2)%len(b)] ^= mask2
		segments := [][]byte{b}
		if more {
			other, _ := image("0")
			segments = append(segments, other)
		}
		s, q := reopen(t, segments...)
		defer s.Close()
		got := take(t, q)
		if more {
			if len(got) == 0 || got[len(got)-1] != "0" {
				t.Fatalf("the other segment is missing: %q", got)
			}
			got = got[:len(got)-1]
		}
		left := texts
		for _, text := range got {
			i := slices.Index(left, text)
			if i < 0 {
				t.Fatalf("%q was never appended, or not there", text)
			}
			left = left[i+1:]
		}
		if bytes.Equal(b, whole) {
			want(t, got, texts...)
			wantQuiet(t, s, q)
			return
		}
		flips := 0
		for i := range b {
			if b[i] != whole[i] {
				flips++
			}
		}
		if flips == 1 && len(got) < len(texts)-1 {
			t.Fatalf("one byte is wrong, and of %d there are %q", len(texts), got)
		}
		good := 0
		for i, start := range starts {
			end := len(whole)
			if i+1 < len(starts) {
				end = starts[i+1]
			}
			if bytes.Equal(b[start:end], whole[start:end]) {
				good++
			}
		}
		if flips == 1 || len(got) < good {
			wantKept(t, s, q, b)
		}
	})
}
