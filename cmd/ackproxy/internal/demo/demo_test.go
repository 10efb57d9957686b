package demo

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/policy/audit"
)

func perform(t *testing.T, o Options) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r, rep, err := Run(ctx, make(chan struct{}), o)
	if err != nil {
		t.Fatalf("%v %v %+v", err, rep.Notes, r)
	}
	return r
}

// expected says what a seed makes of n records, by the pattern alone.
func expected(o Options) (c Types) {
	offsets := map[place]int64{}
	all := (&demo{Options: o}).topics()
	for n := range o.Records {
		in := all[n%int64(len(all))]
		p := place{topic: in.name, partition: int32(n / int64(len(all)) % int64(in.partitions))}
		for deliveries, settled := int32(1), false; !settled; deliveries++ {
			status := pattern{o.Seed}.decide(p.topic, p.partition, offsets[p], deliveries)
			c.add(status.String(), 1)
			settled = status != kgo.AckRelease
		}
		offsets[p]++
	}
	return c
}

func TestOnce(t *testing.T) {
	for _, o := range []Options{
		{Records: 2000, Members: 3, Brokers: 3, Seed: 1},
		{Records: 500, Members: 1, Brokers: 1, Seed: 2},
		{Records: 1000, Members: 5, Brokers: 2, Seed: 3},
	} {
		o.Once = true
		r := perform(t, o)
		c := expected(o)
		if r.Records != o.Records || r.Deliveries != c.sum() || r.Client != c || r.Acks != c || !r.Match {
			t.Errorf("%+v\ngot  %+v\nwant %+v", o, r, c)
		}
		if r.Verdicts != (Verdicts{Accepted: c.sum()}) || r.Unaudited != 0 || r.Invented != 0 || r.Escapes != 0 {
			t.Errorf("%+v: %+v", o, r)
		}
		if r.Carriers.ShareFetch == 0 || r.Carriers.ShareAcknowledge == 0 || r.Carriers.ShareFetch+r.Carriers.ShareAcknowledge != c.sum() {
			t.Errorf("%+v: %+v", o, r.Carriers)
		}
	}
}

// faulty passes the audit's lines on, the first acknowledgement changed, and notes how many records that is about.
type faulty struct {
	to      io.Writer
	change  func(line []byte) [][]byte
	records int64
}

func (f *faulty) Write(lines []byte) (int, error) {
	for line := range bytes.Lines(lines) {
		out := [][]byte{line}
		if e, err := audit.ParseLine(line); err == nil && e.Type == "share.ack" && f.records == 0 {
			f.records = int64(e.Ack.Records)
			out = f.change(line)
		}
		for _, l := range out {
			f.to.Write(l)
		}
	}
	return len(lines), nil
}

func TestFaultsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		change func(line []byte) [][]byte
		want   func(n int64) Result
	}{
		"dropped": {func([]byte) [][]byte { return nil }, func(n int64) Result { return Result{Unaudited: n} }},
		"doubled": {func(l []byte) [][]byte { return [][]byte{l, l} }, func(n int64) Result { return Result{Invented: n} }},
		"no verdict": {func(l []byte) [][]byte {
			return [][]byte{bytes.Replace(l, []byte(`"accepted"`), []byte(`"unknown"`), 1)}
		},
			func(n int64) Result { return Result{Verdicts: Verdicts{Unknown: n}} }},
	} {
		t.Run(name, func(t *testing.T) {
			f := &faulty{change: c.change}
			r := perform(t, Options{Records: 200, Members: 2, Brokers: 1, Once: true,
				Between: func(w io.Writer) io.Writer { f.to = w; return f }})
			want := c.want(f.records)
			if f.records == 0 || r.Match || r.Unaudited != want.Unaudited || r.Invented != want.Invented || r.Verdicts.Unknown != want.Verdicts.Unknown {
				t.Errorf("%d records: %+v", f.records, r)
			}
		})
	}
}

func TestEscapeIsFound(t *testing.T) {
	dial := func(s *stage) {
		c, err := s.lookout.dialer("stray")(t.Context(), "tcp", s.cluster.ListenAddrs()[0])
		if err != nil {
			t.Error(err)
			return
		}
		c.Close()
	}
	r := perform(t, Options{Records: 10, Members: 1, Brokers: 1, Once: true, started: dial})
	if r.Escapes != 1 || r.Match || r.Unaudited != 0 || r.Invented != 0 {
		t.Errorf("%+v", r)
	}
}

// after calls f when the audit has written n lines.
func after(n int, f func()) func(io.Writer) io.Writer {
	return func(to io.Writer) io.Writer {
		return writerFunc(func(p []byte) (int, error) {
			for range bytes.Lines(p) {
				if n--; n == 0 {
					f()
				}
			}
			return to.Write(p)
		})
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A demo without end settles what is there when it is told to stop.
func TestStop(t *testing.T) {
	stop := make(chan struct{})
	r, rep, err := Run(t.Context(), stop, Options{Members: 3, Brokers: 2, Rate: 5000, Between: after(50, func() { close(stop) })})
	if err != nil || !r.Match || r.Records == 0 || r.Client.Accept+r.Client.Reject != r.Records {
		t.Errorf("%+v %v %v", r, err, rep.Notes)
	}
}

// Members that have to leave in the middle release what they hold, and both sides know of it.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, rep, err := Run(ctx, make(chan struct{}), Options{Records: 50_000, Members: 3, Brokers: 2, Once: true, Between: after(100, cancel)})
	if err == nil || r.Invented+r.Escapes > 0 || r.Client.Accept+r.Client.Reject >= 50_000 {
		t.Errorf("%+v %v %v", r, err, rep.Notes)
	}
	// A machine so busy that an answer takes five seconds has kgo give a session up, and drop what it had not sent; then it says so.
	told := slices.ContainsFunc(rep.Notes, func(n string) bool {
		return strings.Contains(n, "acknowledgements of") || strings.Contains(n, "no answer")
	})
	if !r.Match && !told {
		t.Errorf("%+v, and no member said that an acknowledgement failed: %v", r, rep.Notes)
	}
	if r.Deliveries != r.Client.sum() {
		t.Errorf("%d deliveries, %d acknowledgements", r.Deliveries, r.Client.sum())
	}
}

func TestSummary(t *testing.T) {
	tl, lines := played()
	r := outcome(tl, lines)
	var b strings.Builder
	if err := r.WriteText(&b, Report{Members: 2, rows: tl.snapshot().rows}, false, func(string) string { return "" }); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"orders", "share_acknowledge", "refused", "members say", "The audit matches"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.ContainsAny(b.String(), "\x1b─") {
		t.Errorf("escapes or box characters where the locale has none:\n%q", b.String())
	}
	r.Unaudited = 1
	r.judge()
	b.Reset()
	if r.WriteText(&b, Report{}, false, func(string) string { return "" }); !strings.Contains(b.String(), "does not match") {
		t.Errorf("a mismatch is not said:\n%s", b.String())
	}
}
