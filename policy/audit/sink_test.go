package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/policy"
)

func TestParseSink(t *testing.T) {
	for in, want := range map[string]Sink{
		"stdout": {Type: Stdout}, "none": {Type: None}, "file:/var/log/a.log": {Type: File, Path: "/var/log/a.log"}, "file:a:b": {Type: File, Path: "a:b"},
	} {
		if got, err := ParseSink(in); err != nil || got != want || got.String() != in {
			t.Errorf("%s: %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "file", "file:", "stdout:", "none:x", "kafka", "writer", "/var/log/a.log"} {
		if got, err := ParseSink(in); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", in)) {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
}

func TestCheckSinks(t *testing.T) {
	for _, c := range []struct {
		sinks []Sink
		want  []string // in the error; nil: none
	}{
		{nil, nil},
		{[]Sink{{Type: None}}, nil},
		{[]Sink{{Type: Stdout}, {Type: File, Path: "a"}, {Type: File, Path: "b"}}, nil},
		{[]Sink{{Type: File, Path: "a"}, {Type: File, Path: "./x/../a"}}, []string{"two writers"}},
		{[]Sink{{Type: Stdout}, {Type: Stdout}}, []string{"two writers"}},
		{[]Sink{{Type: None}, {Type: File}, {Type: "kafka"}, {Type: Writer}}, []string{"beside", "path is missing", `"kafka"`, "no writer"}},
	} {
		err := CheckSinks(c.sinks)
		if (err == nil) != (c.want == nil) {
			t.Errorf("%v: %v", c.sinks, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v: %v, without %q", c.sinks, err, w)
			}
		}
	}
}

// TestFile: created 0640, appended to, and whole when closed.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	for round := range 2 {
		a := start(t, Config{Sinks: []Sink{{Type: File, Path: path}}})
		for range 10 {
			a.Observe(answered(share(t, orders(0, batch(0, 0, 1))), row(ordersID, 0, 0)))
		}
		stop(t, a)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := bytes.Count(b, []byte("\n")), 12*(round+1); got != want {
			t.Errorf("round %d: %d lines, want %d", round, got, want)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if m := info.Mode().Perm(); runtime.GOOS != "windows" && (m&^0o640 != 0 || m&0o600 != 0o600) { // less what the umask takes
		t.Errorf("mode %v", m)
	}
}

// TestOneWriter: a file has one writer, whatever it is called; it is free again after Close.
func TestOneWriter(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "audit.log"), filepath.Join(dir, "link.log")
	a := start(t, Config{Sinks: []Sink{{Type: File, Path: path}}})
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Sinks: []Sink{{Type: File, Path: link}}}); err == nil || !strings.Contains(err.Error(), "two writers") {
		t.Errorf("a second writer: %v", err)
	}
	stop(t, a)
	stop(t, start(t, Config{Sinks: []Sink{{Type: File, Path: link}}}))
}

// TestNewLeavesNothing: a sink that does not open frees the one that did.
func TestNewLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	good := Sink{Type: File, Path: filepath.Join(dir, "audit.log")}
	_, err := New(Config{Sinks: []Sink{good, {Type: File, Path: filepath.Join(dir, "no", "dir.log")}}})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	stop(t, start(t, Config{Sinks: []Sink{good}}))
}

// disk takes bytes until it is full.
type disk struct {
	buffer
	room   sync.Mutex
	free   int // bytes; -1 for no end
	writes [][]byte
}

