package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ackproxy/ackproxy/plugins/internal/wire"
	"github.com/ackproxy/ackproxy/plugins/pluginpb/ackproxy/policy/v1"
	"github.com/ackproxy/ackproxy/policy"
)

const (
	maxAsks  = 1024     // questions that wait to be sent
	atOnce   = 32 << 10 // bytes that gRPC takes without waiting for the plugin to read, and more
	envelope = 64       // bytes of a message around what it carries, at most
)

// decisions is one stream of decisions. Two goroutines serve it, send and receive; both end with the stream. Who asks sends the question itself where
// that cannot block.
type decisions struct {
	stream grpc.BidiStreamingClient[policyv1.DecideRequest, policyv1.DecideResponse]
	ended  <-chan struct{} // of the session
	counts *counts
	limit  int // bytes of a message
	asks   chan ask

	sending sync.Mutex // of one message

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]*question
	sent    int // bytes of questions, and of records for them
	taken   int // of these, what the plugin has read for certain: it answered
}

// ask is an entry of the queue. It is small: of what nobody waits for any longer only that is left.
type ask struct {
	id     uint64
	cancel bool // tell the plugin that nobody waits
	chunk  bool // send the question's chunk of records
}

// question is one that somebody waits for.
type question struct {
	m        *policyv1.DecideRequest
	size     int // bytes
	deadline time.Time
	sent     int                           // what of all questions was sent with this one; 0: it was not
	answer   chan *policyv1.DecideResponse // room for a wish for records and what follows it

	telling bool // records are on their way to the plugin
	chunk   *policyv1.RecordsChunk
	taken   chan struct{} // closed once chunk is
}

func newDecisions(s *session, stream grpc.BidiStreamingClient[policyv1.DecideRequest, policyv1.DecideResponse], c *counts) *decisions {
	return &decisions{
		stream: stream, ended: s.ended, counts: c, limit: s.wants.message, asks: make(chan ask, maxAsks), waiting: map[uint64]*question{},
	}
}

// ask asks one question about a request, of which r is the translation. The wait for room in the queue is part of the time it has.
func (d *decisions) ask(ctx context.Context, r *policyv1.Request, of *policy.Request) (v policy.Verdict, err error) {
	size := proto.Size(r) + envelope
	if size > d.limit {
		return v, fmt.Errorf("a request of %d bytes: %w", size, ErrTooLarge)
	}
	q := &question{m: &policyv1.DecideRequest{Request: r}, size: size, answer: make(chan *policyv1.DecideResponse, 2)}
	q.deadline, _ = ctx.Deadline()
	id := d.expect(q)
	defer d.forget(id)
	if err := d.put(ctx, ask{id: id}, size); err != nil {
		return v, err
	}
	m, err := d.wait(ctx, q)
	for t := (telling{d: d, id: id, q: q, of: of}); err == nil && m.GetRecords() != nil; {
		if err = t.tell(ctx, m.GetRecords()); err == nil {
			m, err = d.wait(ctx, q)
		} else if errors.Is(err, errSpoke) {
			m, err = t.next, nil
		}
	}
	if err == nil {
		return d.read(m)
	}
	if ctx.Err() != nil && d.forget(id) {
		select {
		case d.asks <- ask{id: id, cancel: true}:
		default:
		}
	}
	return v, err
}

// put sends a question, at once or in its turn.
func (d *decisions) put(ctx context.Context, a ask, size int) error {
	if d.roomFor(size) && d.sending.TryLock() {
		defer d.sending.Unlock()
		_ = d.sendOne(a)
		return nil
	}
	select {
	case d.asks <- a:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the plugin does not keep up: %w", ctx.Err())
	case <-d.ended:
		return ErrDown
	}
}

// roomFor says whether so many bytes can be sent without waiting.
func (d *decisions) roomFor(size int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sent-d.taken+size <= atOnce
}

// wait returns what the plugin says next about a question.
func (d *decisions) wait(ctx context.Context, q *question) (*policyv1.DecideResponse, error) {
	select {
	case m := <-q.answer:
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-d.ended:
	}
	select {
	case m := <-q.answer: // it came with the end
		return m, nil
	default:
		return nil, ErrDown
	}
}

func (d *decisions) read(m *policyv1.DecideResponse) (v policy.Verdict, err error) {
	d.counts.answered.Add(1)
	switch r := m.GetResult().(type) {
	case *policyv1.DecideResponse_Verdict:
		if v, err = wire.ToVerdict(r.Verdict); err != nil {
			return policy.Verdict{}, fmt.Errorf("the plugin's verdict: %w", err)
		}
		return v, nil
	case *policyv1.DecideResponse_Error:
		return v, fmt.Errorf("the plugin says: %.512s", printable(r.Error))
	}
	return v, errors.New("the plugin answered neither a verdict nor an error")
}

func (d *decisions) expect(q *question) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next++
	q.m.Id = d.next
	d.waiting[d.next] = q
	return d.next
}

// forget says whether the plugin has been asked, and not answered.
func (d *decisions) forget(id uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.waiting[id]
	delete(d.waiting, id)
	return q != nil && q.sent > 0
}

// send sends what is queued until the session ends.
func (d *decisions) send() {
	for {
		select {
		case a := <-d.asks:
			d.sending.Lock()
			err := d.sendOne(a)
			d.sending.Unlock()
			if err != nil {
				return
			}
		case <-d.ended:
			return
		}
	}
}

// sendOne sends one message. What is too late to ask is not asked. A failed send leaves it to receive to say why. The caller holds d.sending.
func (d *decisions) sendOne(a ask) error {
	if m := d.message(a); m != nil {
		return d.stream.Send(m)
	}
	return nil
}

// message is what to send; nil where nobody waits for it any longer.
func (d *decisions) message(a ask) *policyv1.DecideRequest {
	if a.cancel {
		return &policyv1.DecideRequest{Id: a.id}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.waiting[a.id]
	if q == nil {
		return nil
	}
	if a.chunk {
		c := q.chunk
		if q.chunk = nil; c == nil {
			return nil
		}
		close(q.taken)
		d.sent += len(c.GetData()) + envelope
		q.sent = d.sent
		return &policyv1.DecideRequest{Id: a.id, Records: c}
	}
	left := time.Until(q.deadline)
	if left <= 0 {
		return nil
	}
	d.sent += q.size
	q.sent = d.sent
	q.m.TimeLeft = durationpb.New(left)
	return q.m
}

// receive hands answers out until the stream ends, and returns why it did.
func (d *decisions) receive(unknown func(id uint64)) error {
	for {
		m, err := d.stream.Recv()
		if errors.Is(err, io.EOF) {
			return errors.New("the plugin ended its stream of decisions")
		}
		if err != nil {
			return fmt.Errorf("its stream of decisions: %w", err)
		}
		d.mu.Lock()
		q, last := d.waiting[m.GetId()], d.next
		if q != nil {
			d.taken = max(d.taken, q.sent)
		}
		switch {
		case m.GetRecords() == nil || q == nil:
			delete(d.waiting, m.GetId())
		case q.telling:
			m = &policyv1.DecideResponse{Id: m.GetId(), Result: &policyv1.DecideResponse_Error{Error: "it wants records before the last ones have come"}}
			delete(d.waiting, m.GetId())
		default:
			q.telling = true
		}
		d.mu.Unlock()
		switch {
		case q != nil:
			q.answer <- m
		case m.GetId() == 0 || m.GetId() > last:
			d.counts.unknown.Add(1)
			unknown(m.GetId())
		default:
			d.counts.late.Add(1)
		}
	}
}
