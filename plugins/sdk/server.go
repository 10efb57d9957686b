package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ackproxy/ackproxy/plugins/internal/wire"
	"github.com/ackproxy/ackproxy/plugins/pluginpb/ackproxy/policy/v1"
	"github.com/ackproxy/ackproxy/policy"
)

const (
	maxDeciding = 4096        // decisions at once; more wait, as long as the host does
	closeTime   = time.Second // for io.Closer
)

// service registers a server with go-plugin.
type service struct {
	goplugin.NetRPCUnsupportedPlugin
	server *server
}

// GRPCServer has the server answer the host.
func (s *service) GRPCServer(_ *goplugin.GRPCBroker, g *grpc.Server) error {
	policyv1.RegisterPolicyServiceServer(g, s.server)
	return nil
}

// GRPCClient fails: a plugin only serves.
func (s *service) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("not a client")
}

// server answers the host.
type server struct {
	policyv1.UnimplementedPolicyServiceServer
	open           func([]byte) (parts, error)
	stdout, stderr *os.File

	configured atomic.Bool
	opened     atomic.Pointer[parts]
	closing    sync.Once
}

// Configure makes the policy of its configuration, once, and says what it wants.
func (s *server) Configure(_ context.Context, m *policyv1.ConfigureRequest) (*policyv1.ConfigureResponse, error) {
	if s.configured.Swap(true) {
		return nil, status.Error(codes.FailedPrecondition, "configured already")
	}
	// go-plugin has put a stream of its own in their places, on which the last words of a process are lost. Nothing is served before.
	os.Stdout, os.Stderr = s.stdout, s.stderr
	p, err := s.open(m.GetConfig())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	s.opened.Store(&p)
	answer := &policyv1.ConfigureResponse{
		Name: p.name, Decides: p.policy != nil, Observes: p.observer != nil, MapsEndpoints: p.endpoints != nil, NeedsFrame: true, MaxMessageBytes: wire.LargestMessage,
	}
	switch {
	case p.policy != nil:
		traits := p.policy.Traits()
		answer.Budget, answer.NeedsRecords = durationpb.New(traits.Budget), traits.Records
	case p.endpoints != nil:
		answer.Budget = durationpb.New(p.endpoints.Traits().Budget)
	}
	return answer, nil
}

// close lets the policy finish, once.
func (s *server) close() {
	s.closing.Do(func() {
		p := s.opened.Load()
		if p == nil {
			return
		}
		c, ok := p.whole.(io.Closer)
		if !ok {
			return
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := c.Close(); err != nil {
				fmt.Fprintln(os.Stderr, "close:", err)
			}
		}()
		select {
		case <-done:
		case <-time.After(closeTime):
		}
	})
}

func (s *server) parts() (parts, error) {
	if p := s.opened.Load(); p != nil {
		return *p, nil
	}
	return parts{}, status.Error(codes.FailedPrecondition, "not configured")
}

// Decide answers questions as they come; those of a policy that waits, each on a goroutine of its own.
func (s *server) Decide(stream grpc.BidiStreamingServer[policyv1.DecideRequest, policyv1.DecideResponse]) error {
	p, err := s.parts()
	if err == nil && p.policy == nil {
		err = status.Error(codes.Unimplemented, "decides nothing")
	}
	if err != nil {
		return err
	}
	d := &deciding{stream: stream, policy: p.policy, cancels: map[uint64]context.CancelFunc{}, wanting: map[uint64]*wanting{}, room: make(chan struct{}, maxDeciding)}
	defer d.running.Wait()
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		d.take(m)
	}
}

// deciding is one stream of decisions.
type deciding struct {
	stream  grpc.BidiStreamingServer[policyv1.DecideRequest, policyv1.DecideResponse]
	policy  policy.Policy
	running sync.WaitGroup
	room    chan struct{}

	sending sync.Mutex
	mu      sync.Mutex
	cancels map[uint64]context.CancelFunc
	wanting map[uint64]*wanting // by the decisions that look at records
}

func (d *deciding) take(m *policyv1.DecideRequest) {
	if m.GetRequest() == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if c := m.GetRecords(); c != nil {
			d.wanting[m.GetId()].take(c)
			return
		}
		if cancel := d.cancels[m.GetId()]; cancel != nil {
			cancel()
		}
		return
	}
	ctx, cancel := context.WithTimeout(d.stream.Context(), m.GetTimeLeft().AsDuration())
	if traits := d.policy.Traits(); !traits.Waits && !traits.Records { // records come on this stream
		d.answer(ctx, m)
		cancel()
		return
	}
	d.mu.Lock()
	d.cancels[m.GetId()] = cancel
	d.mu.Unlock()
	d.running.Go(func() {
		select { // not before: what others wait for comes on this stream
		case d.room <- struct{}{}:
			d.answer(ctx, m)
			<-d.room
		case <-ctx.Done():
		}
		d.mu.Lock()
		delete(d.cancels, m.GetId())
		delete(d.wanting, m.GetId())
		d.mu.Unlock()
		cancel()
	})
}

// answer decides and sends. A send fails when the stream is over, which Recv says as well.
func (d *deciding) answer(ctx context.Context, m *policyv1.DecideRequest) {
	answer := &policyv1.DecideResponse{Id: m.GetId()}
	if v, err := decide(ctx, d.policy, m.GetRequest(), d.records(ctx, m.GetId())); err != nil {
		answer.Result = &policyv1.DecideResponse_Error{Error: err.Error()}
	} else {
		answer.Result = &policyv1.DecideResponse_Verdict{Verdict: wire.FromVerdict(&v)}
	}
	d.send(answer)
}

func (d *deciding) send(m *policyv1.DecideResponse) {
	d.sending.Lock()
	defer d.sending.Unlock()
	_ = d.stream.Send(m)
}

// decide makes a panic an error of this one decision: the plugin's other decisions have no part in it.
func decide(ctx context.Context, p policy.Policy, m *policyv1.Request, records policy.Records) (v policy.Verdict, err error) {
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(os.Stderr, "panic: %v\n%s", r, debug.Stack())
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	r, err := wire.ToRequest(m)
	if err != nil {
		return v, err
	}
	r.Records = records
	return p.Decide(ctx, r)
}

// dropper is an observer that wants to know what it was not shown.
type dropper interface{ Dropped(n uint64) }

// Observe hands outcomes to the observer in order.
func (s *server) Observe(stream grpc.BidiStreamingServer[policyv1.ObserveRequest, policyv1.ObserveResponse]) error {
	p, err := s.parts()
	if err == nil && p.observer == nil {
		err = status.Error(codes.Unimplemented, "observes nothing")
	}
	if err != nil {
		return err
	}
	taken := uint64(0)
	for {
		batch, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if d, ok := p.observer.(dropper); ok && batch.GetDropped() > 0 {
			d.Dropped(batch.GetDropped())
		}
		for _, m := range batch.GetOutcomes() {
			learnTopics(m)
			o, err := wire.ToOutcome(m)
			if err != nil {
				return status.Error(codes.InvalidArgument, err.Error())
			}
			p.observer.Observe(o)
		}
		taken += uint64(len(batch.GetOutcomes()))
		if err := stream.Send(&policyv1.ObserveResponse{Taken: taken}); err != nil {
			return err
		}
	}
}
