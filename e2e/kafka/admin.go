package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// poll is how often a condition in a cluster is looked at again.
const poll = 20 * time.Millisecond

// Until calls ok until it says true; an error of ctx names what was waited for.
func Until(ctx context.Context, what string, ok func(context.Context) bool) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !ok(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		}
	}
	return nil
}

// Ready waits until every node answers Metadata itself and lists all nodes, on new connections: a TCP connection alone proves nothing
// just after a broker was killed.
func (c *Cluster) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for _, n := range c.Nodes {
		what := fmt.Sprintf("node %d to list %d brokers", n.ID, len(c.Nodes))
		if err := Until(ctx, what, func(ctx context.Context) bool { return n.ended() || n.lists(ctx, len(c.Nodes)) }); err != nil {
			return err
		}
		if n.ended() {
			return fmt.Errorf("waiting for %s: it has ended", what)
		}
	}
	return nil
}

func (n *Node) lists(ctx context.Context, brokers int) bool {
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.internal()), kgo.RetryTimeout(200*time.Millisecond))
	if err != nil {
		return false
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	q := kmsg.NewPtrMetadataRequest()
	q.Topics = []kmsg.MetadataRequestTopic{}
	r, err := q.RequestWith(ctx, cl)
	return err == nil && len(r.Brokers) == brokers
}

// warmUp lets a share group consume one record.
func (c *Cluster) warmUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if _, err := c.CreateTopic(ctx, "warm-up", 1); err != nil {
		return err
	}
	if err := errors.Join(c.ShareGroup(ctx, "warm-up", nil), c.Produce(ctx, "warm-up", 1, 1)); err != nil {
		return err
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.addrs((*Node).internal)...), kgo.ShareGroup("warm-up"), kgo.ConsumeTopics("warm-up"))
	if err != nil {
		return err
	}
	defer cl.Close()
	for cl.PollFetches(ctx).NumRecords() == 0 {
		if ctx.Err() != nil {
			return fmt.Errorf("a share group's first record: %w", ctx.Err())
		}
	}
	return cl.FlushAcks(ctx)
}

// CreateTopic makes a topic, waits until its partitions have leaders, and returns its id.
func (c *Cluster) CreateTopic(ctx context.Context, topic string, partitions int32) (kadm.TopicID, error) {
	if _, err := c.Admin().CreateTopic(ctx, partitions, int16(len(c.Nodes)), nil, topic); err != nil {
		return kadm.TopicID{}, fmt.Errorf("create %s: %w", topic, err)
	}
	var id kadm.TopicID
	err := Until(ctx, "leaders of "+topic, func(ctx context.Context) bool {
		all, err := c.Admin().ListTopics(ctx, topic)
		id = all[topic].ID
		return err == nil && len(all[topic].Partitions) == int(partitions) && all[topic].Partitions.Sorted()[0].Leader > 0
	})
	return id, err
}

// ShareGroup makes a share group start at the earliest record, with further settings of its own.
func (c *Cluster) ShareGroup(ctx context.Context, group string, settings map[string]string) error {
	r := kmsg.IncrementalAlterConfigsRequestResource{ResourceType: 32, ResourceName: group} // 32 is a group
	set := func(name, value string) {
		r.Configs = append(r.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: name, Value: &value})
	}
	set("share.auto.offset.reset", "earliest")
	for name, value := range settings {
		set(name, value)
	}
	q := kmsg.NewPtrIncrementalAlterConfigsRequest()
	q.Resources = append(q.Resources, r)
	p, err := q.RequestWith(ctx, c.admin)
	if err != nil {
		return fmt.Errorf("settings of %s: %w", group, err)
	}
	if len(p.Resources) != 1 {
		return fmt.Errorf("settings of %s: %d answers", group, len(p.Resources))
	}
	return kerr.ErrorForCode(p.Resources[0].ErrorCode)
}

// Produce writes n records to each partition of a topic, ten a batch, so that a fetch gets several of them.
func (c *Cluster) Produce(ctx context.Context, topic string, partitions int32, n int) error {
	for done := 0; done < n; done += 10 {
		var batch []*kgo.Record
		for p := range partitions {
			for i := done; i < min(done+10, n); i++ {
				batch = append(batch, &kgo.Record{Topic: topic, Partition: p, Value: fmt.Appendf(nil, "%s-%d-%d", topic, p, i)})
			}
		}
		if err := c.admin.ProduceSync(ctx, batch...).FirstErr(); err != nil {
			return fmt.Errorf("produce to %s: %w", topic, err)
		}
	}
	return nil
}

// MoveLeader makes a broker the leader of a partition and returns when Metadata says so. The replicas stay; the wanted one becomes the
// preferred, which an election then makes the leader, so that no data moves.
func (c *Cluster) MoveLeader(ctx context.Context, topic string, partition, to int32) error {
	replicas := []int32{to}
	for _, n := range c.Nodes {
		if n.ID != to {
			replicas = append(replicas, n.ID)
		}
	}
	adm := c.Admin()
	var a kadm.AlterPartitionAssignmentsReq
	a.Assign(topic, partition, replicas)
	if r, err := adm.AlterPartitionAssignments(ctx, a); err != nil || r.Error() != nil {
		return fmt.Errorf("reassign %s-%d: %w", topic, partition, errors.Join(err, r.Error()))
	}
	set := kadm.TopicsSet{}
	set.Add(topic, partition)
	what := fmt.Sprintf("node %d to lead %s-%d", to, topic, partition)
	return Until(ctx, what, func(ctx context.Context) bool {
		if r, err := adm.ElectLeaders(ctx, kadm.ElectPreferredReplica, set); err != nil ||
			r[topic][partition].Err != nil && !errors.Is(r[topic][partition].Err, kerr.ElectionNotNeeded) {
			return false
		}
		leader, err := c.Leader(ctx, topic, partition)
		return err == nil && leader == to
	})
}

// Leader is the node that leads a partition, or -1.
func (c *Cluster) Leader(ctx context.Context, topic string, partition int32) (int32, error) {
	all, err := c.Admin().ListTopics(ctx, topic)
	if err != nil {
		return -1, err
	}
	return all[topic].Partitions[partition].Leader, all[topic].Err
}

// ShareLag is how many records of a topic a share group has not settled, as its coordinator knows (KIP-1226, from 4.3 on).
func (c *Cluster) ShareLag(ctx context.Context, group, topic string, partitions int32) (int64, error) {
	t := kmsg.DescribeShareGroupOffsetsRequestGroupTopic{Topic: topic}
	for p := range partitions {
		t.Partitions = append(t.Partitions, p)
	}
	q := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
	q.Groups = []kmsg.DescribeShareGroupOffsetsRequestGroup{{GroupID: group, Topics: []kmsg.DescribeShareGroupOffsetsRequestGroupTopic{t}}}
	r, err := q.RequestWith(ctx, c.admin)
	if err != nil {
		return 0, fmt.Errorf("offsets of %s: %w", group, err)
	}
	var lag int64
	for _, g := range r.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
			return 0, fmt.Errorf("offsets of %s: %w", group, err)
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 || p.Lag < 0 {
					return 0, fmt.Errorf("offsets of %s: partition %d: lag %d: %w", group, p.Partition, p.Lag, kerr.ErrorForCode(p.ErrorCode))
				}
				lag += p.Lag
				partitions--
			}
		}
	}
	if partitions != 0 {
		return 0, fmt.Errorf("offsets of %s: %d partitions without an answer", group, partitions)
	}
	return lag, nil
}
