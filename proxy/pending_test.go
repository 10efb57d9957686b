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
		p := newPending(limit)
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
	p := newPending(4)
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
	p := newPending(1)
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
