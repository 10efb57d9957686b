package host

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/plugins/internal/wire"
	"github.com/ackproxy/ackproxy/plugins/pluginpb/ackproxy/policy/v1"
	"github.com/ackproxy/ackproxy/policy"
)

var errTooMany = errors.New("the plugin wants more records than it may have for one decision")

// telling brings the plugin the records that it wants for one question. It belongs to the goroutine that waits for the answer.
type telling struct {
	d       *decisions
	id      uint64
	q       *question
	of      *policy.Request
	data    []byte                   // records that were not sent yet
	sent    int                      // bytes, in the whole question
	lookups int                      // likewise
	next    *policyv1.DecideResponse // what the plugin said meanwhile
}

var errSpoke = errors.New("the plugin did not wait for the records that it wanted")

// tell brings what is wanted, or ends with errSpoke once the plugin says something else. Other errors end the question.
func (t *telling) tell(ctx context.Context, wanted *policyv1.RecordsWanted) error {
	why := ""
	if err := t.all(ctx, wanted); errors.Is(err, errTooMany) || errors.Is(err, errNoRecords) {
		why = err.Error()
	} else if err != nil {
		return err
	}
	data := t.data
	t.data = nil
	return t.chunk(ctx, &policyv1.RecordsChunk{Data: data, Last: true, Error: why})
}

var errNoRecords = errors.New("no records for a plugin that did not say that it needs them (needs_records)")

func (t *telling) all(ctx context.Context, wanted *policyv1.RecordsWanted) error {
	if t.of.Records == nil {
		return errNoRecords
	}
	for _, w := range wanted.GetRanges() {
		if err := ctx.Err(); err != nil { // each of them costs a look at all partitions
			return err
		}
		for i := range t.of.Partitions {
			p := &t.of.Partitions[i]
			if string(p.TopicID[:]) != string(w.GetTopicId()) || p.Index != w.GetPartition() {
				continue
			}
			for _, a := range p.Acquired {
				if err := t.run(ctx, p.TopicID, p.Index, max(a.First, w.GetFirst()), min(a.Last, w.GetLast())); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// run brings the records of a run of offsets.
func (t *telling) run(ctx context.Context, topic codec.UUID, partition int32, first, last int64) error {
	for offset := first; offset <= last; offset++ {
		if t.lookups++; t.lookups > wire.MaxLookedUp {
			return errTooMany
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := t.of.Records.Record(topic, partition, offset)
		if errors.Is(err, policy.ErrNotKept) {
			continue
		}
		if err := t.add(ctx, wire.FromRecord(topic, partition, offset, &r, err)); err != nil {
			return err
		}
	}
	return nil
}

// add appends a record, and sends what fills chunks.
func (t *telling) add(ctx context.Context, r *policyv1.Record) error {
	m := &policyv1.Records{Records: []*policyv1.Record{r}} // such messages after each other are one with all records
	if n := proto.Size(m); t.sent+n > wire.MaxRecords {
		return errTooMany
	} else {
		t.sent += n
	}
	var err error
	if t.data, err = (proto.MarshalOptions{}).MarshalAppend(t.data, m); err != nil {
		return fmt.Errorf("encode a record: %w", err)
	}
	size := min(wire.ChunkSize, t.d.limit-envelope)
	if size <= 0 {
		return fmt.Errorf("records in messages of %d bytes: %w", t.d.limit, ErrTooLarge)
	}
	for len(t.data) > size {
		if err := t.chunk(ctx, &policyv1.RecordsChunk{Data: t.data[:size:size]}); err != nil {
			return err
		}
		t.data = t.data[size:]
	}
	return nil
}

// chunk sends one, and returns when it is on its way.
func (t *telling) chunk(ctx context.Context, c *policyv1.RecordsChunk) error {
	taken := make(chan struct{})
	t.d.mu.Lock()
	t.q.chunk, t.q.taken, t.q.telling = c, taken, !c.GetLast()
	t.d.mu.Unlock()
	select {
	case t.d.asks <- ask{id: t.id, chunk: true}:
	case t.next = <-t.q.answer:
		return errSpoke
	case <-ctx.Done():
		return ctx.Err()
	case <-t.d.ended:
		return ErrDown
	}
	select {
	case <-taken:
		return nil
	case t.next = <-t.q.answer:
		return errSpoke
	case <-ctx.Done():
		return ctx.Err()
	case <-t.d.ended:
		return ErrDown
	}
}
