package host

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ackproxy/ackproxy/policy"
)

const (
	breakAfter = 5           // starts in a row
	wellAfter  = time.Minute // of health
)

// state is what supervise is at, for those who ask while no process is healthy.
type state struct {
	why    error     // of the last end, or failed start
	next   time.Time // of the next start; zero while one is under way
	broken bool      // starts have failed so often that the next is long in coming
}

// supervise starts the process, and starts it again when it has ended, until the plugin is closed. first hears how the first start went; if it
// failed, that is all.
//
// It keeps a thread to itself: on Linux a process dies with the thread that started it, and with the host that way.
func (p *Plugin) supervise(first chan<- error) {
	runtime.LockOSThread() // and not unlocked: the thread ends with this goroutine
	defer close(p.stopped)
	defer p.outcomes.drop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // ends with supervise, at the latest
		select {
		case <-p.closing:
			cancel()
		case <-ctx.Done():
		}
	}()

	s, err := p.launch(ctx)
	if err == nil {
		p.wants, p.traits = s.wants, policy.Traits{Waits: true, Prompt: true, Budget: s.wants.budget, Records: s.wants.records}
		p.open(s)
	}
	if first <- err; err != nil {
		return
	}
	r := rhythm{Backoff: p.spec.Backoff}
	for {
		healthy := err == nil
		began := time.Now()
		if healthy {
			err = p.attend(s)
			healthy = status.Code(err) != codes.Unimplemented // it was never what it said that it was
		}
		if p.isClosing() || !p.rest(&r, healthy, time.Since(began), err) {
			return
		}
		if s, err = p.launch(ctx); err == nil {
			p.open(s)
		}
	}
}

// open makes a healthy session the one that is used.
func (p *Plugin) open(s *session) {
	p.log.Info().Str("pid", s.process.ID()).Str("program", printable(s.wants.name)).Msg("plugin runs")
	s.serve(p)
	p.session.Store(s)
}

// attend waits for the end of a session. It returns why it ended, once nothing is left of it.
func (p *Plugin) attend(s *session) error {
	select {
	case <-s.ended:
		p.session.Store(nil)
		s.waitForLastWords()
	case <-p.closing:
		p.session.Store(nil)
		s.finish()
	}
	complaint := s.process.complaint()
	s.stop()
	if complaint != nil {
		return complaint
	}
	return s.cause
}

// rest waits for the next start; false when the plugin is closed meanwhile.
func (p *Plugin) rest(r *rhythm, healthy bool, lived time.Duration, why error) bool {
	if !healthy {
		p.counts.failed.Add(1)
	}
	pause := r.next(healthy, lived)
	p.setState(state{why: why, next: time.Now().Add(pause), broken: r.broken()})
	e := p.log.Warn()
	if r.broken() {
		e = p.log.Error().Int("starts_failed", r.failed)
	}
	e.AnErr("why", why).Stringer("next_start_in", pause).Msg("plugin is down")
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		p.setState(state{why: why, broken: r.broken()})
		return true
	case <-p.closing:
		return false
	}
}

func (p *Plugin) isClosing() bool {
	select {
	case <-p.closing:
		return true
	default:
		return false
	}
}

// rhythm says when to start again.
type rhythm struct {
	Backoff
	failed int // starts in a row that never became healthy
	delay  time.Duration
}

func (r *rhythm) broken() bool { return r.failed >= breakAfter }

func (r *rhythm) next(healthy bool, lived time.Duration) time.Duration {
	r.failed++
	if healthy {
		r.failed = 0
		if lived >= wellAfter {
			r.delay = 0
		}
	}
	if r.broken() {
		return r.Break
	}
	r.delay = min(max(2*r.delay, r.Min), r.Max)
	return r.delay
}

func (p *Plugin) setState(s state) {
	p.mu.Lock()
	p.state = s
	p.mu.Unlock()
}

// Ready returns nil while the plugin's process is healthy, and else why it is not and when it is started again.
func (p *Plugin) Ready() error {
	if p.session.Load() != nil {
		return nil
	}
	return fmt.Errorf("plugin %s: %w", p.spec.Name, p.down())
}

// down says why there is no session.
func (p *Plugin) down() error {
	p.mu.Lock()
	s := p.state
	p.mu.Unlock()
	switch left := time.Until(s.next).Round(time.Millisecond); {
	case s.why == nil:
		return ErrDown
	case s.next.IsZero():
		return fmt.Errorf("%w, it is being started: %w", ErrDown, s.why)
	case s.broken:
		return fmt.Errorf("%w, it failed to start %d times or more in a row, next try in %v: %w", ErrDown, breakAfter, left, s.why)
	default:
		return fmt.Errorf("%w, next start in %v: %w", ErrDown, left, s.why)
	}
}

// warnUnknown logs answers to questions that nobody asked: the first, and then one of a thousand.
func (p *Plugin) warnUnknown(id uint64) {
	if n := p.counts.unknown.Load(); n%1000 == 1 {
		p.log.Warn().Uint64("id", id).Uint64("so_far", n).Msg("the plugin answered a question that nobody asked")
	}
}
