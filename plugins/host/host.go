package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/ackproxy/ackproxy/plugins/internal/wire"
	"github.com/ackproxy/ackproxy/policy"
)

// The errors that a decision may end with, beside those of its context and of the plugin itself.
var (
	ErrDown     = errors.New("the plugin is not running")
	ErrTooLarge = wire.ErrTooLarge
)

// Plugin is a policy in a process of its own, and whatever it takes to keep one running.
type Plugin struct {
	spec    Spec
	log     zerolog.Logger
	sockets *sockets // removed at the end
	traits  policy.Traits
	wants   wants

	session  atomic.Pointer[session] // nil while no process is healthy
	outcomes *outcomes
	counts   counts

	closing chan struct{} // closed by Close
	once    sync.Once
	stopped chan struct{} // closed when supervise is done

	mu    sync.Mutex
	state state
}

var (
	_ policy.Policy   = (*Plugin)(nil)
	_ policy.Observer = (*Plugin)(nil)
)

// Start checks s, starts the plugin's process, and returns once it is healthy. From then on the process is kept running until Close. An error,
// or the end of ctx, leaves nothing behind.
func Start(ctx context.Context, s Spec, log zerolog.Logger) (*Plugin, error) {
	s.fill()
	if err := supported(); err != nil {
		return nil, err
	}
	sockets, err := newSockets(s.socketDir())
	if err != nil {
		return nil, fmt.Errorf("plugin %s: a folder for its socket: %w", s.Name, err)
	}
	p := &Plugin{
		spec: s, log: log.With().Str("plugin", s.Name).Logger(), sockets: sockets,
		outcomes: newOutcomes(), closing: make(chan struct{}), stopped: make(chan struct{}),
	}
	first := make(chan error, 1)
	go p.supervise(first)
	select {
	case err = <-first:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("plugin %s: %w", s.Name, err), p.Close())
	}
	return p, nil
}

// Name is that of the Spec.
func (p *Plugin) Name() string { return p.spec.Name }

// Traits say that a plugin waits, and its own budget.
func (p *Plugin) Traits() policy.Traits { return p.traits }

// Declared is what a plugin said of itself when it was configured.
type Declared struct {
	Program    string        // its own name, fit to be printed
	NeedsFrame bool          // it is shown whole requests
	Records    bool          // it asks for records that were delivered
	Budget     time.Duration // for a decision; policy.DefaultBudget where it named none
}

// Declared returns what the plugin said.
func (p *Plugin) Declared() Declared {
	return Declared{Program: printable(p.wants.name), NeedsFrame: p.wants.frame, Records: p.wants.records, Budget: cmp.Or(p.wants.budget, policy.DefaultBudget)}
}

// Decides says whether the plugin decides; where it does not, it belongs among the observers only.
func (p *Plugin) Decides() bool { return p.wants.decides }

// Observes says whether the plugin wants outcomes.
func (p *Plugin) Observes() bool { return p.wants.observes }

// Decide asks the plugin. It returns when ctx ends, whatever the plugin does; a ctx without a deadline gets the plugin's budget.
func (p *Plugin) Decide(ctx context.Context, r *policy.Request) (policy.Verdict, error) {
	if !p.wants.decides {
		return policy.Verdict{}, nil
	}
	s := p.session.Load()
	if s == nil || s.decisions == nil {
		return policy.Verdict{}, p.down()
	}
	ctx, cancel := p.limit(ctx)
	defer cancel()
	m, err := wire.FromRequest(r, p.wants.frame)
	if err != nil {
		return policy.Verdict{}, err
	}
	return s.decisions.ask(ctx, m, r)
}

// limit gives a context without a deadline the plugin's budget.
func (p *Plugin) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, cmp.Or(p.traits.Budget, policy.DefaultBudget))
}

// Observe queues an outcome, and drops it where the queue is full.
func (p *Plugin) Observe(o *policy.Outcome) {
	if p.wants.observes {
		p.outcomes.add(o)
	}
}

// Close shows the plugin the outcomes that are queued, asks its process to end, and kills it if it does not: within about five seconds. It
// returns when the process is gone.
func (p *Plugin) Close() error {
	p.once.Do(func() { close(p.closing) })
	<-p.stopped
	return p.sockets.remove()
}

// Stats are counts since Start.
type Stats struct {
	Starts, FailedStarts uint64 // of the process; a failed one never became healthy
	Answered             uint64 // decisions that came in time
	Late                 uint64 // answers to a question that nobody asks any longer, second ones among them
	Unknown              uint64 // answers to a question that nobody asked
	Observed             uint64 // outcomes that the plugin took
	Dropped              uint64 // outcomes that it was not shown: the queue was full, or the process ended
	Queued               int    // outcomes that wait
}

// counts are the parts of Stats that are counted in several places.
type counts struct {
	starts, failed, answered, late, unknown atomic.Uint64
}

// Stats returns the counts.
func (p *Plugin) Stats() Stats {
	return Stats{
		Starts: p.counts.starts.Load(), FailedStarts: p.counts.failed.Load(),
		Answered: p.counts.answered.Load(), Late: p.counts.late.Load(), Unknown: p.counts.unknown.Load(),
		Observed: p.outcomes.taken.Load(), Dropped: p.outcomes.dropped.Load(), Queued: len(p.outcomes.queue),
	}
}

// wants is what a plugin said of itself; it is not asked again.
type wants struct {
	name                     string
	decides, observes, frame bool
	records                  bool
	maps                     bool // endpoints
	budget                   time.Duration
	message                  int // bytes
}
