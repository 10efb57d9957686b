package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackproxy/ackproxy/codec"
)

// Member is a policy in a chain, and what is done when it fails.
type Member struct {
	Policy    Policy
	OnFailure FailureMode
	Timeout   time.Duration // for a decision of a policy that waits; 0 stands for its budget, else DefaultBudget
}

// Chain asks policies about requests, one after the other. Many connections may use it at once.
type Chain struct {
	members []*member
	waits   bool
	records bool

	transactions bool // a member decides about their ends
}

// NewChain makes a chain of policies that are asked in this order. It reports all that is wrong with them at once.
func NewChain(members ...Member) (*Chain, error) {
	c := &Chain{}
	names := make(map[string]bool, len(members))
	var mistakes []error
	for i, m := range members {
		made, err := newMember(m)
		switch {
		case err != nil:
			mistakes = append(mistakes, fmt.Errorf("policy %d: %w", i, err))
			continue
		case names[made.name]:
			mistakes = append(mistakes, fmt.Errorf("policy %d: the name %q is taken", i, made.name))
		}
		names[made.name] = true
		c.members = append(c.members, made)
		c.waits, c.records = c.waits || made.waits, c.records || made.records
		c.transactions = c.transactions || made.ends != nil
	}
	if len(mistakes) > 0 {
		return nil, errors.Join(mistakes...)
	}
	return c, nil
}

// Waits says whether Decide may block, because a policy of the chain does. Otherwise it takes no longer than the policies compute.
func (c *Chain) Waits() bool { return c.waits }

// Records says whether a policy of the chain looks at records, so that they have to be kept.
func (c *Chain) Records() bool { return c.records }

// Failures calls each with the policies' names and what may be done when they fail: with respond it may be close, too, for a request that cannot be read.
// A nil Chain has none.
func (c *Chain) Failures(each func(policy string, done FailureMode)) {
	if c == nil {
		return
	}
	for _, m := range c.members {
		each(m.name, m.onFailure)
		if m.onFailure == FailRespond {
			each(m.name, FailClose)
		}
	}
}

// Decide asks the policies about a request and says what they made of it. It returns by the sum of the members' timeouts, or soon after the
// context ended, whatever the policies that wait do; one that declares not to wait is trusted with that.
//
// Topic names come from topicName, which may be nil. The request, its frame included, is the caller's again when Decide returns: a
// policy that waits gets a copy of its own, which a call that was given up on keeps. Partitions, Records and Deliveries are in use
// meanwhile; afterwards the first two are nil, and Deliveries is as it was.
func (c *Chain) Decide(ctx context.Context, r *Request, topicName func(codec.UUID) (string, bool)) *Decision {
	d := &Decision{Trail: make([]Step, 0, len(c.members))}
	partitions, unreadable := Asked(r)
	d.Partitions = partitions
	if topicName != nil {
		name(partitions, topicName)
	}
	a := asking{request: r, decision: d, unreadable: unreadable, deliveries: r.Deliveries}
	r.Deliveries = nil
	a.seen = seenOf(a.deliveries, partitions)
	defer a.end()
	for _, m := range c.members {
		if ctx.Err() != nil {
			d.Gone, d.Close, d.CloseAfter = true, CloseBefore, 0
			break
		}
		a.ask(ctx, m)
		if d.Close == CloseBefore {
			break
		}
	}
	return d
}

// name looks up the names of topics, of each run of partitions of one topic once.
func name(partitions []Decided, topicName func(codec.UUID) (string, bool)) {
	for i := range partitions {
		if i > 0 && partitions[i].TopicID == partitions[i-1].TopicID {
			partitions[i].Topic = partitions[i-1].Topic
			continue
		}
		partitions[i].Topic, _ = topicName(partitions[i].TopicID)
	}
}

