package e2e

import (
	"fmt"
	"maps"

	"github.com/ackproxy/ackproxy/e2e/tap"
	"github.com/ackproxy/ackproxy/policy"
)

// rewriteLimit is how often a record is delivered at most.
const rewriteLimit = 10

// rewriteModel is what a broker must know about one member's group: offset by offset.
type rewriteModel struct {
	held    map[tap.Target]map[int64]int16 // by the member now: its delivery
	counts  map[tap.Target]map[int64]int16 // of the last delivery
	settled map[tap.Target]map[int64]bool  // never to be delivered again
	due     map[tap.Target]map[int64]bool  // given back: to be delivered again
}

func newRewriteModel() *rewriteModel {
	return &rewriteModel{map[tap.Target]map[int64]int16{}, map[tap.Target]map[int64]int16{}, map[tap.Target]map[int64]bool{}, map[tap.Target]map[int64]bool{}}
}

// put sets a value in a map of maps.
func put[V any](m map[tap.Target]map[int64]V, t tap.Target, offset int64, v V) {
	if m[t] == nil {
		m[t] = map[int64]V{}
	}
	m[t][offset] = v
}

func total[V any](m map[tap.Target]map[int64]V) (n int) {
	for _, offsets := range m {
		n += len(offsets)
	}
	return n
}

// fates is what a verdict makes of acknowledgements: what goes on, and the codes of what is withheld.
type fates struct {
	forwarded map[tap.Target]map[int64]int8
	withheld  map[tap.Target]map[int64]int16
}

func foldVerdict(asked *tap.Exchange, v policy.Verdict, n *rewriteTally) fates {
	f := fates{map[tap.Target]map[int64]int8{}, map[tap.Target]map[int64]int16{}}
	for t, acks := range asked.Acks {
		for offset, kind := range acks {
			now, code := kind, int16(0)
			for _, e := range v.Edits {
				if e.TopicID != t.Topic || e.Partition != t.Partition || offset < e.First || offset > e.Last || code != 0 {
					continue
				}
				if e.Action == policy.Change {
					now = e.Type
				} else if code = e.ErrorCode; code == 0 {
					code = 121
				}
			}
			if code != 0 {
				put(f.withheld, t, offset, code)
				n.withheld++
				continue
			}
			if put(f.forwarded, t, offset, now); now != kind {
				n.changed++
			}
		}
	}
	return f
}

// told is the code for a partition whose acknowledgements a broker does not refuse: 56 and 3 make clients send all of it again.
func (f *fates) told(t tap.Target, v policy.Verdict) int16 {
	code := int16(0)
	for _, c := range f.withheld[t] {
		if code != 0 && c != code {
			code = 121
			break
		}
		code = c
	}
	if (code == 56 || code == 3) && len(f.forwarded[t]) > 0 {
		return 121
	}
	if code == 0 {
		for _, r := range v.Replies {
			if !r.TopLevel && r.TopicID == t.Topic && r.Partition == t.Partition {
				return r.ErrorCode
			}
		}
	}
	return code
}

// checkForwarded compares what reached the broker with what was asked, and makes sure that the broker found nothing wrong with it.
func checkForwarded(asked, reached *tap.Exchange, f fates, strange map[tap.Target]bool) error {
	switch {
	case reached == nil:
		return fmt.Errorf("it did not reach the broker")
	case reached.Epoch != asked.Epoch || reached.Key != asked.Key || reached.Version != asked.Version:
		return fmt.Errorf("key %d v%d, epoch %d reached the broker as %d v%d, %d", asked.Key, asked.Version, asked.Epoch, reached.Key, reached.Version, reached.Epoch)
	case reached.Top != 0:
		return fmt.Errorf("the broker answered %d", reached.Top)
	case len(reached.Acks) != len(f.forwarded) || !maps.Equal(reached.Malformed, asked.Malformed):
		return fmt.Errorf("reached the broker: %v, malformed %v; want %v, %v", reached.Acks, reached.Malformed, f.forwarded, asked.Malformed)
	}
	for t, want := range f.forwarded {
		if got := reached.Acks[t]; !maps.Equal(got, want) {
			return fmt.Errorf("partition %x/%d: %v reached the broker, want %v", t.Topic[:2], t.Partition, got, want)
		}
		if code := reached.Codes[t]; code != 0 && !strange[t] || reached.Rows[t] != 1 {
			return fmt.Errorf("partition %x/%d: the broker answered %d, %d times, to %v", t.Topic[:2], t.Partition, code, reached.Rows[t], want)
		}
	}
	for t := range asked.Malformed {
		if reached.Codes[t] == 0 {
			return fmt.Errorf("partition %x/%d: the broker took malformed batches", t.Topic[:2], t.Partition)
		}
	}
	if renew := asked.Renew && (asked.Key == 78 || reached.Renews || !asked.Renews); reached.Renew != renew {
		return fmt.Errorf("renew flag %v reached the broker, want %v", reached.Renew, renew)
	}
	return nil
}

