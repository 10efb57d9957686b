package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/e2e/deadletter"
	"github.com/ackproxy/ackproxy/e2e/gateway"
	"github.com/ackproxy/ackproxy/e2e/kafka"
)

// largest is the size of the largest value; its topics take somewhat more.
const largest = 5 << 20

// samples are records of all forms that a producer can give one.
func samples(topic string, large bool) []*kgo.Record {
	chance := rand.NewChaCha8([32]byte{1})
	value := func(n int) []byte { // half of it compresses
		b := make([]byte, n)
		_, _ = chance.Read(b[:n/2])
		return b
	}
	headers := func(n int) (all []kgo.RecordHeader) {
		for i := range n {
			all = append(all, kgo.RecordHeader{Key: fmt.Sprint("h", i/2), Value: value(i)}) // each name twice
		}
		return all
	}
	all := []*kgo.Record{
		{Key: []byte("k"), Value: []byte{0}},
		{Value: []byte("null key")},
		{Key: []byte("null value")},
		{Key: []byte("empty value"), Value: []byte{}},
		{Key: []byte{}, Value: []byte("empty key")},
		{},
		{Key: []byte{0xff, 0, 0xfe}, Value: value(100), Headers: headers(50)},
		{Key: []byte("odd headers"), Headers: []kgo.RecordHeader{{Key: ""}, {Key: "null"}, {Key: "empty", Value: []byte{}},
			{Key: "\xff\xfe", Value: []byte{0}}}},
		{Key: value(1000), Value: value(1 << 10)},
		{Value: value(64 << 10), Timestamp: time.UnixMilli(1_000_000_000_123)},
	}
	if large {
		all = append(all, &kgo.Record{Key: []byte("large"), Value: value(1 << 20)}, &kgo.Record{Key: []byte("largest"), Value: value(largest)})
	}
	for _, r := range all {
		r.Topic = topic
	}
	return all
}

// unaltered says whether a letter has the key, the value and the headers of a record, and their null-ness. What it has beside is ours.
func unaltered(letter, r *kgo.Record) bool {
	equal := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	if !equal(letter.Key, r.Key) || !equal(letter.Value, r.Value) || len(letter.Headers) < len(r.Headers) {
		return false
	}
	for i, h := range r.Headers {
		if letter.Headers[i].Key != h.Key || !equal(letter.Headers[i].Value, h.Value) {
			return false
		}
	}
	return letter.Headers[len(r.Headers)].Key == "__dlq.errors.topic"
}

// large makes a topic of one partition that takes the largest record. A broker compresses what comes otherwise than the topic's way.
func large(t *testing.T, c *kafka.Cluster, name, compression string) {
	t.Helper()
	settings := map[string]string{"max.message.bytes": fmt.Sprint(largest + 1<<20), "compression.type": compression}
	if err := deadletter.Topic(t.Context(), c.Client(), name, 1, settings); err != nil {
		t.Fatal(err)
	}
}

