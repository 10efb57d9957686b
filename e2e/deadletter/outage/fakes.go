package outage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/e2e/kafka"
)

const (
	slowness = 4500 * time.Millisecond // of each produce request
	largest  = 3000                    // bytes of a batch, where larger ones are refused
	quota    = 20_000                  // bytes a second; a broker counts over ten seconds
)

// Fakes are clusters for dead letters in this process, each with something wrong. Whoever made them calls Close.
type Fakes struct {
	clusters map[string]*kfake.Cluster
	repaired atomic.Bool // slow is not any more
	refusals *kfake.FaultHandle
}

// NewFakes starts the clusters "slow", "missing", "unauthorised" and "large".
func NewFakes() (*Fakes, error) {
	f := &Fakes{clusters: map[string]*kfake.Cluster{}}
	for _, name := range []string{"slow", "missing", "unauthorised", "large"} {
		c, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			f.Close()
			return nil, err
		}
		f.clusters[name] = c
	}
	slow, large := f.clusters["slow"], f.clusters["large"]
	slow.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		slow.KeepControl()
		if !f.repaired.Load() {
			slow.SleepControl(func() { time.Sleep(slowness) })
		}
		return nil, nil, false
	})
	large.ControlKey(int16(kmsg.Produce), func(q kmsg.Request) (kmsg.Response, error, bool) {
		large.KeepControl()
		return refuse(q.(*kmsg.ProduceRequest))
	})
	f.refusals = f.clusters["unauthorised"].Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	return f, nil
}

// refuse answers a request with a batch of too many bytes as a broker does for its topic's max.message.bytes.
func refuse(q *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
	answer, large := q.ResponseKind().(*kmsg.ProduceResponse), false
	for _, t := range q.Topics {
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			large = large || len(p.Records) > largest
			one := kmsg.NewProduceResponseTopicPartition()
			one.Partition, one.ErrorCode = p.Partition, kerr.MessageTooLarge.Code
			topic.Partitions = append(topic.Partitions, one)
		}
		answer.Topics = append(answer.Topics, topic)
	}
	return answer, nil, large
}

// Bootstrap is the address of a cluster.
func (f *Fakes) Bootstrap(name string) string {
	if f.clusters[name] == nil {
		return ""
	}
	return strings.Join(f.clusters[name].ListenAddrs(), ",")
}

// Create makes a topic, with two partitions, where none is to be missing.
func (f *Fakes) Create(ctx context.Context, name, topic string) error {
	if name == "missing" {
		return nil
	}
	return f.create(ctx, name, topic)
}

func (f *Fakes) create(ctx context.Context, name, topic string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.clusters[name].ListenAddrs()...))
	if err != nil {
		return err
	}
	defer cl.Close()
	_, err = kadm.NewClient(cl).CreateTopic(ctx, 2, 1, nil, topic)
	return err
}

// Repair does away with what is wrong, for a topic or for all.
func (f *Fakes) Repair(ctx context.Context, name, topic string) error {
	switch name {
	case "slow":
		f.repaired.Store(true)
	case "missing":
		return f.create(ctx, name, topic)
	case "unauthorised":
		f.refusals.Remove()
	}
	return nil
}

// Close ends the clusters.
func (f *Fakes) Close() {
	for _, c := range f.clusters {
		c.Close()
	}
}

// Throttle has a broker hold clients of the dead-letter policy to a quota, or to none.
func Throttle(ctx context.Context, c *kafka.Cluster, on bool) error {
	id := "ackproxy-dlq"
	entry := kadm.AlterClientQuotaEntry{Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &id}},
		Ops: []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: quota, Remove: !on}}}
	all, err := c.Admin().AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{entry})
	for _, one := range all {
		if one.Err != nil {
			err = errors.Join(err, fmt.Errorf("quota: %w %s", one.Err, one.ErrMessage))
		}
	}
	return err
}

// Value is what a record has as its value, which depends on what is to be wrong.
func Value(failure string, partition int32, offset int) []byte {
	n := 300
	switch {
	case failure == "large" && partition == 0:
		n = 2 * largest
	case failure == "throttled" && partition == 0 && offset == 0:
		n = 14 * quota // some seconds more than ten
	}
	value := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(partition), byte(offset)}).Read(value)
	return value
}
