package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
)

// maxLate is how many calls of a policy may go on after they were given up on. A policy that does not heed its context would otherwise pile
// up goroutines, each with a copy of a request.
const maxLate = 64

var errNoAnswer = errors.New("the policy ended its goroutine without an answer")

// member is a Member as the chain uses it.
type member struct {
	policy    Policy
	name      string
	waits     bool
	prompt    bool // and needs nobody to give up on it
	records   bool
	ends      TransactionPolicy // nil: it does not decide about the ends of transactions
	onFailure FailureMode
	timeout   time.Duration
	late      atomic.Int32 // calls that go on after their deadline
}

func newMember(m Member) (*member, error) {
	if m.Policy == nil {
		return nil, errors.New("there is none")
	}
	name, traits := m.Policy.Name(), m.Policy.Traits()
	switch {
	case name == "":
		return nil, errors.New("the name is empty")
	case m.OnFailure > FailClose:
		return nil, fmt.Errorf("%q: failure mode %d is not known", name, m.OnFailure)
	case m.Timeout < 0 || traits.Budget < 0:
		return nil, fmt.Errorf("%q: a negative time for decisions", name)
	}
	made := &member{policy: m.Policy, name: name, waits: traits.Waits, prompt: traits.Prompt, records: traits.Records, onFailure: m.OnFailure,
		timeout: cmp.Or(m.Timeout, traits.Budget, DefaultBudget)}
	if traits.Transactions {
		var is bool
		if made.ends, is = m.Policy.(TransactionPolicy); !is {
			return nil, fmt.Errorf("%q: %w", name, errNoTransactions)
		}
	}
	return made, nil
}

// decide calls the policy. A panic is an error of the policy.
func (m *member) decide(ctx context.Context, r *Request) (v Verdict, err error) {
	defer recovered(&v, &err)
	return m.policy.Decide(ctx, r)
}

// recovered is deferred by what calls a policy.
func recovered(v *Verdict, err *error) {
	if p := recover(); p != nil {
		*v, *err = Verdict{}, fmt.Errorf("panic: %v (%s)", p, panicked())
	}
}

// answer is what a call comes to.
type answer struct {
	verdict Verdict
	err     error
}

// wait calls the policy, and gives up on it at the deadline or when ctx ends.
func (m *member) wait(ctx context.Context, call func(context.Context) (Verdict, error)) (Verdict, error) {
	limited, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	var a answer
	if m.prompt {
		a.verdict, a.err = call(limited)
	} else {
		a = m.apart(limited, call)
	}
	switch {
	case a.err == nil || limited.Err() == nil:
		return a.verdict, a.err
	case ctx.Err() != nil:
		return Verdict{}, fmt.Errorf("the request was given up: %w", ctx.Err())
	}
	return Verdict{}, fmt.Errorf("no answer within %v: %w", m.timeout, context.DeadlineExceeded)
}

// apart calls the policy in a goroutine of its own, and leaves that behind when ctx ends. It then goes on until the policy returns; it holds what it
// is asked about, which nobody else may change, and touches nothing else. What it says is dropped.
func (m *member) apart(ctx context.Context, call func(context.Context) (Verdict, error)) answer {
	if m.late.Load() >= maxLate {
		return answer{err: fmt.Errorf("%d calls go on after their deadline", maxLate)}
	}
	answers := make(chan answer, 1)
	var over atomic.Bool // set by the first of the two that is done with the call
	go func() {
		a := answer{err: errNoAnswer}
		defer func() { // also when the policy calls runtime.Goexit
			answers <- a
			if over.Swap(true) {
				m.late.Add(-1)
			}
		}()
		a.verdict, a.err = call(ctx)
	}()
	select {
	case a := <-answers:
		return a
	case <-ctx.Done():
		m.late.Add(1)
		if over.Swap(true) {
			m.late.Add(-1)
		}
		return answer{err: ctx.Err()}
	}
}

// panicked names the innermost functions of a panic that is being recovered.
func panicked() string {
	const depth = 4
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])]) // past Callers, panicked and the deferred function
	var names []string
	for more := true; more && len(names) < depth; {
		var f runtime.Frame
		f, more = frames.Next()
		if f.Function != "" && !strings.HasPrefix(f.Function, "runtime.") {
			names = append(names, fmt.Sprintf("%s %s:%d", path.Base(f.Function), path.Base(f.File), f.Line))
		}
	}
	return strings.Join(names, " < ")
}