// write produces records, some compressed by Go's libraries, others, in a transaction, by the broker, and returns what the topic has then.
func write(t *testing.T, ctx context.Context, c *kafka.Cluster, topic string, codec kgo.CompressionCodec) []*kgo.Record {
	t.Helper()
	for _, transaction := range []bool{false, true} {
		opts := []kgo.Opt{kgo.SeedBrokers(c.Bootstrap()), kgo.ProducerLinger(10 * time.Millisecond), kgo.ProducerBatchMaxBytes(largest + 1<<19)}
		if transaction {
			opts = append(opts, kgo.TransactionalID(topic), kgo.ProducerBatchCompression(kgo.NoCompression()))
		} else {
			opts = append(opts, kgo.ProducerBatchCompression(codec))
		}
		p, err := kgo.NewClient(opts...)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if transaction {
			err = p.BeginTransaction()
		}
		if err == nil {
			err = p.ProduceSync(ctx, samples(topic, !transaction)...).FirstErr()
		}
		if err == nil && transaction {
			err = p.EndTransaction(ctx, kgo.TryCommit)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want := len(samples(topic, true)) + len(samples(topic, false))
	var all []*kgo.Record
	until(t, time.Minute, "the transaction's end", func() (whole bool) { // its markers are written after it is answered
		var err error
		if all, err = deadletter.Read(ctx, c.Bootstrap(), topic); err != nil {
			t.Fatal(err)
		}
		return len(all) == want
	})
	return all
}

// TestDeadLetterBytes: whatever a record is like, its dead letter has the same bytes: on both carriers, in all compressions, as the record passed by
// and as it is fetched again where it was not kept.
func TestDeadLetterBytes(t *testing.T) {
	c := cluster(t, kafka.Versions[0], 1)
	ctx := within(t, 2*time.Minute)
	kept := proxy(t, c, gateway.Options{Args: deadLetters(t, c, "256MiB", map[string]any{"topic": "dlq.{topic}.{group}", "budget": "10s"})})
	none := proxy(t, c, gateway.Options{Args: deadLetters(t, c, "0", map[string]any{"topic": "dlq.{topic}.{group}", "budget": "10s"})})
	some := proxy(t, c, gateway.Options{Args: deadLetters(t, c, "1MiB", map[string]any{"topic": "dlq.{topic}.{group}", "budget": "10s"})})
	ways := []struct {
		carrier        deadletter.Carrier
		through        *gateway.Gateway
		group, payload string
	}{
		{deadletter.OnShareFetch, kept, group(t, c, "f", nil), "full"}, {deadletter.OnShareAcknowledge, kept, group(t, c, "a", nil), "full"},
		{deadletter.OnShareAcknowledge, none, group(t, c, "r", nil), "refetched"},
		{deadletter.OnShareAcknowledge, some, group(t, c, "s", nil), "either"},
	}
	codecs := map[string]kgo.CompressionCodec{"uncompressed": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := "bytes-" + name
			large(t, c, topic, name)
			written := write(t, ctx, c, topic, codec)
			for _, way := range ways {
				target := "dlq." + topic + "." + way.group
				large(t, c, target, "producer")
				reject := deadletter.Consumer{Bootstrap: way.through.Bootstrap(), Group: way.group, Topic: topic, Carrier: way.carrier, Poll: 5}
				if _, err := reject.Settle(ctx, len(written)); err != nil {
					t.Fatal(err)
				}
				letters, err := deadletter.Read(ctx, c.Bootstrap(), target)
				if err != nil {
					t.Fatal(err)
				}
				identical(t, target, letters, written, way.payload, way.carrier)
			}
		})
	}
}

// identical says what is wrong with the letters of records.
func identical(t *testing.T, topic string, letters, records []*kgo.Record, payload string, carrier deadletter.Carrier) {
	t.Helper()
	if len(letters) != len(records) {
		t.Errorf("%s: %d letters of %d records", topic, len(letters), len(records))
	}
	by, carried, from := map[string]*kgo.Record{}, map[string]int{}, map[string]int{}
	for _, l := range letters {
		at, _ := deadletter.Header(l, "__dlq.errors.offset")
		by[at] = l
		api, _ := deadletter.Header(l, "ackproxy.api")
		carried[api]++
		got, _ := deadletter.Header(l, "ackproxy.payload")
		if from[got]++; got != payload && payload != "either" {
			why, _ := deadletter.Header(l, "ackproxy.payload.reason")
			t.Errorf("%s: offset %s: the payload is %s (%s), want %s", topic, at, got, why, payload)
		}
	}
	for _, r := range records {
		l := by[fmt.Sprint(r.Offset)]
		if l == nil || !unaltered(l, r) {
			t.Errorf("%s: offset %d, %d bytes: another record than the letter", topic, r.Offset, len(r.Value))
			continue
		}
		stamp, _ := deadletter.Header(l, "ackproxy.timestamp")
		if stamp != fmt.Sprint(r.Timestamp.UnixMilli()) {
			t.Errorf("%s: offset %d: time %s, want %v", topic, r.Offset, stamp, r.Timestamp.UnixMilli())
		}
	}
	t.Logf("%s: %d letters, carried by %v, payloads %v", topic, len(letters), carried, from)
	if payload == "either" && (from["full"] == 0 || from["refetched"] == 0 || from["unavailable"] > 0) {
		t.Errorf("%s: payloads %v, want some that passed by and some that were lost since", topic, from)
	}
	if carried[string(carrier)] == 0 {
		t.Errorf("%s: none was rejected on %s", topic, carrier)
	}
}