func (d *disk) Write(p []byte) (int, error) {
	d.room.Lock()
	defer d.room.Unlock()
	n := len(p)
	if d.free >= 0 {
		n = min(n, d.free)
		d.free -= n
	}
	d.writes = append(d.writes, bytes.Clone(p))
	d.buffer.Write(p[:n])
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (d *disk) make(room int) {
	d.room.Lock()
	defer d.room.Unlock()
	d.free = room
}

// TestReopen: lines go on in a new file where the old one was moved away, in the same one where it was not, and in the old one where no new one can be made.
// None is lost, and none is torn.
func TestReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path, moved, last := filepath.Join(dir, "audit.log"), filepath.Join(dir, "audit.log.1"), filepath.Join(dir, "audit.log.2")
	other := &buffer{}
	reports := make(chan error, 10)
	a := start(t, Config{Sinks: []Sink{{Type: File, Path: path}, {Type: Writer, W: other}}, OnError: func(err error) { reports <- err }})
	n := 1 // with the start
	observe := func() {
		for range 1000 {
			a.Observe(answered(share(t, orders(0, batch(0, 0, 1))), row(ordersID, 0, 0)))
		}
		n += 1000
	}
	rename := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Error(err)
		}
	}
	observe()
	a.Reopen() // nothing was moved
	observe()
	settle(t, a)
	rename(path, moved)
	observe()
	settle(t, a)
	a.Reopen()
	observe()
	settle(t, a)
	rename(path, last)
	rename(dir, dir+".gone")
	a.Reopen()
	observe()
	stop(t, a)
	if err := <-reports; !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	next := uint64(1)
	for file, want := range map[string]int{moved: 3001, last: 2001} {
		b, err := os.ReadFile(strings.Replace(file, dir, dir+".gone", 1))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(strings.TrimSuffix(string(b), "\n"), "\n")
		if len(lines) != want {
			t.Errorf("%s: %d lines, want %d", file, len(lines), want)
		}
		for i, l := range lines {
			e, err := ParseLine([]byte(strings.TrimSuffix(l, "\n")))
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				next = e.Stream.Seq
			}
			if e.Stream.Seq != next {
				t.Fatalf("%s: number %d, want %d", file, e.Stream.Seq, next)
			}
			next++
		}
	}
	if got := len(other.lines()); got != n+1 {
		t.Errorf("the other sink has %d lines, want %d", got, n+1)
	}
}

