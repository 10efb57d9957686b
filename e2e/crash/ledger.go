package crash

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/e2e/tap"
)

// place is where a record is in the source topic.
type place struct {
	partition int32
	offset    int64
}

// fate is what is known of a record.
type fate struct {
	record     *kgo.Record
	asked      bool  // a Reject reached the broker
	rejected   bool  // the broker took it
	deliveries int16 // seen
	letters    int
}

// open says whether it may still be rejected. What was asked and not answered is the broker's secret, unless it comes again.
func (f *fate) open() bool { return f.record != nil && !f.asked && f.deliveries < limit }

// ledger is what was produced, and what the broker was asked and said, as it was seen at the broker.
type ledger struct {
	mu      sync.Mutex
	all     map[place]*fate
	rejects int
	wrong   []string
}

func newLedger() *ledger { return &ledger{all: make(map[place]*fate)} }

func (l *ledger) at(p place) *fate {
	f := l.all[p]
	if f == nil {
		f = new(fate)
		l.all[p] = f
	}
	return f
}

func (l *ledger) produced(records []*kgo.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range records {
		l.at(place{r.Partition, r.Offset}).record = r
	}
}

// asked takes a request on its way to the broker.
func (l *ledger) asked(x *tap.Exchange) {
	if x.Group != group {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for t, acks := range x.Acks {
		for o, kind := range acks {
			if kind == 3 {
				l.at(place{t.Partition, o}).asked = true
			}
		}
	}
}

// saw takes an exchange of the broker. There is one topic that share groups consume.
func (l *ledger) saw(x *tap.Exchange) {
	if x.Group != group {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for t, acquired := range x.Acquired {
		for _, a := range acquired {
			for o := a.First; o <= a.Last; o++ {
				f := l.at(place{t.Partition, o})
				f.deliveries = max(f.deliveries, a.Count)
			}
		}
	}
	for t, acks := range x.Acks {
		if x.Top != 0 || x.Codes[t] != 0 {
			continue
		}
		for o, kind := range acks {
			if f := l.at(place{t.Partition, o}); kind == 3 && !f.rejected {
				f.rejected = true
				l.rejects++
			} else if kind == 1 {
				l.wrong = append(l.wrong, fmt.Sprintf("partition %d offset %d was accepted", t.Partition, o))
			}
		}
	}
}

func (l *ledger) rejected() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rejects
}

// open is how many records may still be rejected.
func (l *ledger) open() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.all {
		if f.open() {
			n++
		}
	}
	return n
}

// unsettled tells of a few records that are open.
func (l *ledger) unsettled(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for p, f := range l.all {
		if f.open() && len(all) < n {
			all = append(all, fmt.Sprintf("%d/%d, delivered %d times", p.partition, p.offset, f.deliveries))
		}
	}
	return strings.Join(all, "; ")
}

func (l *ledger) settled() bool { return l.open() == 0 }

// compare reads the dead-letter topic and compares it with what it must have.
func (l *ledger) compare(ctx context.Context, cl *kgo.Client, r *Report) error {
	all, err := read(ctx, cl)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Rejects, r.Letters, r.Wrong = l.rejects, len(all), append(r.Wrong, l.wrong...)
	ids := make(map[string]place)
	for _, d := range all {
		p, id, err := origin(d)
		f := l.all[p]
		if err == nil && (f == nil || f.record == nil) {
			err = fmt.Errorf("nothing was produced there")
		}
		if err == nil {
			err = same(f.record, d)
		}
		if first, twice := ids[id]; err == nil && twice && first != p {
			err = fmt.Errorf("its id is that of %v", first)
		}
		if err != nil {
			r.Altered++
			r.wrong("letter %d/%d of %v: %v", d.Partition, d.Offset, p, err)
			continue
		}
		ids[id] = p
		if f.letters++; f.letters > 1 {
			r.Duplicates++
		}
	}
	for p, f := range l.all {
		if f.asked && !f.rejected {
			r.Unknown++
		}
		if f.letters == 0 && (f.asked || f.deliveries < limit) {
			r.Lost++
			r.wrong("%v has no letter: asked %v, rejected %v, %d deliveries", p, f.asked, f.rejected, f.deliveries)
		}
	}
	return nil
}

func (r *Report) wrong(format string, a ...any) {
	if len(r.Wrong) < 20 {
		r.Wrong = append(r.Wrong, fmt.Sprintf(format, a...))
	}
}

// origin is where a letter comes from by its own headers, and its id.
func origin(d *kgo.Record) (p place, id string, err error) {
	var partition, offset string
	for _, h := range d.Headers {
		switch h.Key {
		case "ackproxy.dlq.id":
			id = string(h.Value)
		case "__dlq.errors.partition":
			partition = string(h.Value)
		case "__dlq.errors.offset":
			offset = string(h.Value)
		}
	}
	if _, err := fmt.Sscanf(partition+" "+offset, "%d %d", &p.partition, &p.offset); err != nil {
		return p, id, fmt.Errorf("its place cannot be read: %w", err)
	}
	var topic string
	if want := fmt.Sprintf("%s/%s/%d/%d", group, "%s", p.partition, p.offset); id == "" {
		return p, id, fmt.Errorf("it has no id")
	} else if n, err := fmt.Sscanf(id, fmt.Sprintf("%s/%%22s", group), &topic); n != 1 || err != nil || id != fmt.Sprintf(want, topic) {
		return p, id, fmt.Errorf("its id is %q", id)
	}
	return p, id, nil
}

// same compares a letter with the record: key, value, and the first headers.
func same(record, letter *kgo.Record) error {
	if !equal(record.Key, letter.Key) || !equal(record.Value, letter.Value) {
		return fmt.Errorf("key %q and value %q became %q and %q", record.Key, record.Value, letter.Key, letter.Value)
	}
	if len(letter.Headers) < len(record.Headers) {
		return fmt.Errorf("%d headers of %d", len(letter.Headers), len(record.Headers))
	}
	for i, h := range record.Headers {
		if got := letter.Headers[i]; got.Key != h.Key || !equal(got.Value, h.Value) {
			return fmt.Errorf("header %d, %s: %q, became %s: %q", i, h.Key, h.Value, got.Key, got.Value)
		}
	}
	return nil
}

func equal(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// read returns all dead letters.
func read(ctx context.Context, cl *kgo.Client) ([]*kgo.Record, error) {
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, letters)
	if err != nil {
		return nil, err
	}
	left, start := 0, map[string]map[int32]kgo.Offset{letters: {}}
	ends.Each(func(o kadm.ListedOffset) {
		left += int(o.Offset)
		start[letters][o.Partition] = kgo.NewOffset().AtStart()
	})
	cl.AddConsumePartitions(start)
	var all []*kgo.Record
	for len(all) < left {
		one, cancel := context.WithTimeout(ctx, 30*time.Second)
		f := cl.PollFetches(one)
		cancel()
		if err := f.Err(); err != nil {
			return nil, fmt.Errorf("%d of %d dead letters read: %w", len(all), left, err)
		}
		all = append(all, f.Records()...)
	}
	return all, nil
}
