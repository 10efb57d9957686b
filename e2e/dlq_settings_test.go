package e2e

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/e2e/deadletter"
	"github.com/ackproxy/ackproxy/e2e/deadletter/outage"
	"github.com/ackproxy/ackproxy/e2e/gateway"
	"github.com/ackproxy/ackproxy/e2e/kafka"
)

// TestDeadLetterSettings runs what is off by default: topics that the policy makes, and letters of records that nobody acknowledged.
func TestDeadLetterSettings(t *testing.T) {
	c := cluster(t, kafka.Versions[0], 1)
	t.Run("create", func(t *testing.T) {
		t.Parallel()
		missingTopic(t, c)
	})
	t.Run("infer", func(t *testing.T) {
		t.Parallel()
		lastLockExpires(t, c)
	})
}

// missingTopic has records rejected whose dead-letter topic is not there: it is made as the policy's settings say, and has the letters.
func missingTopic(t *testing.T, c *kafka.Cluster) {
	ctx := within(t, time.Minute)
	name, _ := topic(t, c)
	const each, made = 4, 2 // partitions of the target: fewer than the source has
	if err := c.Produce(ctx, name, partitions, each); err != nil {
		t.Fatal(err)
	}
	settings := map[string]any{"create": map[string]any{"partitions": made, "replication": 1, "retention": "36h"}}
	p := proxy(t, c, gateway.Options{Args: deadLetters(t, c, "", settings)})
	if _, err := (deadletter.Consumer{Bootstrap: p.Bootstrap(), Group: group(t, c, "g", nil), Topic: name}).Settle(ctx, partitions*each); err != nil {
		t.Fatal(err)
	}
	target := "dlq." + name
	until(t, 30*time.Second, "letters", func() bool {
		all, err := c.Admin().ListEndOffsets(ctx, target)
		return err == nil && len(all[target]) == made && all[target][0].Offset+all[target][1].Offset >= partitions*each
	})
	letters, err := deadletter.Read(ctx, c.Bootstrap(), target)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, l := range letters {
		from, _ := deadletter.Header(l, "__dlq.errors.partition")
		if want := fmt.Sprint(l.Partition); from != want && from != fmt.Sprint(l.Partition+made) {
			t.Errorf("a letter of partition %s is in partition %s", from, want)
		}
		got[string(l.Value)] = true
	}
	if len(got) != partitions*each {
		t.Errorf("letters of %d records, %d were rejected", len(got), partitions*each)
	}
	configs, err := c.Admin().DescribeTopicConfigs(ctx, target)
	if err != nil || len(configs) != 1 {
		t.Fatalf("settings of %s: %v, %v", target, configs, err)
	}
	want := map[string]string{"retention.ms": fmt.Sprint((36 * time.Hour).Milliseconds()), "cleanup.policy": "delete"}
	for _, one := range configs[0].Configs {
		if value, asked := want[one.Key]; asked && value == one.MaybeValue() {
			delete(want, one.Key)
		}
	}
	if len(want) > 0 {
		t.Errorf("%s was not made with %v", target, want)
	}
}

// lastLockExpires has a member take records twice, which is as often as its group allows, and say nothing. The broker gives up on them, which nobody
// is told; their letters are written all the same.
func lastLockExpires(t *testing.T, c *kafka.Cluster) {
	ctx := within(t, time.Minute)
	const name, n = "unsaid", 3
	id, err := c.CreateTopic(ctx, name, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := deadletter.Topic(ctx, c.Client(), "dlq."+name, 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Produce(ctx, name, 1, n); err != nil {
		t.Fatal(err)
	}
	p := proxy(t, c, gateway.Options{Args: deadLetters(t, c, "", map[string]any{"infer": true})})
	g := group(t, c, "g", map[string]string{"share.record.lock.duration.ms": "1000", "share.delivery.count.limit": "2"})
	member, err := outage.Join(ctx, p.Bootstrap(), g, name, id)
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	for delivery := int16(1); delivery <= 2; delivery++ {
		got, err := member.Fetch(ctx, 1, n)
		if err != nil {
			t.Fatal(err)
		}
		for _, counts := range got {
			if want := map[int64]int16{0: delivery, 1: delivery, 2: delivery}; !maps.Equal(counts, want) {
				t.Errorf("delivery counts %v instead of %v", counts, want)
			}
		}
	}
	until(t, 30*time.Second, "letters", func() bool {
		lag, err := c.ShareLag(ctx, g, name, 1)
		ends, endsErr := c.Admin().ListEndOffsets(ctx, "dlq."+name)
		return err == nil && endsErr == nil && lag == 0 && ends["dlq."+name][0].Offset >= n
	})
	letters, err := deadletter.Read(ctx, c.Bootstrap(), "dlq."+name)
	if err != nil || len(letters) != n {
		t.Fatalf("%d letters instead of %d, %v", len(letters), n, err)
	}
	for _, l := range letters {
		offset, _ := deadletter.Header(l, "__dlq.errors.offset")
		reason, _ := deadletter.Header(l, "ackproxy.dlq.reason")
		count, _ := deadletter.Header(l, "__dlq.errors.delivery.count")
		if want := fmt.Sprintf("%s-0-%s", name, offset); reason != "lock_expired_at_limit" || count != "2" || string(l.Value) != want {
			t.Errorf("offset %s: %s at delivery %s, the value is %q", offset, reason, count, l.Value)
		}
	}
	if fates, err := outage.Fates(ctx, p); err != nil || fates["produced"] != n {
		t.Errorf("offsets by what became of them are %v, %v", fates, err)
	}
}
