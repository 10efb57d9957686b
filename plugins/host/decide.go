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
	maxAsks  = 1024 // questions that wait to be sent
	envelope = 64   // bytes of a message around what it carries, at most
)

// decisions is one stream of decisions. Two goroutines serve it, send and receive; both end with the stream.
type decisions struct {
	stream grpc.BidiStreamingClient[policyv1.DecideRequest, policyv1.DecideResponse]
	ended  <-chan struct{} // of the session
	counts *counts
	limit  int // bytes of a message
	asks   chan question

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan<- *policyv1.DecideResponse
}

// question is one to be sent: a request, or the news that one is no longer of interest.
type question struct {
	m        *policyv1.DecideRequest
	deadline time.Time
}

func newDecisions(s *session, stream grpc.BidiStreamingClient[policyv1.DecideRequest, policyv1.DecideResponse], c *counts) *decisions {
	return &decisions{
		stream: stream, ended: s.ended, counts: c, limit: s.wants.message, asks: make(chan question, maxAsks),
		waiting: map[uint64]chan<- *policyv1.DecideResponse{},
	}
}

// ask asks one question. The wait for room in the queue is part of the time it has.
func (d *decisions) ask(ctx context.Context, r *policyv1.Request) (v policy.Verdict, err error) {
	if n := proto.Size(r) + envelope; n > d.limit {
		return v, fmt.Errorf("a request of %d bytes: %w", n, ErrTooLarge)
	}
	answer := make(chan *policyv1.DecideResponse, 1)
	id := d.expect(answer)
	defer d.forget(id)
	deadline, _ := ctx.Deadline()
	select {
	case d.asks <- question{&policyv1.DecideRequest{Id: id, Request: r}, deadline}:
	case <-ctx.Done():
		return v, fmt.Errorf("the plugin does not keep up: %w", ctx.Err())
	case <-d.ended:
		return v, ErrDown
	}
	select {
	case m := <-answer:
		return d.read(m)
	case <-ctx.Done():
		select {
		case d.asks <- question{m: &policyv1.DecideRequest{Id: id}}:
		default:
		}
		return v, ctx.Err()
	case <-d.ended:
	}
	select {
	case m := <-answer: // it came with the end
		return d.read(m)
	default:
		return v, ErrDown
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

func (d *decisions) expect(answer chan<- *policyv1.DecideResponse) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next++
	d.waiting[d.next] = answer
	return d.next
}

func (d *decisions) forget(id uint64) {
	d.mu.Lock()
	delete(d.waiting, id)
	d.mu.Unlock()
}

// send sends questions until the session ends. What is too late to ask is not asked. A failed send leaves it to receive to say why.
func (d *decisions) send() {
	for {
		select {
		case q := <-d.asks:
			if q.m.Request != nil {
				left := time.Until(q.deadline)
				if left <= 0 {
					continue
				}
				q.m.TimeLeft = durationpb.New(left)
			}
			if d.stream.Send(q.m) != nil {
				return
			}
		case <-d.ended:
			return
		}
	}
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
		answer, last := d.waiting[m.GetId()], d.next
		delete(d.waiting, m.GetId())
		d.mu.Unlock()
		switch {
		case answer != nil:
			answer <- m
		case m.GetId() == 0 || m.GetId() > last:
			d.counts.unknown.Add(1)
			unknown(m.GetId())
		default:
			d.counts.late.Add(1)
		}
	}
}
