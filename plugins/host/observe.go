package host

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/plugins/internal/wire"
	"github.com/ackproxy/ackproxy/plugins/pluginpb/ackproxy/policy/v1"
	"github.com/ackproxy/ackproxy/policy"
)

// Bounds of the queue of outcomes, and of a batch.
const (
	maxOutcomes     = 16 << 10
	maxOutcomeBytes = 64 << 20
	outcomeCost     = 1 << 10 // bytes that an outcome holds beside its frame, what was decided and the rows of its reply
	rowCost         = 64      // bytes
	maxBatch        = 256
	maxBatchBytes   = 1 << 20
	linger          = 2 * time.Millisecond // for a batch to become one
)

// outcomes is the queue of what a plugin is to be shown. It outlives the plugin's processes.
type outcomes struct {
	queue   chan *policy.Outcome
	bytes   atomic.Int64
	taken   atomic.Uint64
	dropped atomic.Uint64
	told    uint64 // of dropped, what a plugin was told; of the goroutine that sends
}

func newOutcomes() *outcomes { return &outcomes{queue: make(chan *policy.Outcome, maxOutcomes)} }

// cost is the same for an outcome as long as it is held.
func cost(o *policy.Outcome) int64 {
	return int64(len(o.Request.Frame)) + int64(o.Decision.Size()) + rowCost*int64(len(o.Reply.Partitions)) + outcomeCost
}

// add is called on a connection's loop: it never waits.
func (q *outcomes) add(o *policy.Outcome) {
	n := cost(o)
	if q.bytes.Add(n) > maxOutcomeBytes {
		q.bytes.Add(-n)
		q.dropped.Add(1)
		return
	}
	o.Retain()
	select {
	case q.queue <- o:
	default:
		q.release(o)
		q.dropped.Add(1)
	}
}

func (q *outcomes) release(o *policy.Outcome) {
	q.bytes.Add(-cost(o))
	o.Release()
}

// drop empties the queue of a plugin that is closed.
func (q *outcomes) drop() {
	for {
		select {
		case o := <-q.queue:
			q.release(o)
			q.dropped.Add(1)
		default:
			return
		}
	}
}

// observation is one stream of outcomes. Two goroutines serve it, send and receive; both end with the stream.
type observation struct {
	*outcomes
	stream  grpc.BidiStreamingClient[policyv1.ObserveRequest, policyv1.ObserveResponse]
	ended   <-chan struct{} // of the session
	closing <-chan struct{} // of the plugin: show it what is there, and stop
	wants   wants

	topicName func(codec.UUID) (string, bool) // may be nil

	batch *policyv1.ObserveRequest
	size  int           // bytes of batch
	sent  atomic.Uint64 // outcomes
	took  uint64        // of those, what the plugin says that it took; of receive
}

// send sends batches until the session ends or the plugin is closed.
func (v *observation) send() {
	v.batch = &policyv1.ObserveRequest{}
	for {
		select {
		case o := <-v.queue:
			if v.add(o) != nil || v.gather() != nil || v.flush() != nil {
				return
			}
		case <-v.closing:
			for len(v.queue) > 0 {
				if v.add(<-v.queue) != nil {
					return
				}
			}
			v.flush()
			v.stream.CloseSend()
			return
		case <-v.ended:
			return
		}
	}
}

// gather adds what comes within the linger.
func (v *observation) gather() error {
	t := time.NewTimer(linger)
	defer t.Stop()
	for len(v.batch.Outcomes) > 0 {
		select {
		case o := <-v.queue:
			if err := v.add(o); err != nil {
				return err
			}
		case <-t.C:
			return nil
		case <-v.ended:
			return nil
		}
	}
	return nil
}

// add translates an outcome, lets go of it, and sends the batch when it is full.
func (v *observation) add(o *policy.Outcome) error {
	m, err := wire.FromOutcome(o, v.wants.frame)
	v.nameTopics(m)
	v.release(o)
	n := 0
	if err == nil {
		n = proto.Size(m) + envelope
	}
	if err != nil || n > v.wants.message-envelope {
		v.dropped.Add(1)
		return nil
	}
	if v.size+n > min(maxBatchBytes, v.wants.message-envelope) {
		if err := v.flush(); err != nil {
			v.dropped.Add(1)
			return err
		}
	}
	v.batch.Outcomes = append(v.batch.Outcomes, m)
	if v.size += n; len(v.batch.Outcomes) == maxBatch {
		return v.flush()
	}
	return nil
}

// nameTopics fills in the names of topics where no policy needed them. m may be nil.
func (v *observation) nameTopics(m *policyv1.Outcome) {
	if v.topicName == nil {
		return
	}
	for _, p := range m.GetRequest().GetPartitions() {
		if name, ok := v.topicName(codec.UUID(p.GetTopicId())); ok {
			p.Topic = strings.ToValidUTF8(name, "\uFFFD")
		}
	}
}

func (v *observation) flush() error {
	if len(v.batch.Outcomes) == 0 {
		return nil
	}
	dropped := v.dropped.Load()
	v.batch.Dropped = dropped - v.told
	v.told = dropped
	v.sent.Add(uint64(len(v.batch.Outcomes)))
	batch := v.batch
	v.batch, v.size = &policyv1.ObserveRequest{}, 0
	return v.stream.Send(batch)
}

// receive hears how far the plugin has got, until the stream ends. It returns why, nil after a stream that was closed.
func (v *observation) receive() error {
	for {
		m, err := v.stream.Recv()
		select {
		case <-v.closing:
			if errors.Is(err, io.EOF) {
				return nil
			}
		default:
		}
		if errors.Is(err, io.EOF) {
			return errors.New("the plugin ended its stream of outcomes")
		}
		if err != nil {
			return fmt.Errorf("its stream of outcomes: %w", err)
		}
		if took := min(m.GetTaken(), v.sent.Load()); took > v.took {
			v.taken.Add(took - v.took)
			v.took = took
		}
	}
}

// settle counts what the plugin was sent in vain, once send and receive have returned.
func (v *observation) settle() {
	v.dropped.Add(v.sent.Load() - v.took + uint64(len(v.batch.Outcomes)))
}
