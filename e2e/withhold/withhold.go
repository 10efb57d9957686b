// Package withhold shows that a policy may withhold any acknowledgement: share consumers of three libraries go on, no session is reset, what
// was withheld is delivered again, and the audit log says what happened.
package withhold

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ackproxy/ackproxy/e2e/client"
	"github.com/ackproxy/ackproxy/e2e/inprocess"
	"github.com/ackproxy/ackproxy/e2e/kafka"
	"github.com/ackproxy/ackproxy/e2e/tap"
	"github.com/ackproxy/ackproxy/policy"
)

// Options say how it is run.
type Options struct {
	Cluster  *kafka.Cluster
	Name     string        // of the topic, and the beginning of the groups' names
	Dir      string        // for files
	Time     time.Duration // how long acknowledgements are withheld; what was withheld last is waited for
	Stay     time.Duration // how long a member stays before it leaves and another one comes
	Seed     uint64
	Progress io.Writer // nil: none is shown
}

// Result is what was counted.
type Result struct {
	Requests    int // that carried acknowledgements
	Withheld    int // acknowledgements of single records that were withheld
	Resets      int // answers of the broker's that reset a session, 122 and 123
	Redelivered int // of Withheld: the record was delivered again
	Otherwise   int // of Withheld: the client asked again, and the broker accepted it
	Mismatches  int
	Wrong       []string // the first of them
	Detail      string
}

// String is the result in one line.
func (r *Result) String() string {
	return fmt.Sprintf("requests=%d withheld=%d resets=%d redelivered=%d mismatches=%d", r.Requests, r.Withheld, r.Resets, r.Redelivered, r.Mismatches)
}

// OK says whether all is as it must be, and something happened at all.
func (r *Result) OK() bool {
	return r.Mismatches == 0 && r.Resets == 0 && r.Withheld > 0 && r.Requests > 0 && r.Withheld == r.Redelivered+r.Otherwise
}

const (
	partitions = 3
	every      = 100 * time.Millisecond // ten records come into each partition
	patience   = 2 * time.Minute        // for the records that are left
)

// settings of the groups: the shortest lock that leaves clients time, and as many deliveries as a broker allows.
var settings = map[string]string{"share.record.lock.duration.ms": "2000", "share.delivery.count.limit": "10"}

// run is a run's parts.
type run struct {
	Options
	book   *book
	policy *atRandom
	proxy  *inprocess.Proxy
	taps   []*tap.Tap
	slots  []*slot
}

// Run does it. An error is one of the test's own; what the proxy did wrong is in the result.
func Run(ctx context.Context, o Options) (*Result, error) {
	r := &run{Options: o, book: newBook()}
	r.policy = newAtRandom(o.Seed, r.book)
	err := r.prepare(ctx)
	if err == nil {
		err = r.load(ctx)
	}
	if err = errors.Join(err, r.end()); err != nil {
		return nil, err
	}
	r.book.missing()
	var clients []*client.Client
	for _, s := range r.slots {
		clients = append(clients, s.were...)
	}
	if err := r.book.check(r.proxy.Audit, clients); err != nil {
		return nil, err
	}
	return r.result(len(clients)), nil
}

func (r *run) result(clients int) *Result {
	b := r.book
	return &Result{Requests: len(b.decisions), Withheld: b.withheld, Resets: b.resets, Redelivered: b.again, Otherwise: b.otherwise,
		Mismatches: b.wrongs, Wrong: b.wrong, Detail: fmt.Sprintf("%d clients settled %d records; of %d requests that closed a session something was withheld; "+
			"delivered again were %v, of closed sessions %v; of the others %d were asked again and accepted",
			clients, len(b.settled), b.closes, &b.slow, &b.atOnce, b.otherwise)}
}

// prepare makes topic and groups, and starts the proxy between two brokers' sides.
func (r *run) prepare(ctx context.Context) error {
	if _, err := r.Cluster.CreateTopic(ctx, r.Name, partitions); err != nil {
		return err
	}
	var upstream []string
	for _, n := range r.Cluster.Nodes {
		t, err := tap.Listen(n.Relayed(), n.RelayTarget(), nil, r.book.saw)
		if err != nil {
			return err
		}
		r.taps, upstream = append(r.taps, t), append(upstream, n.Relayed())
	}
	chain, err := policy.NewChain(policy.Member{Policy: r.policy})
	if err != nil {
		return err
	}
	if r.proxy, err = inprocess.Start(upstream, r.Dir, chain); err != nil {
		return err
	}
	for i, kind := range client.Kinds {
		s := &slot{run: r, kind: kind, number: i, group: r.Name + "-" + string(kind)}
		if err := r.Cluster.ShareGroup(ctx, s.group, settings); err != nil {
			return err
		}
		r.slots = append(r.slots, s)
	}
	return nil
}

// load has clients consume what is produced, until the time is over and every record is settled.
func (r *run) load(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over, last := make(chan struct{}), make(chan struct{})
	var work, members sync.WaitGroup
	do := func(in *sync.WaitGroup, f func() error) {
		in.Go(func() {
			if err := f(); err != nil {
				cancel(err)
			}
		})
	}
	do(&work, func() error { return r.produce(ctx, over) })
	for _, s := range r.slots {
		do(&members, func() error { return s.work(ctx, over, last) })
	}
	err := r.wait(ctx)
	r.policy.stop()
	close(over)
	work.Wait()
	if err == nil {
		err = r.drain(ctx)
	}
	close(last)
	members.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (r *run) produce(ctx context.Context, over <-chan struct{}) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := r.Cluster.Produce(ctx, r.Name, partitions, 10); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-over:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// wait lets time pass, and shows what happened so far.
func (r *run) wait(ctx context.Context) error {
	end := time.NewTimer(r.Time)
	defer end.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for start := time.Now(); ; {
		select {
		case <-end.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			if r.Progress != nil {
				r.book.mu.Lock()
				fmt.Fprintf(r.Progress, "\r%v of %v: %d requests, %d acknowledgements withheld, %d resets, %d mismatches ", time.Since(start).Round(time.Second), r.Time,
					len(r.book.decisions), r.book.withheld, r.book.resets, r.book.wrongs)
				r.book.mu.Unlock()
			}
		}
	}
}

// drain waits until nothing that was withheld waits for its delivery, and the broker has no record that is not settled. What is still
// missing when patience ends is a mismatch, no error.
func (r *run) drain(ctx context.Context) error {
	if r.Progress != nil {
		fmt.Fprintln(r.Progress)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := kafka.Until(ctx, "all records to be settled", func(ctx context.Context) bool {
		if r.book.open() > 0 {
			return false
		}
		for _, s := range r.slots {
			if lag, err := r.Cluster.ShareLag(ctx, s.group, r.Name, partitions); err != nil || lag > 0 {
				return false
			}
		}
		return true
	})
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		r.book.mu.Lock()
		defer r.book.mu.Unlock()
		r.book.mismatch("%v", err)
		return nil
	}
	return err
}

// end stops what runs, in the order of its dependence.
func (r *run) end() error {
	var errs []error
	if r.proxy != nil {
		errs = append(errs, r.proxy.Stop())
	}
	for _, t := range r.taps {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}
