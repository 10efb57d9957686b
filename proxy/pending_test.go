package proxy

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
)

// Whatever order pushes, matches and finishes come in, exchanges leave in the order in which they entered, and never more than the limit
// are inside.
func TestPendingOrder(t *testing.T) {
	for _, limit := range []int{1, 2, 5, 64} {
		rnd := rand.New(rand.NewPCG(uint64(limit), 1))
		p := newPending(limit, nil)
		var next, matched, done int32
		for range 20_000 {
			switch rnd.IntN(3) {
			case 0:
				ok, err := p.push(exchange{correlationID: next * 31}, false)
				if err != nil {
					t.Fatal(err)
				}
				if full := int(next-done) == limit; ok == full {
					t.Fatalf("%d inside, limit %d: pushed %v", next-done, limit, ok)
				}
				if ok {
					next++
				}
			case 1:
				x, err := p.match(matched * 31)
				if matched == next {
					if !errors.Is(err, errOutOfStep) {
						t.Fatal(err)
					}
					break
				}
				if err != nil || x.correlationID != matched*31 {
					t.Fatal(x, err)
				}
				matched++
			case 2:
				if n := int(matched - done); n > 0 {
					n = 1 + rnd.IntN(n)
					p.finish(n)
					done += int32(n)
				}
			}
		}
		lost := p.unanswered()
		if len(lost) != int(next-matched) {
			t.Errorf("%d unanswered, want %d", len(lost), next-matched)
		}
		for i, x := range lost {
			if x.correlationID != (matched+int32(i))*31 {
				t.Errorf("unanswered %d: %d", i, x.correlationID)
			}
		}
		if more := p.unanswered(); len(more) != 0 {
			t.Errorf("%d unanswered a second time", len(more))
		}
	}
}

// A wrong correlation id matches nothing, and the oldest exchange stays the oldest.
func TestPendingMismatch(t *testing.T) {
	p := newPending(4, nil)
	p.push(exchange{correlationID: 7}, true)
	if _, err := p.match(8); !errors.Is(err, errOutOfStep) {
		t.Error(err)
	}
	if x, err := p.match(7); err != nil || x.correlationID != 7 {
		t.Error(x, err)
	}
}

// Who waits for room goes on when there is some, and gives up when the connection ends.
func TestPendingWaits(t *testing.T) {
	p := newPending(1, nil)
	p.push(exchange{correlationID: 1}, true)
	var wait sync.WaitGroup
	wait.Go(func() {
		if ok, err := p.push(exchange{correlationID: 2}, true); !ok || err != nil {
			t.Error(ok, err)
		}
		if _, err := p.push(exchange{correlationID: 3}, true); !errors.Is(err, errClosed) {
			t.Error(err)
		}
	})
	if _, err := p.match(1); err != nil {
		t.Error(err)
	}
	p.finish(1)
	eventually(t, "the second exchange", func() bool { _, err := p.match(2); return err == nil })
	p.close()
	wait.Wait()
}

// What exchanges keep beyond freeKept is taken of limits, whatever they enter and leave in, and given back at the end.
func TestPendingCountsWhatIsKept(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 1))
	l := &limits{maxBuffered: 1 << 30}
	p := newPending(8, l)
	var inside []int
	var id int32
	sum := 0
	for range 20_000 {
		if kept := rnd.IntN(freeKept / 2); rnd.IntN(2) == 0 && len(inside) < 8 {
			if rnd.IntN(4) == 0 {
				if err := p.reserve(kept / 2); err != nil {
					t.Fatal(err)
				}
			}
			if ok, err := p.push(exchange{correlationID: id, kept: kept}, false); !ok || err != nil {
				t.Fatal(ok, err)
			}
			id++
			inside, sum = append(inside, kept), sum+kept
		} else if n := len(inside); n > 0 {
			n = 1 + rnd.IntN(n)
			for i := range n {
				if _, err := p.match(id - int32(len(inside)) + int32(i)); err != nil {
					t.Fatal(err)
				}
				sum -= inside[i]
			}
			inside = inside[n:]
			p.finish(n)
		}
		if got, want := int(l.buffered.Load()), max(0, sum-freeKept); got != want {
			t.Fatalf("%d taken, want %d", got, want)
		}
	}
	for len(inside) < 8 {
		p.push(exchange{kept: freeKept}, false)
		inside = append(inside, freeKept)
	}
	if err := p.reserve(freeKept); err != nil {
		t.Fatal(err)
	}
	if p.unanswered(); l.buffered.Load() != 0 {
		t.Errorf("%d bytes are still taken", l.buffered.Load())
	}
	if err := p.reserve(freeKept); !errors.Is(err, errClosed) {
		t.Error(err)
	}
}

// Where others hold half of the room, a queue that keeps much takes in one exchange at a time. One that keeps little does not notice, and
// nobody waits for others.
func TestPendingWaitsWhereItIsCrowded(t *testing.T) {
	l := &limits{maxBuffered: 100 * freeKept}
	if err := l.take(60 * freeKept); err != nil {
		t.Fatal(err)
	}
	p := newPending(16, l)
	push := func(id int32, kept int, want bool) {
		t.Helper()
		if ok, err := p.push(exchange{correlationID: id, kept: kept}, false); ok != want || err != nil {
			t.Fatal(ok, err)
		}
	}
	push(1, freeKept/2, true)
	push(2, freeKept/2, true)
	push(3, 5*freeKept, false)
	var wait sync.WaitGroup
	wait.Go(func() {
		if ok, err := p.push(exchange{correlationID: 3, kept: 5 * freeKept}, true); !ok || err != nil {
			t.Error(ok, err)
		}
	})
	for id := range int32(2) {
		if _, err := p.match(1 + id); err != nil {
			t.Fatal(err)
		}
		p.finish(1)
	}
	wait.Wait()
	push(4, 0, true) // keeps nothing
	push(5, 1, false)
	if got := l.buffered.Load(); got != 64*freeKept+1 {
		t.Errorf("%d bytes taken", got)
	}
	if _, err := p.push(exchange{correlationID: 5, kept: 50 * freeKept}, false); !errors.Is(err, errBuffered) {
		t.Error(err)
	}
	for id := range int32(2) { // what did not enter is not counted
		if _, err := p.match(3 + id); err != nil {
			t.Fatal(err)
		}
		p.finish(1)
	}
	if got := l.buffered.Load(); got != 60*freeKept {
		t.Errorf("%d bytes taken", got)
	}
}
