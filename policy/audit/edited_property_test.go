package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// randomDecision asks the request what it asks, and cuts, changes and withholds that at random.
func randomDecision(t testing.TB, rnd *rand.Rand, r *policy.Request, reasons int) *policy.Decision {
	t.Helper()
	asked, err := policy.Asked(r)
	if err != nil {
		t.Fatal(err)
	}
	for i := range asked {
		var pieces []policy.Piece
		for _, p := range asked[i].Pieces {
			for p.First <= p.Last {
				q := p
				q.Last = min(p.Last, p.First+rnd.Int64N(20))
				p.First = q.Last + 1
				who, why := fmt.Sprint("policy-", rnd.IntN(3)), strings.Repeat("why ", rnd.IntN(60))+fmt.Sprint(rnd.IntN(reasons))
				switch rnd.IntN(4) {
				case 0:
					q.Forwarded, q.Policy, q.Reason = int8(rnd.IntN(4)), who, why
				case 1:
					q.Withheld, q.ErrorCode, q.Policy, q.Reason = true, 121, who, why
				}
				pieces = append(pieces, q)
			}
		}
		asked[i].Pieces = pieces
	}
	return &policy.Decision{Partitions: asked}
}

// fate is what the log says about one offset.
type fate struct{ asked, forwarded, by string }

// fatesOf reads it from the events of one partition. An offset may stand in one of them only, and an edit only where its offset does.
func fatesOf(t testing.TB, events []*Event) (all map[Offset]fate, records int64) {
	t.Helper()
	all = make(map[Offset]fate)
	for _, e := range events {
		records += int64(e.Ack.Records)
		here := make(map[Offset]fate)
		for _, r := range e.Ack.Asked {
			for o := r.First; o <= r.Last && !r.Superseded; o++ {
				f := fate{asked: r.Type}
				if e.Ack.Forwarded.Same {
					f.forwarded = r.Type
				}
				here[o] = f
			}
		}
		for _, r := range e.Ack.Forwarded.Ranges {
			for o := r.First; o <= r.Last; o++ {
				f, ok := here[o]
				if !ok || f.forwarded != "" {
					t.Fatalf("offset %d is forwarded without being asked, or twice", o)
				}
				f.forwarded = r.Type
				here[o] = f
			}
		}
		for _, a := range e.Policy {
			for _, r := range a.Ranges {
				for o := r.First; o <= r.Last; o++ {
					f, ok := here[o]
					if !ok || f.asked != r.From || f.forwarded != r.To || f.by != "" || (a.Action == "withhold") != (r.To == "") {
						t.Fatalf("%s of offset %d from %q to %q, and the lists say %+v", a.Action, o, r.From, r.To, f)
					}
					f.by = a.Name + a.Reason
					here[o] = f
				}
			}
		}
		for o, f := range here {
			if _, twice := all[o]; twice {
				t.Fatalf("offset %d stands in two lines", o)
			}
			if (e.Verdict.State == "not_sent") != (f.forwarded == "") {
				t.Fatalf("offset %d: %s, forwarded %q", o, e.Verdict.State, f.forwarded)
			}
			all[o] = f
		}
	}
	return all, records
}

// short is a text of a policy's as the log shows it.
func short(t testing.TB, s string) (shown string) {
	t.Helper()
	if err := json.Unmarshal(appendShort(nil, s), &shown); err != nil {
		t.Fatal(err)
	}
	return shown
}

// TestEditsCover: whatever is asked and decided, the events say for each offset what was decided, once; records add up to what was asked;
// as many events are written as the counting of lost ones would say; and the parts of each are numbered.
func TestEditsCover(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	most := 0
	for round := range 60 {
		batches := randomBatches(rnd, 1+rnd.IntN(60))
		for i := range batches {
			for j := range batches[i].Types {
				batches[i].Types[j] %= 4
			}
		}
		entries := []part{orders(4, batches...)}
		if rnd.IntN(2) == 0 {
			entries = []part{orders(4, batch(0, 9, 1), batch(9, 3, 1)), entries[0]}
		}
		o := answered(share(t, entries...), row(ordersID, 4, 0))
		o.Decision = randomDecision(t, rnd, &o.Request, 1+rnd.IntN(40))
		lines, events := audit(t, o)
		got, records := fatesOf(t, events)

		want, superseded := make(map[Offset]fate), 0
		for _, p := range o.Decision.Partitions[0].Pieces {
			f := fate{TypeName(p.Asked), TypeName(p.Forwarded), ""}
			if p.Withheld {
				f.forwarded = ""
			}
			if p.Withheld || p.Asked != p.Forwarded {
				f.by = p.Policy + short(t, p.Reason)
			}
			for o := p.First; o <= p.Last; o++ {
				want[Offset(o)] = f
			}
		}
		if len(got) != len(want) || records != int64(len(want)) {
			t.Fatalf("round %d: %d offsets and %d records, want %d", round, len(got), records, len(want))
		}
		for o, f := range want {
			if g := got[o]; g != f {
				t.Fatalf("round %d: offset %d is %+v, want %+v", round, o, g, f)
			}
		}
		for _, e := range events {
			for _, r := range e.Ack.Asked {
				if r.Superseded {
					superseded++
				}
			}
		}
		if superseded != 2*(len(entries)-1) {
			t.Fatalf("round %d: %d ranges superseded", round, superseded)
		}
		ids := numbered(t, events)
		if _, n := eventsOf(o); int(n) != len(ids) {
			t.Fatalf("round %d: %d events, and %d would be counted as lost", round, len(ids), n)
		}
		most = max(most, len(lines))
	}
	if most < 6 {
		t.Errorf("%d lines at most: no rounds with parts", most)
	}
}

