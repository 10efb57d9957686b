package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/e2e/deadletter"
	"github.com/ackproxy/ackproxy/e2e/gateway"
	"github.com/ackproxy/ackproxy/e2e/kafka"
)

// settle rejects the first record of each partition, the second when it is delivered again, and releases the third until the broker has enough.
func settle(r *kgo.Record) kgo.AckStatus {
	if r.Offset == 0 || r.Offset == 1 && r.DeliveryCount() > 1 {
		return kgo.AckReject
	}
	return kgo.AckRelease
}

// stock is what a reader that knows brokers' dead letters takes from one: the place of the record, then all that it knows, in its order.
func stock(r *kgo.Record) (place, facts string) {
	topic, _ := deadletter.Header(r, "__dlq.errors.topic")
	partition, _ := deadletter.Header(r, "__dlq.errors.partition")
	offset, _ := deadletter.Header(r, "__dlq.errors.offset")
	var all strings.Builder
	for _, h := range r.Headers {
		if strings.HasPrefix(h.Key, "__dlq.") {
			fmt.Fprintf(&all, "%s=%q ", h.Key, h.Value)
		}
	}
	return topic + "/" + partition + "/" + offset, fmt.Sprintf("in partition %d: %s", r.Partition, all.String())
}

// TestStockHeaders: for a reader of brokers' dead letters ours are the same as those that a broker writes for the same rejections; those of the
// profile spring have what Spring's readers take.
func TestStockHeaders(t *testing.T) {
	c := cluster(t, kafka.Versions[0], 1)
	ctx := within(t, time.Minute)
	name, _ := topic(t, c)
	for p := range int32(partitions) {
		for i := range 3 {
			r := &kgo.Record{Topic: name, Partition: p, Key: fmt.Append(nil, "k", i), Value: fmt.Append(nil, "v", p, i),
				Timestamp: time.UnixMilli(1_000_000_000_000 + int64(i)), Headers: []kgo.RecordHeader{{Key: "own", Value: []byte{1}}}}
			if err := c.Client().ProduceSync(ctx, r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	targets := map[string]map[string]string{"dlq." + name: nil, "dlq.spring." + name: nil, "dlq.broker." + name: {queueAllowed: "true"}}
	for target, settings := range targets {
		if err := deadletter.Topic(ctx, c.Client(), target, 2, settings); err != nil {
			t.Fatal(err)
		}
	}
	kip := proxy(t, c, gateway.Options{Args: deadLetters(t, c, "", nil)})
	spring := proxy(t, c, gateway.Options{Args: deadLetters(t, c, "", map[string]any{"profile": "spring", "topic": "dlq.spring.{topic}"})})
	letters := map[string][]*kgo.Record{}
	const limit, each = "share.delivery.count.limit", 3
	for target, way := range map[string]struct {
		through  *gateway.Gateway
		settings map[string]string
	}{
		"dlq." + name:        {kip, map[string]string{limit: "2"}},
		"dlq.spring." + name: {spring, map[string]string{limit: "2"}},
		"dlq.broker." + name: {kip, map[string]string{limit: "2", queueTopic: "dlq.broker." + name, queueCopies: "true"}},
	} {
		g := group(t, c, target[:8], way.settings)
		consumer := deadletter.Consumer{Bootstrap: way.through.Bootstrap(), Group: g, Topic: name, Ack: settle}
		if _, err := consumer.Settle(ctx, partitions*(1+2+2)); err != nil {
			t.Fatal(err)
		}
		until(t, 30*time.Second, "letters in "+target, func() bool {
			all, err := deadletter.Read(ctx, c.Bootstrap(), target)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range all { // what they have to differ in
				for i, h := range r.Headers {
					r.Headers[i].Value = bytes.ReplaceAll(h.Value, []byte(g), []byte("G"))
				}
			}
			letters[target] = all
			return len(all) >= partitions*each
		})
	}
	sameAsBroker(t, letters["dlq."+name], letters["dlq.broker."+name])
	springs(t, name, letters["dlq.spring."+name])
}

// sameAsBroker compares what a stock reader sees.
func sameAsBroker(t *testing.T, ours, brokers []*kgo.Record) {
	t.Helper()
	if len(ours) != len(brokers) {
		t.Errorf("%d letters, the broker wrote %d", len(ours), len(brokers))
	}
	want := map[string]*kgo.Record{}
	for _, r := range brokers {
		place, _ := stock(r)
		want[place] = r
	}
	for _, r := range ours {
		place, facts := stock(r)
		broker := want[place]
		if broker == nil {
			t.Errorf("the broker wrote none of %s", place)
			continue
		}
		if _, expected := stock(broker); facts != expected || len(broker.Headers) != 6 {
			t.Errorf("%s: %s\nthe broker: %s", place, facts, expected)
		}
		if !bytes.Equal(r.Key, broker.Key) || !bytes.Equal(r.Value, broker.Value) {
			t.Errorf("%s: %q=%q, the broker: %q=%q", place, r.Key, r.Value, broker.Key, broker.Value)
		}
		if h := r.Headers[0]; h.Key != "own" || !bytes.Equal(h.Value, []byte{1}) {
			t.Errorf("%s: the record's own header is %q", place, h)
		}
		t.Log(place, facts)
	}
}

// springs reads letters of the profile spring as Spring does: numbers are big-endian, of four or eight bytes.
func springs(t *testing.T, topic string, letters []*kgo.Record) {
	t.Helper()
	seen := map[string]bool{}
	for _, r := range letters {
		header := func(name string) []byte {
			s, ok := deadletter.Header(r, "kafka_dlt-"+name)
			if !ok {
				t.Errorf("no kafka_dlt-%s: %q", name, r.Headers)
			}
			return []byte(s)
		}
		partition, offset, stamp := header("original-partition"), header("original-offset"), header("original-timestamp")
		if len(partition) != 4 || len(offset) != 8 || len(stamp) != 8 {
			t.Fatalf("partition %x, offset %x, timestamp %x", partition, offset, stamp)
		}
		p, o, at := binary.BigEndian.Uint32(partition), binary.BigEndian.Uint64(offset), binary.BigEndian.Uint64(stamp)
		message := "Offset rejected by client."
		if o == 2 {
			message = "Offset delivery count exceeded the threshold."
		}
		text := fmt.Sprintf("%s %s %s %s", header("original-topic"), header("original-timestamp-type"), header("original-consumer-group"),
			header("exception-message"))
		want := fmt.Sprintf("%s CreateTime G %s", topic, message)
		if text != want || at != 1_000_000_000_000+o || string(r.Value) != fmt.Sprint("v", p, o) {
			t.Errorf("%s, at %d, value %q; want %s", text, at, r.Value, want)
		}
		seen[fmt.Sprint(p, o)] = true
	}
	if len(seen) != partitions*3 || len(letters) != len(seen) {
		t.Errorf("%d letters of %v", len(letters), seen)
	}
}
