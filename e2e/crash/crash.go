// Package crash kills ackproxy at random moments while every record is rejected and dead-lettered, and looks for what was lost: a record
// whose Reject the broker took must be in the dead-letter topic, byte for byte.
package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/e2e/kafka"
)

const (
	source     = "orders"
	letters    = "dlq." + source
	group      = "crash"
	partitions = 3
	// limit is how often a record is delivered at most. One that no Reject reached after so many kills is the broker's to drop.
	limit = 10
	// backlog is how many records wait to be rejected at least.
	backlog = 500
	// budget is how long a letter may take before it goes to the spool.
	budget = 100 * time.Millisecond
	// longest is the latest moment of a kill, after the first dead letter of a run.
	longest = 250 * time.Millisecond
)

// Options say what is run.
type Options struct {
	Broker   Broker
	Program  string // ackproxy
	Dir      string // for its files, kept by the caller
	Runs     int
	Seed     uint64
	Progress io.Writer // may be nil
}

// Report is what came of it.
type Report struct {
	Runs       int
	Rejects    int // offsets whose Reject the broker answered with 0
	Letters    int // records in the dead-letter topic
	Unknown    int // further offsets whose Reject reached the broker, and whose answer did not come
	Lost       int // of both, and not there; or neither rejected nor delivered to the limit at the end
	Altered    int // there, with other bytes, or without the id
	Duplicates int // letters with the id of an earlier one
	Spooled    int // letters that waited in the spool over at least one end of the program
	Wrong      []string
}

// String is the report in one line.
func (r Report) String() string {
	return fmt.Sprintf("runs=%d rejects=%d dead_letters=%d lost=%d altered=%d duplicates=%d", r.Runs, r.Rejects, r.Letters, r.Lost, r.Altered, r.Duplicates)
}

// OK says whether all is as it must be.
func (r Report) OK() bool { return r.Rejects > 0 && r.Lost == 0 && r.Altered == 0 && len(r.Wrong) == 0 }

// run is one call of Run.
type run struct {
	Options
	rng    *rand.Rand
	ledger *ledger
	config string
	proxy  *proxy
}

// Run kills the program as often as it is asked to, lets it then work off what is left, and compares.
func Run(ctx context.Context, o Options) (Report, error) {
	r := &run{Options: o, rng: rand.New(rand.NewPCG(o.Seed, 0)), ledger: newLedger()}
	o.Broker.Watch(r.ledger)
	if err := o.Broker.Prepare(ctx); err != nil {
		return Report{}, err
	}
	var err error
	if r.config, err = r.configure(); err != nil {
		return Report{}, err
	}
	port, err := kafka.FreePorts(2+brokers, host)
	if err != nil {
		return Report{}, err
	}
	r.proxy = &proxy{program: o.Program, config: r.config, port: port, log: filepath.Join(o.Dir, "ackproxy.log")}
	defer r.proxy.kill()
	direct, err := kgo.NewClient(kgo.SeedBrokers(o.Broker.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return Report{}, err
	}
	defer direct.Close()
	m, err := join(r.proxy.addr())
	if err != nil {
		return Report{}, err
	}
	defer m.leave()
	p := &producer{client: direct, ledger: r.ledger, rng: rand.New(rand.NewPCG(o.Seed, 1))}
	report, err := r.crashes(ctx, p)
	if err != nil {
		return report, err
	}
	if err := r.rest(ctx, p); err != nil {
		return report, err
	}
	return report, r.ledger.compare(ctx, direct, &report)
}

// crashes starts the program and kills it, again and again.
func (r *run) crashes(ctx context.Context, p *producer) (Report, error) {
	var report Report
	for report.Runs < r.Runs {
		if err := p.fill(ctx); err != nil {
			return report, err
		}
		before := r.ledger.rejected()
		if err := r.proxy.start(ctx); err != nil {
			return report, err
		}
		if err := r.until(ctx, 60*time.Second, func() bool { return r.ledger.rejected() > before }); err != nil {
			return report, fmt.Errorf("run %d: no Reject was taken: %w\n%s", report.Runs+1, err, kafka.Tail(r.proxy.log, 20))
		}
		time.Sleep(time.Duration(r.rng.Int64N(int64(longest))))
		if err := r.proxy.kill(); err != nil {
			return report, err
		}
		if spooled, err := anySpooled(filepath.Join(r.Dir, "state")); err != nil {
			return report, err
		} else if spooled {
			report.Spooled++
		}
		report.Runs++
		if r.Progress != nil && (report.Runs%10 == 0 || report.Runs == r.Runs) {
			fmt.Fprintf(r.Progress, "%d of %d kills, %d rejected\n", report.Runs, r.Runs, r.ledger.rejected())
		}
	}
	return report, nil
}

// rest lets the program work off all that was produced, and its spool.
func (r *run) rest(ctx context.Context, p *producer) error {
	if err := r.proxy.start(ctx); err != nil {
		return err
	}
	if err := r.until(ctx, 3*time.Minute, func() bool { return r.ledger.settled() }); err != nil {
		return fmt.Errorf("%d of %d records are not settled, such as %s: %w\n%s", r.ledger.open(), p.made, r.ledger.unsettled(5), err, kafka.Tail(r.proxy.log, 20))
	}
	if err := r.until(ctx, time.Minute, func() bool {
		spooled, err := anySpooled(filepath.Join(r.Dir, "state"))
		return err == nil && !spooled
	}); err != nil {
		return fmt.Errorf("the spool is not drained: %w", err)
	}
	return r.proxy.stop()
}

// until waits for something to be so, as long as the program runs.
func (r *run) until(ctx context.Context, most time.Duration, so func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.proxy.process.Done():
			return errors.New("ackproxy ended by itself")
		case <-tick.C:
		}
	}
	return nil
}

// configure writes the program's configuration.
func (r *run) configure() (string, error) {
	path := filepath.Join(r.Dir, "ackproxy.yaml")
	text := fmt.Sprintf(`upstream: {bootstrap: [%[1]s]}
listen: {advertise: %[2]s}
state: {dir: %[3]s}
admin: {listen: none}
audit: {sinks: []}
log: {level: warn}
policies:
- name: dlq
  builtin: dlq
  on_failure: respond
  config:
    cluster: {bootstrap: [%[1]s]}
    source: {bootstrap: [%[1]s]}
    stand_down: never
    budget: %[4]s
`, list(r.Broker.Addrs()), host, filepath.Join(r.Dir, "state"), budget)
	return path, os.WriteFile(path, []byte(text), 0o644)
}