// TestTornFile: what another process left inside a line costs that line, and none of ours.
func TestTornFile(t *testing.T) {
	dir := t.TempDir()
	path, moved := filepath.Join(dir, "audit.log"), filepath.Join(dir, "audit.log.1")
	const torn = `{"v":1,"type":"share.ack","id":"01K`
	tear := func() {
		if err := os.WriteFile(path, []byte(torn), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	observe := func(a *Auditor) { a.Observe(answered(share(t, orders(0, batch(0, 0, 1))), row(ordersID, 0, 0))) }
	tear()
	a := start(t, Config{Sinks: []Sink{{Type: File, Path: path}}})
	observe(a)
	if err := os.Rename(path, moved); err != nil {
		t.Fatal(err)
	}
	tear()
	a.Reopen()
	observe(a)
	stop(t, a)
	for file, want := range map[string][]string{moved: {torn, "start", "share.ack"}, path: {torn, "share.ack", "stop"}} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
			e, err := ParseLine([]byte(l))
			switch {
			case err != nil:
				got = append(got, l)
			case e.Control != nil:
				got = append(got, e.Control.Kind)
			default:
				got = append(got, e.Type)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", file, got, want)
		}
	}
}

// A file that fails is opened anew when it has its lines: the rest of one that was cut belongs there.
func TestReopenWaitsForWhatIsHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	f, err := openFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := &writer{outs: []*output{{name: "file", w: f, file: f, again: true, held: []byte("of a line\n")}}, now: time.Now}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	w.reopen()
	if _, err := os.Stat(path); err == nil {
		t.Error("opened anew with lines that wait")
	}
	if !w.outs[0].retry(time.Now(), true) {
		t.Error("not written")
	}
	w.reopen()
	if b, _ := os.ReadFile(path + ".1"); string(b) != "of a line\n" {
		t.Errorf("%q", b)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// TestDiskFull: a line that was cut is completed when there is room, lines that waited follow, and what found no room to wait is a gap that names
// the sink and the numbers. The other sink has all.
func TestDiskFull(t *testing.T) {
	d, good := &disk{free: 700}, &buffer{}
	var mu sync.Mutex
	var reports []error
	a := begin(t, Config{
		Sinks:   []Sink{{Type: Writer, W: d}, {Type: Writer, W: good}},
		OnError: func(err error) { mu.Lock(); defer mu.Unlock(); reports = append(reports, err) },
	}, seams{now: time.Now, random: fixed().random})
	const n = 3000
	for i := range n {
		o := answered(share(t, orders(0, batch(int64(i), int64(i), 1))), row(ordersID, 0, 0))
		o.Request.GroupID = fmt.Appendf(nil, "group-%d", i%40)
		a.Observe(o)
	}
	good.wait(t, n+1)
	settle(t, a)
	if s := a.Stats(); s.Held == 0 || s.Dropped == 0 || s.Written+s.Held+s.Dropped != n+1 {
		t.Errorf("while the disk is full: %+v", s)
	}
	d.make(-1)
	good.wait(t, n+2) // the gap
	stop(t, a)

	if got := len(good.lines()); got != n+3 {
		t.Errorf("the good sink has %d lines", got)
	}
	next, acks, gaps, lost := uint64(1), uint64(0), 0, uint64(0)
	for _, l := range d.lines() {
		e, err := ParseLine([]byte(l))
		if err != nil {
			t.Fatalf("a torn line: %v", err)
		}
		if c := e.Control; c != nil && c.Kind == "gap" {
			gaps++
			lost = c.Lost["share.ack"]
			if c.Reason != "sink_error" || c.Sink != "writer" || c.FirstSeq != next || lost != c.LastSeq-c.FirstSeq+1 || !c.GroupsTruncated {
				t.Errorf("after %d: %s", next-1, l)
			}
			next = c.LastSeq + 1
		}
		if e.Type == "share.ack" {
			acks++
		}
		if e.Stream.Seq != next {
			t.Fatalf("number %d, want %d", e.Stream.Seq, next)
		}
		next++
	}
	if gaps != 1 || acks+lost != n {
		t.Errorf("%d gaps, %d written, %d lost", gaps, acks, lost)
	}
	for i, w := range d.writes {
		if w[len(w)-1] != '\n' {
			t.Errorf("write %d does not end on a line end", i)
		}
	}
	if len(reports) != 1 || !errors.Is(reports[0], syscall.ENOSPC) || strings.Contains(reports[0].Error(), "(0 bytes") {
		t.Errorf("reports: %v", reports)
	}
}

// TestDiskStaysFull: Close says what was not written.
func TestDiskStaysFull(t *testing.T) {
	d := &disk{free: 100}
	a := start(t, Config{Sinks: []Sink{{Type: Writer, W: d}}})
	a.Observe(share(t, orders(0, batch(0, 0, 1))))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := a.Close(ctx); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "3 events not written") {
		t.Errorf("%v", err)
	}
	if s := a.Stats(); s.Written != 0 || s.Held != 3 {
		t.Errorf("%+v", s)
	}
}

// TestWholeLines: a reader that follows the file while it is written never sees a line whose end does not come with the same write.
func TestWholeLines(t *testing.T) {
	d := &disk{free: -1}
	a := start(t, Config{Sinks: []Sink{{Type: Writer, W: d}}})
	for i := range int64(2000) {
		a.Observe(share(t, orders(0, batch(i, i, 1))))
	}
	var many []policy.PartitionResult
	long := share(t, orders(0, randomAlternating(30000)))
	a.Observe(answered(long, many...))
	stop(t, a)
	for i, w := range d.writes {
		if w[len(w)-1] != '\n' || len(w) > flushAt+maxLine {
			t.Errorf("write %d has %d bytes and ends in %q", i, len(w), w[len(w)-1])
		}
	}
}