// checkTold compares what the client was told with what the broker said and the verdict.
func checkTold(asked, reached *tap.Exchange, f fates, v policy.Verdict) error {
	top := int16(0)
	for _, r := range v.Replies {
		if r.TopLevel {
			top = r.ErrorCode
		}
	}
	if asked.Top != top {
		return fmt.Errorf("the client was told %d, want %d", asked.Top, top)
	}
	for _, t := range asked.Asked {
		if asked.Acks[t] == nil && !asked.Malformed[t] {
			if asked.Codes[t] != 0 {
				return fmt.Errorf("partition %x/%d: the client was told %d of nothing that it asked", t.Topic[:2], t.Partition, asked.Codes[t])
			}
			continue
		}
		want := reached.Codes[t]
		if want == 0 {
			want = f.told(t, v)
		}
		if asked.Codes[t] != want || asked.Rows[t] != 1 {
			return fmt.Errorf("partition %x/%d: the client was told %d, in %d rows, want %d", t.Topic[:2], t.Partition, asked.Codes[t], asked.Rows[t], want)
		}
	}
	for t, code := range reached.Fetch {
		if asked.Fetch[t] != code || fmt.Sprint(asked.Acquired[t]) != fmt.Sprint(reached.Acquired[t]) {
			return fmt.Errorf("partition %x/%d: fetched %v with %d, told %v with %d", t.Topic[:2], t.Partition, reached.Acquired[t], code, asked.Acquired[t], asked.Fetch[t])
		}
	}
	return nil
}

// apply does what a broker does.
func (m *rewriteModel) apply(x *tap.Exchange, n *rewriteTally) error {
	for t, acks := range x.Acks {
		if x.Codes[t] != 0 {
			continue
		}
		for offset, kind := range acks {
			count, ok := m.held[t][offset]
			switch {
			case !ok || kind == policy.Renew:
			case kind == policy.Release:
				m.giveBack(t, offset, count, n)
			default:
				delete(m.held[t], offset)
				put(m.settled, t, offset, true)
				n.settled++
			}
		}
	}
	if x.Epoch == -1 {
		for t, offsets := range m.held {
			for offset, count := range offsets {
				m.giveBack(t, offset, count, n)
			}
		}
	}
	for t, ranges := range x.Acquired {
		for _, r := range ranges {
			for offset := r.First; offset <= r.Last; offset++ {
				if err := m.acquire(t, offset, r.Count, n); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (m *rewriteModel) giveBack(t tap.Target, offset int64, count int16, n *rewriteTally) {
	if delete(m.held[t], offset); count >= rewriteLimit {
		put(m.settled, t, offset, true)
		n.archived++
		return
	}
	put(m.due, t, offset, true)
}

func (m *rewriteModel) acquire(t tap.Target, offset int64, count int16, n *rewriteTally) error {
	_, held := m.held[t][offset]
	if before := m.counts[t][offset]; m.settled[t][offset] || held || count != before+1 {
		return fmt.Errorf("record %x/%d/%d came with delivery %d after %d; settled: %v, held: %v", t.Topic[:2], t.Partition, offset, count, before, m.settled[t][offset], held)
	}
	if m.due[t][offset] {
		delete(m.due[t], offset)
		n.again++
	}
	put(m.held, t, offset, count)
	put(m.counts, t, offset, count)
	return nil
}
