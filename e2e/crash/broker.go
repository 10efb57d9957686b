package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/e2e/kafka"
	"github.com/ackproxy/ackproxy/e2e/tap"
)

// brokers is how many there are.
const brokers = 1

// Broker is what the proxy stands before, seen by a tap.
type Broker interface {
	Addrs() []string // the tap's
	Watch(w watcher)
	Prepare(ctx context.Context) error // topics and the group
	Close() error
}

// watcher is told of share requests, and of their answers.
type watcher interface {
	asked(*tap.Exchange)
	saw(*tap.Exchange)
}

// watched passes exchanges on to a watcher that comes later.
type watched struct{ watcher atomic.Pointer[watcher] }

func (w *watched) Watch(other watcher) { w.watcher.Store(&other) }

func (w *watched) asked(x *tap.Exchange) {
	if other := w.watcher.Load(); other != nil {
		(*other).asked(x)
	}
}

func (w *watched) saw(x *tap.Exchange) {
	if other := w.watcher.Load(); other != nil {
		(*other).saw(x)
	}
}

// Fake is the embedded broker. It is slow to take some dead letters, so that the spool has work.
type Fake struct {
	watched
	cluster *kfake.Cluster
	taps    []*tap.Tap
}

// slow is how long the broker takes for a slow answer.
const slow = 2 * budget

// NewFake starts the embedded broker. Of its answers to dead letters a part between 0 and 1 is slow.
func NewFake(slowPart float64) (*Fake, error) {
	f := &Fake{}
	c, err := kfake.NewCluster(kfake.NumBrokers(brokers), kfake.SeedTopics(partitions, source, letters), kfake.ListenFn(f.listen),
		kfake.BrokerConfigs(map[string]string{"group.share.heartbeat.interval.ms": "1000", "group.share.delivery.count.limit": fmt.Sprint(limit)}))
	if err != nil {
		return nil, err
	}
	f.cluster = c
	c.SetGroupConfigs(group, map[string]string{"share.auto.offset.reset": "earliest"})
	c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if q := r.(*kmsg.ProduceRequest); q.Acks == -1 && rand.Float64() < slowPart {
			c.SleepControl(func() { time.Sleep(slow) })
		}
		return nil, nil, false
	})
	return f, nil
}

// listen puts a tap before each listener, at the address that clients are told.
func (f *Fake) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	t, err := tap.Listen("127.0.0.1:0", l.Addr().String(), f.asked, f.saw)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	f.taps = append(f.taps, t)
	return tapped{l, t.Addr()}, nil
}

// tapped is a listener that says it is where its tap is.
type tapped struct {
	net.Listener
	at net.Addr
}

func (t tapped) Addr() net.Addr { return t.at }

// Addrs are the addresses of the taps.
func (f *Fake) Addrs() []string { return f.cluster.ListenAddrs() }

// Prepare has nothing left to do.
func (f *Fake) Prepare(context.Context) error { return nil }

// Close ends the broker and its taps.
func (f *Fake) Close() error {
	f.cluster.Close()
	var errs []error
	for _, t := range f.taps {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}

// Real is an Apache Kafka broker of its own process, on a listener that is advertised at the tap.
type Real struct {
	watched
	cluster *kafka.Cluster
	tap     *tap.Tap
}

// NewReal puts a tap before a broker. The cluster stays the caller's.
func NewReal(c *kafka.Cluster) (*Real, error) {
	r := &Real{cluster: c}
	var err error
	r.tap, err = tap.Listen(c.Nodes[0].Relayed(), c.Nodes[0].RelayTarget(), r.asked, r.saw)
	return r, err
}

// Addrs is the address of the tap.
func (r *Real) Addrs() []string { return []string{r.cluster.Nodes[0].Relayed()} }

// Prepare makes the topics and sets the group up.
func (r *Real) Prepare(ctx context.Context) error {
	for _, t := range []string{source, letters} {
		if _, err := r.cluster.CreateTopic(ctx, t, partitions); err != nil {
			return err
		}
	}
	return r.cluster.ShareGroup(ctx, group, map[string]string{"share.delivery.count.limit": fmt.Sprint(limit)})
}

// Close ends the tap.
func (r *Real) Close() error { return r.tap.Close() }
