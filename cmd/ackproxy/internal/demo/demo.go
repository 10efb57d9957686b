package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Limits of Options.
const (
	MaxMembers = 32
	MaxBrokers = 16
)

// Options say how the demo goes.
type Options struct {
	Records int64 // to produce; 0 is no end, for which Once must be false
	Members int   // 1 to MaxMembers
	Brokers int   // 1 to MaxBrokers
	Once    bool  // end when every record is settled; otherwise produce at Rate and go on until stopped
	Rate    int64 // records a second where Once is false
	Seed    uint64
	Version string  // of the proxy, for its audit
	Screen  *Screen // drawn on while it goes on; nil draws nothing

	// Between stands between the audit and the comparison, where it is not nil: it gets the audit's lines and writes them on. Tests put faults there.
	Between func(comparison io.Writer) io.Writer
	started func(*stage) // tests use it; nil otherwise
}

// demo is one run.
type demo struct {
	Options
	began    time.Time
	stage    *stage
	tally    *tally
	notes    notes
	admin    *kadm.Client
	producer *producer
	members  []*member
	work     sync.WaitGroup // the members' loops
	leave    context.CancelFunc
	history  history // of the screen
}

// Run runs the demo until it is over or stop is closed: then no more records are made, and those that are there are settled. When ctx ends the
// members leave at once, and what they hold is released. Where the report says that it was played, the Result holds even when there is an error,
// which says why the demo did not go to its end.
func Run(ctx context.Context, stop <-chan struct{}, o Options) (Result, Report, error) {
	d := &demo{Options: o, began: time.Now(), tally: newTally(), notes: notes{seen: map[string]bool{}}}
	if err := d.start(ctx); err != nil {
		return Result{}, d.report(), errors.Join(err, d.end())
	}
	err := errors.Join(d.play(ctx, stop), d.end())
	r := d.tally.result()
	r.Records, r.Escapes = d.producer.produced.Load(), d.stage.lookout.escapes()
	r.judge()
	report := d.report()
	report.Played = true
	return r, report, err
}

// lines is where the audit writes.
func (d *demo) lines() io.Writer {
	if d.Between != nil {
		return d.Between(d.tally)
	}
	return d.tally
}

// topics have a partition on every broker, which one member has to itself where there are enough; and fewer than members where there can be, so that
// members share them, and a record that one releases may go to another.
func (d *demo) topics() []topic {
	return []topic{{"orders", int32(d.Brokers)}, {"refunds", int32(max(1, min(d.Brokers, d.Members-1)))}}
}

// start sets the stage and waits until all members have joined the group and agree about its assignment.
func (d *demo) start(ctx context.Context) error {
	var err error
	if d.stage, err = newStage(d.Brokers, d.Version, d.lines(), &d.notes); err != nil {
		return err
	}
	d.leave = func() {}
	if d.started != nil {
		d.started(d.stage)
	}
	cl, err := d.stage.client("demo-producer", kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	d.admin = kadm.NewClient(cl)
	d.producer = &producer{cl: cl, topics: d.topics(), limit: d.Records, ends: map[string]map[int32]int64{},
		settled: func() int64 { settled, _ := d.tally.finished(); return settled }}
	if !d.Once {
		d.producer.rate = d.Rate
	}
	if err := d.stage.createTopics(ctx, d.admin, d.topics()); err != nil {
		return err
	}
	running, leave := context.WithCancel(ctx)
	d.leave = leave
	for i := range d.Members {
		m, err := newMember(d.stage, fmt.Sprintf("member-%d", i+1), i, pattern{d.Seed}, d.tally, d.notes.add)
		if err != nil {
			return err
		}
		d.members = append(d.members, m)
		d.work.Go(func() { m.run(running) })
	}
	return d.join(ctx)
}

// join waits until the broker shows all members with the latest assignment, and tells the tally their ids.
func (d *demo) join(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		described, err := d.admin.DescribeShareGroups(ctx, group)
		g := described[group]
		ids := map[string]string{}
		for _, m := range g.Members {
			if m.MemberEpoch == g.GroupEpoch {
				ids[m.MemberID] = m.ClientID
			}
		}
		if len(ids) == len(d.members) {
			d.tally.enrol(ids)
			return nil
		}
		if !sleep(ctx, 20*time.Millisecond) {
			return fmt.Errorf("members did not join: %w", errors.Join(context.Cause(ctx), err, g.Err))
		}
	}
}

// end takes the members out, then closes all the rest. Afterwards both sides of the tally are complete.
func (d *demo) end() error {
	if d.stage == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	d.leave()
	d.work.Wait()
	var closing sync.WaitGroup
	for _, m := range d.members {
		closing.Go(func() { m.close(ctx) })
	}
	closing.Wait()
	if d.admin != nil {
		d.admin.Close() // and with it the producer's client
	}
	return d.stage.close()
}

// sleep waits, and says whether ctx still goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// notes keeps what went wrong on the way, each thing once. It takes the proxy's log as well.
type notes struct {
	mu   sync.Mutex
	list []string
	seen map[string]bool
}

// maxNotes bounds the list.
const maxNotes = 20

func (n *notes) add(s string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.list) < maxNotes && !n.seen[s] {
		n.seen[s] = true
		n.list = append(n.list, s)
	}
}

// Write takes a line of the proxy's log.
func (n *notes) Write(line []byte) (int, error) {
	n.add("proxy: " + strings.TrimSpace(string(line)))
	return len(line), nil
}
