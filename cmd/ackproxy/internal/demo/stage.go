package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/audit"
	"github.com/ackproxy/ackproxy/proxy"
)

// group is the share group that all members are in.
const group = "demo"

// topic is one that is produced to.
type topic struct {
	name       string
	partitions int32
}

// topicNames are the names of all topics.
var topicNames = []string{"orders", "refunds"}

// stage is what the clients play on: brokers in this process, the proxy in front of them, and its audit.
type stage struct {
	cluster *kfake.Cluster
	auditor *audit.Auditor
	server  *proxy.Server
	lookout *lookout
	served  chan error
}

// newStage starts all parts. Audit lines go to lines, the proxy's log to log. After an error nothing is left behind.
func newStage(brokers int, version string, lines, log io.Writer) (s *stage, err error) {
	s = &stage{}
	defer func() {
		if err != nil {
			s.close()
			s = nil
		}
	}()
	if s.cluster, err = kfake.NewCluster(kfake.NumBrokers(brokers), kfake.BrokerConfigs(map[string]string{
		"group.share.heartbeat.interval.ms": "1000", // so that members agree about the assignment soon
	})); err != nil {
		return s, fmt.Errorf("embedded brokers: %w", err)
	}
	s.cluster.SetGroupConfigs(group, map[string]string{"share.auto.offset.reset": "earliest"})
	if s.auditor, err = audit.New(audit.Config{
		Name: "demo", Instance: "demo", Version: version, Sinks: []audit.Sink{{Type: audit.Writer, W: lines}},
		TopicName: func(id codec.UUID) (string, bool) { return s.server.TopicName(id) },
	}); err != nil {
		return s, err
	}
	if s.server, err = proxy.New(proxy.Config{
		Bootstrap: "127.0.0.1:0", Advertise: "127.0.0.1", Upstream: s.cluster.ListenAddrs(),
		Observers: []policy.Observer{s.auditor}, Log: zerolog.New(log).Level(zerolog.WarnLevel),
	}); err != nil {
		return s, fmt.Errorf("proxy: %w", err)
	}
	if s.lookout, err = newLookout(s.cluster.ListenAddrs(), s.own); err != nil {
		return s, err
	}
	s.served = make(chan error, 1)
	go func() { s.served <- s.server.Serve(context.Background()) }()
	return s, nil
}

// own says whether addr is one of the proxy's listeners.
func (s *stage) own(addr string) bool {
	for _, l := range s.server.Listeners() {
		if l.Addr == addr {
			return true
		}
	}
	return false
}

// client opens a client that knows the proxy's address only. The caller closes it.
func (s *stage) client(name string, opts ...kgo.Opt) (*kgo.Client, error) {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.server.Addr()), kgo.ClientID(name), kgo.Dialer(s.lookout.dialer(name))}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("client %s: %w", name, err)
	}
	return cl, nil
}

// createTopics makes the topics. Leaders go round the brokers.
func (s *stage) createTopics(ctx context.Context, admin *kadm.Client, topics []topic) error {
	segment := "1048576" // memory of deleted records is given back by the segment
	brokers := int32(len(s.cluster.ListenAddrs()))
	for i, t := range topics {
		made, err := admin.CreateTopic(ctx, t.partitions, 1, map[string]*string{"segment.bytes": &segment}, t.name)
		if err == nil {
			err = made.Err
		}
		for p := int32(0); p < t.partitions && err == nil; p++ {
			err = s.cluster.MoveTopicPartition(t.name, p, (p+int32(i))%brokers)
		}
		if err != nil {
			return fmt.Errorf("topic %s: %w", t.name, err)
		}
	}
	return nil
}

// close ends all parts: the proxy first, then the audit with all that it has to say, then the brokers. The clients are gone by then.
func (s *stage) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var errs []error
	if s.server != nil {
		errs = append(errs, s.server.Shutdown(ctx))
	}
	if s.served != nil {
		errs = append(errs, <-s.served)
	}
	if s.auditor != nil {
		errs = append(errs, s.auditor.Close(ctx))
	}
	if s.cluster != nil {
		s.cluster.Close()
	}
	return errors.Join(errs...)
}
