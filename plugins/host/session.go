package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/ackproxy/ackproxy/plugins/internal/wire"
	"github.com/ackproxy/ackproxy/plugins/pluginpb/ackproxy/policy/v1"
)

const (
	grace     = 2 * time.Second        // for a plugin to take the last outcomes, and again to end
	lastWords = 200 * time.Millisecond // from the end of a connection to that of the process that caused it
	maxBudget = time.Minute
)

// passed is what is passed on of our environment, beside what the Spec names.
var passed = []string{"PATH", "LANG", "LC_ALL", "TZ", "TMPDIR"}

// session is one process from its start to its end, and the streams to it.
type session struct {
	process   *process
	client    *goplugin.Client
	conn      *grpc.ClientConn // client's
	api       policyv1.PolicyServiceClient
	wants     wants
	decisions *decisions   // nil: decides nothing
	observed  *observation // nil: observes nothing

	ctx     context.Context // of all calls
	cancel  context.CancelFunc
	workers sync.WaitGroup
	once    sync.Once
	ended   chan struct{}
	cause   error // why, once ended is closed
}

// launch starts a process on this thread and makes it healthy, or says why that cannot be, and leaves nothing behind.
func (p *Plugin) launch(ctx context.Context) (*session, error) {
	p.counts.starts.Add(1)
	var mistakes []error
	for _, m := range p.spec.Check() {
		mistakes = append(mistakes, m)
	}
	if err := errors.Join(mistakes...); err != nil {
		return nil, err
	}
	s, err := p.newSession()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.spec.StartTimeout, fmt.Errorf("not healthy within %v: killed", p.spec.StartTimeout))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { s.process.Kill(ctx) })
	defer stop()
	if err := s.start(ctx, &p.spec); err != nil {
		s.waitForLastWords()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		} else if complaint := s.process.complaint(); complaint != nil {
			err = complaint
		}
		s.stop()
		return nil, err
	}
	return s, nil
}

func (p *Plugin) newSession() (*session, error) {
	tls, public, err := certificate()
	if err != nil {
		return nil, err
	}
	s := &session{ended: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	out := newOutput(p.log)
	env := append(environment(p.spec.Env), "PLUGIN_CLIENT_CERT="+string(public))
	s.process = newProcess(&p.spec, env, out)
	s.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion: wire.ProtocolVersion, MagicCookieKey: wire.CookieKey, MagicCookieValue: wire.CookieValue,
		},
		Plugins:          goplugin.PluginSet{},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		StartTimeout:     p.spec.StartTimeout,
		TLSConfig:        tls,
		SkipHostEnv:      true,
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: p.sockets.dir},
		SyncStdout:       out, SyncStderr: out,
		Logger: chatter(p.log),
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(wire.DefaultMessage)),
			grpc.WithInitialWindowSize(wire.StreamWindow), grpc.WithInitialConnWindowSize(wire.ConnWindow),
		},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, _ string) (runner.Runner, error) {
			s.process.cmd.Env = append(s.process.cmd.Env, cmd.Env...)
			return s.process, nil
		},
	})
	return s, nil
}