// numbered checks the parts of each event, and returns the ids.
func numbered(t testing.TB, events []*Event) (ids []string) {
	t.Helper()
	for i, e := range events {
		if i == 0 || e.ID != events[i-1].ID {
			ids = append(ids, e.ID)
			if e.Stream.Part > 1 || (e.Stream.Part == 0) != (e.Stream.Parts == 0) {
				t.Fatalf("%s begins with part %d of %d", e.ID, e.Stream.Part, e.Stream.Parts)
			}
		} else if e.Stream.Part != events[i-1].Stream.Part+1 || e.Stream.Parts != events[i-1].Stream.Parts {
			t.Fatalf("%s: %+v after %+v", e.ID, e.Stream, events[i-1].Stream)
		}
		if last := i == len(events)-1 || e.ID != events[i+1].ID; last != (e.Stream.Part == e.Stream.Parts) {
			t.Fatalf("%s: %+v, the last: %v", e.ID, e.Stream, last)
		}
	}
	return ids
}

// TestEditedEventsLost: what was dropped is counted by event, by the connection and in the gap.
func TestEditedEventsLost(t *testing.T) {
	v := newValve()
	a := start(t, Config{Sinks: []Sink{{Type: Writer, W: v}}, QueueBytes: 1})
	<-v.entered
	a.Observe(four(t, 0)) // takes the queue
	two, one, all := both(four(t, 0)), decided(four(t, 0), piece(10, 19, 1), changedPiece(20, 24, 3, 2, "p", "")),
		decided(four(t, 0), withheldPiece(10, 24, 1, 121, "p", ""))
	closed := lost(both(four(t, 0)))
	closed.Decision.Close = policy.CloseBefore
	for _, o := range []*policy.Outcome{two, one, all, closed} {
		a.Observe(o)
	}
	if n := a.Stats().Dropped; n != 5 {
		t.Errorf("%d events dropped, want 5", n)
	}
	close(v.open)
	stop(t, a)
	gaps := uint64(0)
	for _, l := range v.buffer.lines() {
		e, err := ParseLine([]byte(l))
		if err != nil {
			t.Fatal(err)
		}
		if e.Control != nil && e.Control.Kind == "gap" {
			gaps += e.Control.Lost["share.ack"]
		}
	}
	if gaps != 5 {
		t.Errorf("the gap names %d events, want 5", gaps)
	}
}

// TestWrittenEvents: an event of many lines counts once, and each half counts.
func TestWrittenEvents(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	o := answered(share(t, orders(4, randomAlternating(2000))), row(ordersID, 4, 0))
	o.Decision = randomDecision(t, rnd, &o.Request, 5)
	a := start(t, Config{Sinks: []Sink{{Type: Writer, W: &buffer{}}}})
	a.Observe(o)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := a.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if s := a.Stats(); s.Written != 4 || s.HeadSeq < 20 { // start, two halves, stop
		t.Errorf("%+v", s)
	}
}

// TestLongTexts: whatever names, reasons, errors and clients' texts there are, lines keep their length (which audit checks), and no range is lost.
func TestLongTexts(t *testing.T) {
	const n = 300
	long := strings.Repeat("\x01", 5000)
	var asked []codec.AckBatch
	var same, withheld []policy.Piece
	for i := range int64(n) {
		asked = append(asked, batch(10+i, 10+i, int8(1+i%2)))
		same = append(same, piece(10+i, 10+i, int8(1+i%2)))
		withheld = append(withheld, withheldPiece(10+i, 10+i, int8(1+i%2), 121, long, fmt.Sprint(i, long)))
	}
	for name, pieces := range map[string][]policy.Piece{"not edited": same, "withheld": withheld} {
		t.Run(name, func(t *testing.T) {
			o := decided(answered(share(t, orders(4, asked...)), row(ordersID, 4, 42)), pieces...)
			r := &o.Request
			o.Reply.Partitions[0].ErrorMessage, o.Note, r.Software, r.Principal.Name = long, long, long, long
			r.ClientID, r.MemberID, r.GroupID = []byte(long), []byte(long), []byte(long)
			for range 40 {
				o.Decision.Trail = append(o.Decision.Trail, policy.Step{Policy: long, Err: errors.New(long)})
			}
			_, events := audit(t, o)
			records := Offset(0)
			for _, e := range events {
				records += e.Ack.Records
			}
			if records != n || len(numbered(t, events)) != 1 {
				t.Errorf("%d records in %d lines", records, len(events))
			}
		})
	}
}
