package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/e2e/gateway"
	"github.com/ackproxy/ackproxy/e2e/kafka"
)

// hints asks for what clients get only by chance: large answers that end in the address of a new leader, in ShareFetch and in Fetch. A
// proxy sends on their head before it has seen that end. Of the topic's partitions, all led by node 1, the last one moves away, and a
// fetch asks for it together with the records of the first.
func hints(t *testing.T, c *kafka.Cluster, g *gateway.Gateway) {
	t.Helper()
	ctx := within(t, 2*time.Minute)
	name := t.Name() + "-hints"
	id, err := c.CreateTopic(ctx, name, 2)
	if err != nil {
		t.Fatal(err)
	}
	for p := range int32(2) {
		if err := c.MoveLeader(ctx, name, p, 1); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		if err := c.Client().ProduceSync(ctx, &kgo.Record{Topic: name, Value: make([]byte, 20_000)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(g.Bootstrap()), kgo.ClientID("hints"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	q := shareSession(t, c, cl, name, id)
	if err := c.MoveLeader(ctx, name, 1, 2); err != nil {
		t.Fatal(err)
	}
	if err := kafka.Until(ctx, "node 1 to know that it does not lead", func(ctx context.Context) bool { return !leads(ctx, cl, name, 1) }); err != nil {
		t.Fatal(err)
	}
	q.MaxRecords, q.MaxBytes, q.BatchSize = 500, 50<<20, 500
	if err := kafka.Until(ctx, "records and an address in one ShareFetch", func(context.Context) bool {
		r := shareFetch(t, cl, q)
		return len(r.NodeEndpoints) == 1 && len(r.AppendTo(nil)) > 20*20_000 // until its share partition is loaded it gives no records
	}); err != nil {
		t.Fatal(err)
	}
	if r := fetch(t, cl, id); len(r.Brokers) != 1 || len(r.AppendTo(nil)) < 20*20_000 {
		t.Errorf("Fetch: %d endpoints in %d bytes", len(r.Brokers), len(r.AppendTo(nil)))
	}
}

// shareSession joins a share group and opens a session with node 1 for both partitions, without fetching a record. It returns the
// session's next request, which fetches none either.
func shareSession(t *testing.T, c *kafka.Cluster, cl *kgo.Client, topic string, id kadm.TopicID) *kmsg.ShareFetchRequest {
	t.Helper()
	ctx := within(t, 2*time.Minute)
	name, member := group(t, c, "hints", nil), "aGludHNoaW50c2hpbnRzaA"
	q := kmsg.NewPtrShareFetchRequest()
	q.GroupID, q.MemberID, q.MaxBytes = &name, &member, 1
	h := kmsg.NewPtrShareGroupHeartbeatRequest()
	h.GroupID, h.MemberID, h.SubscribedTopicNames = name, member, []string{topic}
	if err := kafka.Until(ctx, "an assignment", func(ctx context.Context) bool {
		r, err := h.RequestWith(ctx, cl)
		return err == nil && r.ErrorCode == 0 && r.Assignment != nil && len(r.Assignment.TopicPartitions) == 1
	}); err != nil {
		t.Fatal(err)
	}
	of := kmsg.NewShareFetchRequestTopic()
	of.TopicID = id
	for p := range int32(2) {
		partition := kmsg.NewShareFetchRequestTopicPartition()
		partition.Partition = p
		of.Partitions = append(of.Partitions, partition)
	}
	q.Topics = append(q.Topics, of)
	shareFetch(t, cl, q)
	q.Topics = nil
	return q
}

// leads asks node 1 for an offset, which only a leader gives.
func leads(ctx context.Context, cl *kgo.Client, topic string, partition int32) bool {
	q := kmsg.NewPtrListOffsetsRequest()
	q.ReplicaID = -1
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, -1
	q.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	a, err := cl.Broker(1).Request(ctx, q)
	if err != nil {
		return true // not known yet
	}
	r := a.(*kmsg.ListOffsetsResponse)
	return len(r.Topics) != 1 || r.Topics[0].Partitions[0].ErrorCode != 6
}

// shareFetch sends a request to node 1 and moves it on to the session's next epoch.
func shareFetch(t *testing.T, cl *kgo.Client, q *kmsg.ShareFetchRequest) *kmsg.ShareFetchResponse {
	t.Helper()
	a, err := cl.Broker(1).Request(within(t, 2*time.Minute), q)
	if err != nil {
		t.Fatal(err)
	}
	r := a.(*kmsg.ShareFetchResponse)
	if r.ErrorCode != 0 {
		t.Fatalf("ShareFetch: error %d", r.ErrorCode)
	}
	q.ShareSessionEpoch++
	return r
}

// fetch asks node 1 for the first partition's records, and for the other one with the epoch of a leader that is no longer: any broker
// would serve it as a follower.
func fetch(t *testing.T, cl *kgo.Client, id kadm.TopicID) *kmsg.FetchResponse {
	t.Helper()
	q := kmsg.NewPtrFetchRequest()
	q.SessionEpoch, q.MaxBytes = -1, 50<<20
	of := kmsg.NewFetchRequestTopic()
	of.TopicID = id
	for p := range int32(2) {
		partition := kmsg.NewFetchRequestTopicPartition()
		partition.Partition, partition.PartitionMaxBytes = p, 50<<20
		if p == 1 {
			partition.CurrentLeaderEpoch = 0
		}
		of.Partitions = append(of.Partitions, partition)
	}
	q.Topics = append(q.Topics, of)
	a, err := cl.Broker(1).Request(within(t, 2*time.Minute), q)
	if err != nil {
		t.Fatal(err)
	}
	return a.(*kmsg.FetchResponse)
}