func environment(more []string) (env []string) {
	for _, name := range append(passed[:len(passed):len(passed)], more...) {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// start starts the process and asks it all that is asked once.
func (s *session) start(ctx context.Context, spec *Spec) error {
	rpc, err := s.client.Client()
	if err != nil {
		return err
	}
	g, ok := rpc.(*goplugin.GRPCClient)
	if !ok {
		return errors.New("it does not speak gRPC")
	}
	s.conn, s.api = g.Conn, policyv1.NewPolicyServiceClient(g.Conn)
	if err := s.health(ctx); err != nil {
		return fmt.Errorf("its health: %w", err)
	}
	m, err := s.api.Configure(ctx, &policyv1.ConfigureRequest{Name: spec.Name, Config: spec.Config, HostVersion: spec.HostVersion})
	if err != nil {
		return fmt.Errorf("it refuses its configuration: %.1024s", printable(status.Convert(err).Message()))
	}
	s.wants, err = readWants(m)
	return err
}

func readWants(m *policyv1.ConfigureResponse) (w wants, err error) {
	w = wants{name: m.GetName(), decides: m.GetDecides(), observes: m.GetObserves(), frame: m.GetNeedsFrame(),
		records: m.GetNeedsRecords(), maps: m.GetMapsEndpoints(), message: int(m.GetMaxMessageBytes())}
	if b := m.GetBudget(); b != nil {
		w.budget = b.AsDuration()
	}
	switch {
	case !w.decides && !w.observes && !w.maps:
		return w, errors.New("it neither decides nor observes nor maps endpoints")
	case w.budget < 0 || w.budget > maxBudget:
		return w, fmt.Errorf("its budget for a decision is %v", w.budget)
	case w.message < 0:
		return w, fmt.Errorf("its messages have at most %d bytes", w.message)
	case w.message == 0:
		w.message = wire.DefaultMessage
	}
	w.message = min(w.message, wire.LargestMessage)
	return w, nil
}

// health asks go-plugin's health service.
func (s *session) health(ctx context.Context) error {
	m, err := grpc_health_v1.NewHealthClient(s.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: wire.HealthService})
	if err == nil && m.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		err = fmt.Errorf("%v", m.GetStatus())
	}
	return err
}

// serve opens the streams. The session ends with the first of them, or with the process.
func (s *session) serve(p *Plugin) {
	s.workers.Go(func() {
		<-s.process.done
		s.fail(s.process.complaint())
	})
	s.workers.Go(func() { s.watchHealth(p.spec.healthEvery) })
	if s.wants.decides {
		stream, err := s.api.Decide(s.ctx)
		if err != nil {
			s.fail(err)
			return
		}
		s.decisions = newDecisions(s, stream, &p.counts)
		s.workers.Go(s.decisions.send)
		s.workers.Go(func() { s.fail(s.decisions.receive(p.warnUnknown)) })
	}
	if s.wants.observes {
		stream, err := s.api.Observe(s.ctx)
		if err != nil {
			s.fail(err)
			return
		}
		s.observed = &observation{
			outcomes: p.outcomes, stream: stream, ended: s.ended, closing: p.closing, wants: s.wants,
			topicName: p.spec.TopicName, batch: &policyv1.ObserveRequest{},
		}
		sent := make(chan struct{})
		s.workers.Go(func() { defer close(sent); s.observed.send() })
		s.workers.Go(func() {
			s.fail(s.observed.receive())
			<-sent
			s.observed.settle()
		})
	}
}

// watchHealth ends a session whose process lives and does not answer.
func (s *session) watchHealth(every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for missed := 0; ; {
		select {
		case <-t.C:
		case <-s.ended:
			return
		}
		ctx, cancel := context.WithTimeout(s.ctx, every)
		err := s.health(ctx)
		cancel()
		if missed++; err == nil {
			missed = 0
		}
		if missed == 2 {
			s.fail(fmt.Errorf("it does not answer health checks: %w", err))
		}
	}
}

// fail ends the session; the first one says why.
func (s *session) fail(cause error) {
	s.once.Do(func() {
		s.cause = cause
		close(s.ended)
	})
}

// waitForLastWords gives a process that is about to end the time to do so: then it says why better than its connection can.
func (s *session) waitForLastWords() {
	if !s.process.running() {
		return
	}
	select {
	case <-s.process.done:
	case <-time.After(lastWords):
	}
}

// finish lets the plugin take the outcomes that are queued, and end by itself. The plugin is closing.
func (s *session) finish() {
	deadline := time.NewTimer(grace)
	defer deadline.Stop()
	if s.observed != nil {
		select {
		case <-s.ended: // all was taken, or the process is gone
		case <-deadline.C:
		}
	}
	s.process.hangUp()
	select {
	case <-s.process.done:
	case <-time.After(grace):
	}
}

// stop ends what is left of the session, and returns when nothing is.
func (s *session) stop() {
	s.fail(errors.New("stopped"))
	s.cancel()
	s.process.Kill(context.Background())
	if s.process.running() {
		<-s.process.done
	}
	s.client.Kill() // of what go-plugin holds; the process is gone
	s.workers.Wait()
}
