package e2e

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/e2e/client"
	"github.com/ackproxy/ackproxy/e2e/deadletter"
	"github.com/ackproxy/ackproxy/e2e/gateway"
	"github.com/ackproxy/ackproxy/e2e/kafka"
)

// TestDeadLettersOfClients: what any client rejects, on any carrier, and what is released at the delivery limit, is dead-lettered, and nothing
// else is. TestOlderBrokers does the same on the older releases, which have no dead-letter queue.
func TestDeadLettersOfClients(t *testing.T) {
	clientsReject(t, cluster(t, kafka.Versions[0], 1), client.Kinds)
}

// clientsReject runs a client of each kind, and Java on both carriers, and compares the letters with what they say they rejected.
func clientsReject(t *testing.T, c *kafka.Cluster, kinds []client.Kind) {
	ctx := within(t, 2*time.Minute)
	name, _ := topic(t, c)
	if err := deadletter.Topic(ctx, c.Client(), "dlq."+name, partitions, nil); err != nil {
		t.Fatal(err)
	}
	const each = 60
	if err := c.Produce(ctx, name, partitions, each); err != nil {
		t.Fatal(err)
	}
	p := proxy(t, c, gateway.Options{Args: deadLetters(t, c, "", nil)})
	var running []*client.Client
	for i, kind := range append(kinds[:len(kinds):len(kinds)], client.Java) {
		mode := client.Explicit
		if i == len(kinds) {
			mode = client.ExplicitSync
		}
		id := fmt.Sprint(kind, "-", mode)
		running = append(running, start(t, client.Spec{Kind: kind, Bootstrap: p.Bootstrap(), Topic: name, Group: group(t, c, id, nil), ID: id, Mode: mode,
			Seed: i, Count: partitions * each}))
	}
	want := map[string]int{}
	for _, one := range running {
		if err := one.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		for _, e := range one.Events() {
			if e.Event == "ack" && e.Type == "reject" {
				want[fmt.Sprint(one.Group, " ", e.Partition, " ", e.Offset)]++
			}
		}
	}
	last := releaseToTheEnd(t, ctx, c, p.Bootstrap(), name)
	want[last+" 0 0"]++

	letters, err := deadletter.Read(ctx, c.Bootstrap(), "dlq."+name)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, l := range letters {
		group, _ := deadletter.Header(l, "__dlq.errors.group")
		partition, _ := deadletter.Header(l, "__dlq.errors.partition")
		offset, _ := deadletter.Header(l, "__dlq.errors.offset")
		got[group+" "+partition+" "+offset]++
		count, _ := deadletter.Header(l, "__dlq.errors.delivery.count")
		reason, _ := deadletter.Header(l, "ackproxy.dlq.reason")
		if released := group == last; released != (reason == "release_at_limit" && count == "5") {
			t.Errorf("group %s, offset %s: %s at delivery %s", group, offset, reason, count)
		}
		if string(l.Value) != fmt.Sprintf("%s-%s-%s", name, partition, offset) {
			t.Errorf("offset %s-%s: the value is %q", partition, offset, l.Value)
		}
	}
	t.Logf("%d rejected, %d letters", len(want), len(letters))
	if !maps.Equal(got, want) || len(want) < 2*len(running) {
		t.Errorf("letters %v\nwant %v", got, want)
	}
}

// releaseToTheEnd releases the first record of partition 0 until the broker gives up on it, which is at its default limit of five deliveries, and
// accepts all others. It returns the group.
func releaseToTheEnd(t *testing.T, ctx context.Context, c *kafka.Cluster, bootstrap, topic string) string {
	t.Helper()
	g := group(t, c, "release", nil)
	times := 0
	release := deadletter.Consumer{Bootstrap: bootstrap, Group: g, Topic: topic, Ack: func(r *kgo.Record) kgo.AckStatus {
		if r.Partition == 0 && r.Offset == 0 {
			times++
			return kgo.AckRelease
		}
		return kgo.AckAccept
	}}
	if _, err := release.Settle(ctx, partitions*60+4); err != nil {
		t.Fatal(err)
	}
	if times != 5 {
		t.Errorf("it was delivered %d times", times)
	}
	return g
}

// TestNoLoops: no letter is produced to the topic that its record is in, and a letter that is rejected stays where it is.
func TestNoLoops(t *testing.T) {
	c := cluster(t, kafka.Versions[0], 1)
	ctx := within(t, time.Minute)
	for _, name := range []string{"loop", "dlq.loop"} {
		if err := deadletter.Topic(ctx, c.Client(), name, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	const n = 10
	if err := c.Produce(ctx, "loop", 1, n); err != nil {
		t.Fatal(err)
	}
	self := proxy(t, c, gateway.Options{Args: deadLetters(t, c, "", map[string]any{"topic": "loop", "allowed_prefix": ""})})
	g := group(t, c, "self", nil)
	twice := deadletter.Consumer{Bootstrap: self.Bootstrap(), Group: g, Topic: "loop", Ack: func(r *kgo.Record) kgo.AckStatus {
		if r.DeliveryCount() == 1 {
			return kgo.AckReject
		}
		return kgo.AckAccept
	}}
	if _, err := twice.Settle(ctx, 2*n); err != nil { // refused by the policy, the Rejects are Releases
		t.Fatal(err)
	}
	p := proxy(t, c, gateway.Options{Args: deadLetters(t, c, "", nil)})
	for _, topic := range []string{"loop", "dlq.loop"} {
		g := group(t, c, topic, nil)
		if _, err := (deadletter.Consumer{Bootstrap: p.Bootstrap(), Group: g, Topic: topic}).Settle(ctx, n); err != nil {
			t.Fatal(err)
		}
		until(t, 20*time.Second, "all to be settled", func() bool {
			lag, err := c.ShareLag(ctx, g, topic, 1)
			return err == nil && lag == 0
		})
		if all, err := deadletter.Read(ctx, c.Bootstrap(), topic); err != nil || len(all) != n {
			t.Errorf("%s has %d records, want %d: %v", topic, len(all), n, err)
		}
	}
	all, err := c.Admin().ListTopics(ctx)
	if err != nil || all.Has("dlq.dlq.loop") {
		t.Errorf("letters of letters: %v", err)
	}
}
