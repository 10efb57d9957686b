package sdk

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/plugins/internal/wire"
	"github.com/ackproxy/ackproxy/plugins/pluginpb/ackproxy/policy/v1"
	"github.com/ackproxy/ackproxy/policy"
)

// wanting asks the host for the records of one decision.
type wanting struct {
	d      *deciding
	ctx    context.Context // of the decision
	id     uint64
	asking sync.Mutex // one record at a time: the host tells one thing after the other
	chunks chan *policyv1.RecordsChunk
}

// records are those of one decision, nil where the policy does not look at any.
func (d *deciding) records(ctx context.Context, id uint64) policy.Records {
	if !d.policy.Traits().Records {
		return nil
	}
	w := &wanting{d: d, ctx: ctx, id: id, chunks: make(chan *policyv1.RecordsChunk, wire.MaxRecords/wire.ChunkSize+1)}
	d.mu.Lock()
	d.wanting[id] = w
	d.mu.Unlock()
	return w
}

// take takes what the host tells. It must not block: there is room for all that the host may tell at once.
func (w *wanting) take(c *policyv1.RecordsChunk) {
	if w == nil {
		return
	}
	select {
	case w.chunks <- c:
	default:
	}
}

// Record asks for one record, and waits for it as long as the decision may take.
func (w *wanting) Record(topic codec.UUID, partition int32, offset int64) (policy.Record, error) {
	w.asking.Lock()
	defer w.asking.Unlock()
	if err := w.ctx.Err(); err != nil { // what was asked for then may still come, and would be taken for what is asked for now
		return policy.Record{}, err
	}
	w.d.send(&policyv1.DecideResponse{Id: w.id, Result: &policyv1.DecideResponse_Records{Records: &policyv1.RecordsWanted{
		Ranges: []*policyv1.OffsetRange{{TopicId: topic[:], Partition: partition, First: offset, Last: offset}},
	}}})
	data, err := w.wait()
	if err != nil {
		return policy.Record{}, err
	}
	var all policyv1.Records
	if err := proto.Unmarshal(data, &all); err != nil {
		return policy.Record{}, fmt.Errorf("decode a record: %w", err)
	}
	for _, m := range all.GetRecords() {
		switch {
		case m.GetOffset() != offset:
		case m.GetError() != "":
			return policy.Record{}, errors.New(m.GetError())
		default:
			return wire.ToRecord(m), nil
		}
	}
	return policy.Record{}, policy.ErrNotKept
}

// wait puts the chunks of an answer together.
func (w *wanting) wait() (data []byte, err error) {
	for {
		select {
		case c := <-w.chunks:
			data = append(data, c.GetData()...)
			switch {
			case c.GetError() != "":
				return nil, errors.New(c.GetError())
			case c.GetLast():
				return data, nil
			}
		case <-w.ctx.Done():
			return nil, w.ctx.Err()
		}
	}
}
