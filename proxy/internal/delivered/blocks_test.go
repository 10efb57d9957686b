package delivered

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/policy"
)

// TestBlocksAreNotSharedWithReaders: bytes of records that nobody refers to are used again, but never under a reader, nor those that it was given.
func TestBlocksAreNotSharedWithReaders(t *testing.T) {
	const rounds, width, readers = 200, 40, 3
	s := New(256 << 10)
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			m := s.Member([]byte("g"), fmt.Append(nil, i))
			for round := range int64(rounds) {
				first, last := round*width, round*width+width-1
				m.Deliver(answer(time.Now(), Delivery{Partition: at, Ranges: []Range{{First: first, Last: last, Count: 1}}, Records: records(first, last, 1<<10)}))
				var reading sync.WaitGroup
				for range readers {
					reading.Go(func() { readAll(t, m, first, last) })
				}
				m.Settle(accepts(time.Now(), first, last), "a")
				reading.Wait()
			}
		})
	}
	all.Wait()
}

// readAll reads as long as records are there, and looks at them once all are read.
func readAll(t *testing.T, m *Member, first, last int64) {
	var got []policy.Record
	for o := first; o <= last; o++ {
		r, err := m.Record(at.Topic, at.Index, o)
		if errors.Is(err, policy.ErrNotKept) {
			continue
		}
		if err != nil {
			t.Errorf("offset %d: %v", o, err)
			return
		}
		got = append(got, r)
	}
	for _, r := range got {
		if want := fmt.Sprint(r.Offset, strings.Repeat(" ", 1<<10)); string(r.Value) != want {
			t.Errorf("offset %d is %.20q", r.Offset, r.Value)
		}
	}
}