// asking is one call of Decide.
type asking struct {
	request    *Request
	decision   *Decision
	unreadable error    // what keeps the acknowledgements from being shown to policies
	view       *view    // what the policies that do not wait are shown
	stale      bool     // edits came after view was filled
	detached   *Request // the copy for policies that wait, once there was one
	deliveries Deliveries
	seen       [][]Acquisition // of each partition of decision; nil where nothing was seen
}

// ask has one policy decide, and adds what it says.
func (a *asking) ask(ctx context.Context, m *member) {
	d, step := a.decision, Step{Policy: m.name}
	v, err := Verdict{}, a.unreadable
	if err == nil {
		start := time.Now()
		v, err = a.call(ctx, m)
		step.Took = time.Since(start)
	}
	if err == nil {
		if err = d.fold(m.name, a.request, &v); err != nil {
			err = fmt.Errorf("invalid verdict: %w", err)
		}
		a.stale = a.stale || len(v.Edits) > 0
	}
	step.Reason, step.Err = v.Reason, err
	if err != nil {
		step.Failed = a.failed(ctx, m)
	}
	d.Trail = append(d.Trail, step)
}

// call lets the policy see the request as those before it left it.
func (a *asking) call(ctx context.Context, m *member) (Verdict, error) {
	if m.waits {
		if a.detached == nil {
			a.detached = detach(a.request)
		}
		own := *a.detached
		own.Partitions, own.Records = new(view).fill(a.decision.Partitions, a.seen), a.records(m)
		return m.wait(ctx, func(ctx context.Context) (Verdict, error) { return m.decide(ctx, &own) })
	}
	if a.view == nil || a.stale {
		if a.view == nil {
			a.view = views.Get().(*view)
		}
		a.request.Partitions, a.stale = a.view.fill(a.decision.Partitions, a.seen), false
	}
	a.request.Records = a.records(m)
	return m.decide(ctx, a.request)
}

// records are what a policy may look at.
func (a *asking) records(m *member) Records {
	if !m.records || a.deliveries == nil {
		return nil
	}
	return a.deliveries
}

// seenOf looks up what was seen of the deliveries of partitions.
func seenOf(deliveries Deliveries, partitions []Decided) [][]Acquisition {
	if deliveries == nil {
		return nil
	}
	var seen [][]Acquisition
	for i := range partitions {
		p := &partitions[i]
		if len(p.Pieces) == 0 {
			continue
		}
		found := deliveries.Acquired(nil, p.TopicID, p.Index, p.Pieces[0].First, p.Pieces[len(p.Pieces)-1].Last)
		if len(found) > 0 && seen == nil {
			seen = make([][]Acquisition, len(partitions))
		}
		if len(found) > 0 {
			seen[i] = found
		}
	}
	return seen
}

// failed does what the policy's failure mode says, and returns what was done.
func (a *asking) failed(ctx context.Context, m *member) FailureMode {
	d := a.decision
	switch {
	case ctx.Err() != nil: // the client failed, not the policy
		d.Gone, d.Close, d.CloseAfter = true, CloseBefore, 0
		return FailClose
	case m.onFailure == FailForward:
		return FailForward
	case m.onFailure == FailRespond && a.unreadable == nil:
		d.withholdRest(m.name)
		a.stale = true
		return FailRespond
	}
	d.Close, d.CloseAfter = CloseBefore, 0 // also where there is nothing to withhold by name
	return FailClose
}

// end gives back what was borrowed.
func (a *asking) end() {
	a.request.Partitions, a.request.Records, a.request.Deliveries = nil, nil, a.deliveries
	if a.view != nil {
		a.view.release()
	}
}

// withholdRest withholds all that nobody withheld yet.
func (d *Decision) withholdRest(policy string) {
	for i := range d.Partitions {
		pieces := d.Partitions[i].Pieces
		for j := range pieces {
			if p := &pieces[j]; !p.Withheld {
				p.Withheld, p.ErrorCode, p.Policy, p.Reason = true, codeKafkaStorageError, policy, "the policy failed"
			}
		}
		d.Partitions[i].Pieces = coalesce(pieces)
	}
}
