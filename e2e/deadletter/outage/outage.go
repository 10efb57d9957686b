// Package outage shows that no rejected record is lost while the dead-letter cluster is away. Share consumers of three libraries, on both carriers, reject
// last deliveries under load; the broker of the dead-letter topics is killed, and comes back. Every Reject that the source's broker accepted must be in the
// spool meanwhile, and in its dead-letter topic in the end, byte for byte; and the source must not notice.
package outage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ackproxy/ackproxy/e2e/client"
	"github.com/ackproxy/ackproxy/e2e/gateway"
	"github.com/ackproxy/ackproxy/e2e/kafka"
	"github.com/ackproxy/ackproxy/e2e/tap"
)

// Options say how it is run. Both clusters have one node.
type Options struct {
	Source, Letters *kafka.Cluster
	Name            string // of the source's topic, and the beginning of the groups' names
	Dir             string // for files
	Before, Away    time.Duration
	Rejects         int           // of a hundred records, how many are released, and rejected when they come again
	Every           time.Duration // ten records come into each partition
}

const (
	partitions = 3
	limit      = 2               // deliveries: the least that a broker knows
	settling   = 2 * time.Second // a request that is under way when the broker is killed may still have its letter there
	patience   = 2 * time.Minute // for what is left to do at the end
)

// settings of the groups.
var settings = map[string]string{"share.record.lock.duration.ms": "10000", "share.delivery.count.limit": fmt.Sprint(limit)}

// run is a run's parts.
type run struct {
	Options
	book    *book
	gateway *gateway.Gateway
	tap     *tap.Tap
	members []*member
	topicID [16]byte
}

// member is a client alone in its group, with a dead-letter topic of its own.
type member struct {
	client.Spec
	client *client.Client
	number int
}

func (m *member) letters() string { return "dlq." + m.Group }

// Run does it. An error is one of the test's own; what the proxy did wrong is in the result.
func Run(ctx context.Context, o Options) (*Result, error) {
	r := &run{Options: o, book: newBook()}
	result, err := r.all(ctx)
	if err = errors.Join(err, r.end()); err != nil {
		return nil, err
	}
	return result, nil
}

func (r *run) all(ctx context.Context) (*Result, error) {
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	loading, stop := context.WithCancel(ctx)
	produced := make(chan error, 1)
	go func() { produced <- r.produce(loading) }()
	result, err := r.outage(ctx)
	stop()
	if err = errors.Join(err, <-produced); err != nil {
		return nil, err
	}
	if err := r.finish(ctx, result); err != nil {
		return nil, err
	}
	return result, r.compare(ctx, result)
}

// prepare makes topics and groups, and starts the proxy and the clients.
func (r *run) prepare(ctx context.Context) (err error) {
	if r.topicID, err = r.Source.CreateTopic(ctx, r.Name, partitions); err != nil {
		return err
	}
	node := r.Source.Nodes[0]
	if r.tap, err = tap.Listen(node.Relayed(), node.RelayTarget(), nil, func(x *tap.Exchange) { r.book.saw(r.topicID, x) }); err != nil {
		return err
	}
	config := filepath.Join(r.Dir, "ackproxy.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, configuration, r.Letters.Bootstrap(), r.Source.Bootstrap()), 0o600); err != nil {
		return err
	}
	if r.gateway, err = gateway.Start(ctx, gateway.Options{Upstream: node.Relayed(), Brokers: 1, Dir: r.Dir, Args: []string{"--config", config}}); err != nil {
		return err
	}
	for _, kind := range client.Kinds {
		for _, mode := range []string{client.Explicit, client.ExplicitSync} {
			if err := r.join(ctx, kind, mode); err != nil {
				return err
			}
		}
	}
	return nil
}

const configuration = `policies:
- name: dlq
  builtin: dlq
  config: {cluster: {bootstrap: [%q]}, source: {bootstrap: [%q]}, topic: "dlq.{group}", on_failure: [spool, release, withhold]}
`

func (r *run) join(ctx context.Context, kind client.Kind, mode string) error {
	m := &member{number: len(r.members)}
	group := fmt.Sprintf("%s-%s-%s", r.Name, kind, mode)
	m.Spec = client.Spec{Kind: kind, Bootstrap: r.gateway.Bootstrap(), Topic: r.Name, Group: group, ID: group, Mode: mode, Seed: m.number,
		Rejects: r.Rejects, Log: filepath.Join(r.Dir, group+".log")}
	if err := r.Source.ShareGroup(ctx, group, settings); err != nil {
		return err
	}
	if _, err := r.Letters.CreateTopic(ctx, m.letters(), partitions); err != nil {
		return err
	}
	r.book.add(group)
	var err error
	if m.client, err = client.Start(ctx, m.Spec); err == nil {
		r.members = append(r.members, m)
	}
	return err
}

// outage lets all run, kills the dead-letter broker, has a look before it comes back, and starts it again.
func (r *run) outage(ctx context.Context) (*Result, error) {
	if err := kafka.Until(ctx, "all members to reject", func(context.Context) bool { return r.book.allReject() }); err != nil {
		return nil, err
	}
	if err := sleep(ctx, r.Before); err != nil {
		return nil, err
	}
	node, result := r.Letters.Nodes[0], &Result{}
	if err := node.Kill(); err != nil {
		return nil, err
	}
	r.book.phase(away)
	down := time.Now()
	if err := sleep(ctx, r.Away); err != nil {
		return nil, err
	}
	if err := r.look(result, down.Add(settling)); err != nil {
		return nil, err
	}
	r.book.phase(back)
	result.Away = time.Since(down)
	if err := node.Restart(ctx); err != nil {
		return nil, err
	}
	return result, sleep(ctx, r.Before)
}

// finish waits until every record is settled and the spool is empty, and ends what runs.
func (r *run) finish(ctx context.Context, result *Result) error {
	r.book.phase(over)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	start := time.Now()
	if err := kafka.Until(ctx, "all records to be settled", r.settled); err != nil {
		return err
	}
	if err := kafka.Until(ctx, "the spool to be empty", func(ctx context.Context) bool {
		empty, err := SpoolEmpty(ctx, r.gateway)
		return err == nil && empty
	}); err != nil {
		return err
	}
	result.Drained = time.Since(start)
	if err := r.stop(); err != nil {
		return err
	}
	var err error
	result.Fates, err = Fates(ctx, r.gateway)
	return err
}

func (r *run) settled(ctx context.Context) bool {
	for _, m := range r.members {
		if lag, err := r.Source.ShareLag(ctx, m.Group, r.Name, partitions); err != nil || lag > 0 {
			return false
		}
	}
	return true
}

// stop has all clients leave, side by side.
func (r *run) stop() error {
	errs := make([]error, len(r.members))
	var all sync.WaitGroup
	for i, m := range r.members {
		all.Go(func() { errs[i] = m.client.Stop() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// end ends what runs, in the order of its dependence.
func (r *run) end() error {
	var errs []error
	for _, m := range r.members {
		if m.client.Running() {
			errs = append(errs, m.client.Kill())
		}
	}
	if r.gateway != nil && r.gateway.Running() {
		errs = append(errs, r.gateway.Stop())
	}
	if r.tap != nil {
		errs = append(errs, r.tap.Close())
	}
	return errors.Join(errs...)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
