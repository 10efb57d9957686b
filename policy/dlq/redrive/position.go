package redrive

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// place is a partition of a topic.
type place struct {
	topic     string
	partition int32
}

// span is what is to be read of a partition: from next to before end.
type span struct {
	start, next, end int64
	younger          int64 // offsets that were before the end as well, until a letter was found that is not old enough yet
}

// positions are how far each partition is read, and what end it had at the beginning: what comes later is not read.
type positions map[place]*span

// spans are what topics have now, from committed on where a group has committed a position. A topic that does not exist is an error.
func spans(ctx context.Context, adm *kadm.Client, topics []string, committed kadm.OffsetResponses) (positions, error) {
	starts, err := adm.ListStartOffsets(ctx, topics...)
	if err := listed(starts, err); err != nil {
		return nil, fmt.Errorf("list the first offsets: %w", err)
	}
	ends, err := adm.ListCommittedOffsets(ctx, topics...)
	if err := listed(ends, err); err != nil {
		return nil, fmt.Errorf("list the last offsets: %w", err)
	}
	all := make(positions)
	for _, topic := range topics {
		if len(ends[topic]) == 0 {
			return nil, fmt.Errorf("topic %s: %w", topic, kerr.UnknownTopicOrPartition)
		}
		for p, end := range ends[topic] {
			s := &span{end: end.Offset}
			if first, ok := starts.Lookup(topic, p); ok {
				s.next = first.Offset
			}
			if at, ok := committed.Lookup(topic, p); ok && at.At > s.next {
				s.next = at.At
			}
			s.start = s.next
			all[place{topic, p}] = s
		}
	}
	return all, nil
}

// listed is the first error of a listing.
func listed(all kadm.ListedOffsets, err error) error {
	all.Each(func(o kadm.ListedOffset) {
		if err == nil && o.Err != nil {
			err = fmt.Errorf("topic %s: %w", o.Topic, o.Err)
		}
	})
	return err
}

// take notes that a record was read, and says whether it is one that was written by a producer, and not behind the end.
func (p positions) take(r *kgo.Record) bool {
	s := p[place{r.Topic, r.Partition}]
	if s == nil { // of a partition that was made meanwhile
		return false
	}
	s.next = max(s.next, min(r.Offset+1, s.end))
	return r.Offset < s.end && !r.Attrs.IsControl()
}

// stop ends a partition before a record, for this time.
func (p positions) stop(r *kgo.Record) {
	if s := p[place{r.Topic, r.Partition}]; s != nil && s.next <= r.Offset && r.Offset < s.end {
		s.younger += s.end - r.Offset
		s.end = r.Offset
	}
}

// younger is how many offsets stop has left out.
func (p positions) younger() (n int64) {
	for _, s := range p {
		n += s.younger
	}
	return n
}

// bound has a transaction commit what was taken only: the client would commit all that it has polled, also what is behind an end.
func (p positions) bound(q *kmsg.TxnOffsetCommitRequest) error {
	for i := range q.Topics {
		t := &q.Topics[i]
		t.Partitions = slices.DeleteFunc(t.Partitions, func(c kmsg.TxnOffsetCommitRequestTopicPartition) bool {
			return p[place{t.Topic, c.Partition}] == nil
		})
		for j := range t.Partitions {
			c := &t.Partitions[j]
			c.Offset = min(c.Offset, p[place{t.Topic, c.Partition}].next)
		}
	}
	q.Topics = slices.DeleteFunc(q.Topics, func(t kmsg.TxnOffsetCommitRequestTopic) bool { return len(t.Partitions) == 0 })
	return nil
}

// reached says whether all that was there has been read.
func (p positions) reached() bool {
	for _, s := range p {
		if s.next < s.end {
			return false
		}
	}
	return true
}

// done is how many offsets are behind us, and how many there are in all.
func (p positions) done() (done, total int64) {
	for _, s := range p {
		total += max(0, s.end-s.start)
		done += min(s.next, s.end) - min(s.start, s.end)
	}
	return done, total
}

func (p positions) offsets() map[string]map[int32]kgo.Offset {
	all := make(map[string]map[int32]kgo.Offset)
	for at, s := range p {
		if all[at.topic] == nil {
			all[at.topic] = make(map[int32]kgo.Offset)
		}
		all[at.topic][at.partition] = kgo.NewOffset().At(s.next)
	}
	return all
}

// reader reads partitions without a group.
type reader struct {
	client    *kgo.Client
	positions positions
}

// newReader reads what topics have from the committed offsets on. The caller closes its client.
func newReader(ctx context.Context, opts []kgo.Opt, topics []string, committed kadm.OffsetResponses) (*reader, error) {
	cl, err := kgo.NewClient(append(opts, reading()...)...)
	if err != nil {
		return nil, err
	}
	all, err := spans(ctx, kadm.NewClient(cl), topics, committed)
	if err != nil {
		cl.Close()
		return nil, err
	}
	cl.AddConsumePartitions(all.offsets())
	return &reader{cl, all}, nil
}

// reading are the options for reading all that is committed, and where the rest is.
func reading() []kgo.Opt {
	return []kgo.Opt{kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(500 * time.Millisecond)}
}

// quiet is how long a broker may send nothing although there is more to read.
const quiet = 30 * time.Second

// poll returns what comes next.
func (r *reader) poll(ctx context.Context) ([]*kgo.Record, error) {
	return records(ctx, r.client.PollRecords, batch)
}

// batch is how many records are read at most at a time.
const batch = 1000

func records(ctx context.Context, poll func(context.Context, int) kgo.Fetches, most int) ([]*kgo.Record, error) {
	one, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	f := poll(one, most)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if one.Err() != nil {
		return nil, fmt.Errorf("the brokers sent nothing for %s", quiet)
	}
	return f.Records(), f.Err()
}
