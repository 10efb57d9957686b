package dlq

import (
	"context"
	"errors"
	"fmt"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/dlq/letter"
)

// payload finds the record of a letter: as it passed by, else in its topic, else nowhere, and then says why.
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
	p.metrics.payloads[l.Payload].Inc()
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
	err       error // for all of it
	records   []policy.Record
	from, to  int64 // what records cover: to is the first offset that is not
}

// reader begins to read records of a partition; nil where there is no source.
func (s *source) reader(topic codec.UUID, partition int32) *fetching {
	if s == nil {
		return nil
	}
	return &fetching{source: s, partition: partition, topic: s.topic(topic)}
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

// record reads the record at an offset.
func (f *fetching) record(ctx context.Context, offset int64) (*policy.Record, error) {
	if f.err != nil {
		return nil, f.err
	}
	if offset < f.from || offset >= f.to {
		if err := f.fill(ctx, offset); err != nil {
			return nil, err
		}
	}
	for i := range f.records {
		if f.records[i].Offset == offset {
			return &f.records[i], nil
		}
	}
	return nil, errGone
}

// fill fetches from an offset on. Where that says that leaders are elsewhere, it asks where and fetches once more.
func (f *fetching) fill(ctx context.Context, offset int64) error {
	var err error
	for range 2 {
		f.records, f.to, err = f.source.fetch(ctx, f.topic, f.partition, offset)
		if f.from = offset; err == nil {
			return nil
		}
		f.to = offset
		if ctx.Err() != nil {
			break
		}
		f.topic.forget()
	}
	if permanent(err) {
		f.err = err
	}
	return err
}
