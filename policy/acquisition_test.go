package policy

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/codec"
)

// deliveries know what was acquired of orders-0.
type deliveries []Acquisition

func (d deliveries) Acquired(dst []Acquisition, topic codec.UUID, partition int32, first, last int64) []Acquisition {
	for _, a := range d {
		if topic == orders && partition == 0 && a.First <= last && a.Last >= first {
			a.First, a.Last = max(a.First, first), min(a.Last, last)
			dst = append(dst, a)
		}
	}
	return dst
}

func (d deliveries) Record(codec.UUID, int32, int64) (Record, error) {
	return Record{Value: []byte("value")}, nil
}

// TestAcquiredIsCutToWhatIsAsked: to the ranges that each policy is shown, of the partition they are of.
func TestAcquiredIsCutToWhatIsAsked(t *testing.T) {
	now := time.Now()
	known := deliveries{
		{First: 0, Last: 1, DeliveryCount: 1, Acquired: now},
		{First: 4, Last: 11, DeliveryCount: 2, Acquired: now, LockUntil: now.Add(time.Second)},
		{First: 12, Last: 40, DeliveryCount: 3, Acquired: now},
	}
	entries := []entry{
		{payments, 0, []codec.AckBatch{batch(0, 9, Accept)}},
		{orders, 0, []codec.AckBatch{batch(2, 5, Accept), batch(8, 12, Reject), batch(30, 31, Accept)}},
	}
	for _, waits := range []bool{false, true} {
		r := request(t, false, entries...)
		r.Deliveries = known
		var seen [][]Acquisition
		note := func(_ context.Context, r *Request) (Verdict, error) {
			if r.Records != nil || r.Deliveries != nil {
				t.Errorf("a policy that asked for no records has %v, %v", r.Records, r.Deliveries)
			}
			for _, p := range r.Partitions {
				seen = append(seen, append([]Acquisition(nil), p.Acquired...))
			}
			return Verdict{}, nil
		}
		look := func(name string) Member {
			return Member{Timeout: time.Minute, Policy: fake{name: name, traits: Traits{Waits: waits}, decide: note}}
		}
		withholds := says("withholds", Verdict{Edits: []Edit{{TopicID: orders, First: 9, Last: 30, Action: Withhold}}})
		chain(t, look("looks"), withholds, look("looks again")).Decide(context.Background(), r, nil)
		cut := func(i int, first, last int64) Acquisition {
			a := known[i]
			a.First, a.Last = first, last
			return a
		}
		want := [][]Acquisition{
			nil, {cut(1, 4, 5), cut(1, 8, 11), cut(2, 12, 12), cut(2, 30, 31)},
			nil, {cut(1, 4, 5), cut(1, 8, 8), cut(2, 31, 31)},
		}
		if !reflect.DeepEqual(seen, want) {
			t.Errorf("waits %v: seen %v\nwant %v", waits, seen, want)
		}
		if r.Records != nil || r.Partitions != nil || !reflect.DeepEqual(r.Deliveries, known) {
			t.Errorf("left in the request: %v, %v, %v", r.Records, r.Partitions, r.Deliveries)
		}
	}
}

// TestRecordsAreForThoseThatAsk, and where there are none, for nobody.
func TestRecordsAreForThoseThatAsk(t *testing.T) {
	for _, known := range []Deliveries{nil, deliveries{}} {
		for _, waits := range []bool{false, true} {
			asked := 0
			c := chain(t, says("no", Verdict{}), Member{Timeout: time.Minute, Policy: fake{name: "yes", traits: Traits{Waits: waits, Records: true},
				decide: func(_ context.Context, r *Request) (Verdict, error) {
					if asked++; (r.Records != nil) != (known != nil) {
						t.Errorf("records %v of %v", r.Records, known)
					}
					return Verdict{}, nil
				}}})
			r := request(t, false, accepting(0, 9))
			r.Deliveries = known
			if c.Decide(context.Background(), r, nil); asked != 1 || !c.Records() {
				t.Errorf("asked %d times, records %v", asked, c.Records())
			}
		}
	}
	if chain(t, says("no", Verdict{})).Records() {
		t.Error("a chain that looks at no records asks for them")
	}
}
