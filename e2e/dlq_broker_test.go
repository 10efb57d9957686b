package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/e2e/deadletter"
	"github.com/ackproxy/ackproxy/e2e/gateway"
	"github.com/ackproxy/ackproxy/e2e/kafka"
)

const (
	queueTopic   = "errors.deadletterqueue.topic.name"
	queueCopies  = "errors.deadletterqueue.copy.record.enable"
	queueAllowed = "errors.deadletterqueue.group.enable"
)

// TestBrokersOwnQueue: a group whose broker dead-letters is left to it; where the broker's queue is set and does not work, ours does the work, and
// says why. Nothing is written twice, and nothing not at all.
func TestBrokersOwnQueue(t *testing.T) {
	c := cluster(t, kafka.Versions[0], 1)
	ctx := within(t, 2*time.Minute)
	beside := proxy(t, c, gateway.Options{Args: deadLetters(t, c, "", nil)})
	always := proxy(t, c, gateway.Options{Args: deadLetters(t, c, "", map[string]any{"stand_down": "never"})})
	const n = 6
	for _, one := range []struct {
		name   string
		queue  string // the group's setting; its topic is the same as ours where that has the name
		flag   string // of our target
		level  int16  // of share.version
		proxy  *gateway.Gateway
		broker int    // letters that the broker writes
		ours   int    //
		says   string // in the log
		why    string // in the metric
	}{
		{"works", "dlq.works", "true", 2, beside, n, 0, "is set and works", ""},
		{"never", "dlq.never", "true", 2, always, n, n, "is set and works", ""},
		{"no-topic", "dlq.nowhere", "true", 2, beside, 0, n, "there is no such topic", "no_topic"},
		{"no-prefix", "no-prefix-letters", "true", 2, beside, 0, n, "does not begin with", "prefix"},
		{"no-flag", "dlq.no-flag", "false", 2, beside, 0, n, "does not have " + queueAllowed + "=true", "not_allowed"},
		{"level", "dlq.level", "true", 1, beside, 0, n, "share.version is finalized at 1", "share_version"},
	} {
		t.Run(one.name, func(t *testing.T) {
			if one.level == 2 {
				t.Parallel()
			}
			target := "dlq." + one.name
			for topic, settings := range map[string]map[string]string{one.name: nil, target: {queueAllowed: one.flag}} {
				if err := deadletter.Topic(ctx, c.Client(), topic, 1, settings); err != nil {
					t.Fatal(err)
				}
			}
			if one.name == "no-prefix" {
				if err := deadletter.Topic(ctx, c.Client(), one.queue, 1, map[string]string{queueAllowed: "true"}); err != nil {
					t.Fatal(err)
				}
			}
			if one.level != 2 {
				if err := deadletter.Finalize(ctx, c.Client(), "share.version", one.level, false); err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := deadletter.Finalize(t.Context(), c.Client(), "share.version", 2, true); err != nil {
						t.Fatal(err)
					}
				}()
			}
			g := group(t, c, "g", map[string]string{queueTopic: one.queue})
			for half := 1; half <= 2; half++ { // when the letters of the second are there, one of the first that nobody wanted is, too
				if err := c.Produce(ctx, one.name, 1, n/2); err != nil {
					t.Fatal(err)
				}
				if _, err := (deadletter.Consumer{Bootstrap: one.proxy.Bootstrap(), Group: g, Topic: one.name}).Settle(ctx, n/2); err != nil {
					t.Fatal(err)
				}
				until(t, 30*time.Second, "letters", func() bool { // the broker writes them after its answer
					ours, broker := writers(t, ctx, c, target)
					return len(ours)+len(broker) >= half*(one.ours+one.broker)/2
				})
			}
			ours, broker := writers(t, ctx, c, target)
			t.Logf("%d letters by the proxy, %d by the broker", len(ours), len(broker))
			if len(ours) != one.ours || len(broker) != one.broker {
				t.Errorf("want %d and %d", one.ours, one.broker)
			}
			if one.name == "no-prefix" {
				if letters, err := deadletter.Read(ctx, c.Bootstrap(), one.queue); err != nil || len(letters) > 0 {
					t.Errorf("%d letters in the broker's queue, %v", len(letters), err)
				}
			}
			if log := one.proxy.Logs(1000); !strings.Contains(log, "group \\\""+g+"\\\": ") || !strings.Contains(log, one.says) {
				t.Errorf("the log does not say %q: %s", one.says, log)
			}
			metrics, err := one.proxy.Metrics(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if series := fmt.Sprintf(`ackproxy_dlq_took_over_total{policy="dlq",why=%q} `, one.why); one.why != "" && !strings.Contains(metrics, series) {
				t.Errorf("no %s in the metrics", series)
			}
		})
	}
}

// writers reads letters, those of the proxy and those of the broker.
func writers(t *testing.T, ctx context.Context, c *kafka.Cluster, topic string) (ours, broker []*kgo.Record) {
	t.Helper()
	all, err := deadletter.Read(ctx, c.Bootstrap(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if _, is := deadletter.Header(r, "ackproxy.dlq.id"); is {
			ours = append(ours, r)
		} else {
			broker = append(broker, r)
		}
	}
	return ours, broker
}
