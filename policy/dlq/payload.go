package dlq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/internal/batch"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/dlq/letter"
)

// payload finds the record of a letter: as it passed by, else in its topic, else nowhere, and then says why. One from its topic is a view of batches
// that others bound, and only as long as nobody waits with it.
func (p *Policy) payload(ctx context.Context, records policy.Records, l *letter.Letter, f *fetching) {
	err := policy.ErrNotKept
	if records != nil {
		var r policy.Record
		if r, err = records.Record(l.TopicID, l.Partition, l.Offset); err == nil {
			l.Payload, l.Source = letter.Full, &r
		}
	}
	if err != nil && f != nil {
		r, fetchErr := f.record(ctx, l.Offset)
		if fetchErr == nil {
			l.Payload, l.Source = letter.Refetched, r
		} else {
			err = fmt.Errorf("%w; fetched again: %s", err, cause(fetchErr))
		}
	}
	if l.Source == nil {
		l.Strip(err.Error())
	}
}

var (
	errGone     = errors.New("there is no record at the offset")
	errNoSource = errors.New("the topic is not known")
)

// fetching reads the records of one partition from its topic. It keeps what one fetch brought: rejected offsets are often neighbours.
type fetching struct {
	source    *source
	partition int32
	topic     *sourceTopic
	until     time.Time // no fetch goes on
	err       error     // for all of it
	batches   *batch.Set
	from, to  int64 // what batches cover: to is the first offset that they do not
	held      int64 // of the source's room, for batches
}

// reader begins to read records of a partition; nil where there is no source. It is to be closed.
func (s *source) reader(topic codec.UUID, partition int32, until time.Time) *fetching {
	if s == nil {
		return nil
	}
	return &fetching{source: s, partition: partition, topic: s.topic(topic), until: until}
}

// name is the topic's name, where the source knows it soon.
func (f *fetching) name(ctx context.Context, otherwise string) string {
	if f == nil {
		return otherwise
	}
	if name, _, err := f.source.look(ctx, f.topic); err == nil && name != "" {
		return name
	}
	return otherwise
}

// record reads the record at an offset. It is a view of what close forgets.
func (f *fetching) record(ctx context.Context, offset int64) (*policy.Record, error) {
	if f.err != nil {
		return nil, f.err
	}
	if offset < f.from || offset >= f.to {
		if err := f.fill(ctx, offset); err != nil {
			return nil, err
		}
	}
	r, err := f.batches.Record(offset, f.opens)
	if errors.Is(err, policy.ErrNotKept) || errors.Is(err, batch.ErrNone) {
		return nil, errGone
	}
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// opens makes room for a batch that is decompressed, unless it is so large that it had better be decompressed again.
func (f *fetching) opens(bytes int) bool {
	if int64(bytes) > f.source.room.size/4 {
		return false
	}
	f.hold(int64(bytes))
	return true
}

func (f *fetching) hold(n int64) {
	f.source.room.add(n)
	f.held += n
}

// close forgets what a fetch brought, and gives its room back.
func (f *fetching) close() {
	if f != nil && f.held > 0 {
		f.source.room.give(f.held)
		f.batches, f.from, f.to, f.held = nil, 0, 0, 0
	}
}

// fill fetches from an offset on, once there is room for an answer. It has that until close, also while its request waits for room for a letter.
// That ends: letters that are being produced give their room back without it, and a request that holds others gives up after its budget.
func (f *fetching) fill(ctx context.Context, offset int64) (err error) {
	f.close()
	ctx, cancel := context.WithDeadline(ctx, f.until)
	defer cancel()
	if f.held, err = f.source.room.take(ctx, fetchBytes); err != nil {
		return err
	}
	for range 2 { // where the first says that leaders are elsewhere, it asks where
		var answer []byte
		if answer, err = f.source.fetch(ctx, f.topic, f.partition, offset); err == nil {
			f.hold(max(0, int64(len(answer))-f.held))
			f.batches, f.from, f.to = batch.Open(answer), offset, offset+1
			if last, ok := f.batches.Last(); ok { // else nothing is there: compacted, or a marker of a transaction
				f.to = max(f.to, last+1)
			}
			return nil
		}
		if ctx.Err() != nil {
			break
		}
		f.topic.forget()
	}
	if f.close(); permanent(err) {
		f.err = err
	}
	return err
}
