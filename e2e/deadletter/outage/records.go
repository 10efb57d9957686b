package outage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// valueBytes is how long the values of records are.
const valueBytes = 400

// produce writes records until ctx ends: none is like another.
func (r *run) produce(ctx context.Context) error {
	random := rand.NewChaCha8([32]byte{43})
	tick := time.NewTicker(r.Every)
	defer tick.Stop()
	for n := 0; ; n++ {
		var all []*kgo.Record
		for p := range int32(partitions) {
			for i := range 10 {
				value := make([]byte, valueBytes)
				_, _ = random.Read(value)
				key := fmt.Appendf(nil, "%d-%d-%d", p, n, i)
				all = append(all, &kgo.Record{Topic: r.Name, Partition: p, Key: key, Value: value, Headers: []kgo.RecordHeader{{Key: "trace", Value: key}}})
			}
		}
		if err := r.Source.Client().ProduceSync(context.WithoutCancel(ctx), all...).FirstErr(); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Read reads a topic to its end.
func Read(ctx context.Context, bootstrap, topic string) ([]*kgo.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	seeds := kgo.SeedBrokers(strings.Split(bootstrap, ",")...)
	cl, err := kgo.NewClient(seeds, kgo.ConsumeTopics(topic), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	var all []*kgo.Record
	for int64(len(all)) < left {
		all = append(all, cl.PollFetches(ctx).Records()...)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%d of %d records of %s: %w", len(all), left, topic, ctx.Err())
		}
	}
	return all, nil
}
