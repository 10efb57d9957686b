package redrive

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/dlq/letter"
)

// choose makes the records to produce of those that were read.
func (r *run) choose(ctx context.Context, read []*kgo.Record, positions positions) ([]*kgo.Record, Result, error) {
	counts := Result{To: map[string]int{}}
	var out []*kgo.Record
	for _, rec := range read {
		info, headers, is := infoOf(rec)
		if is && r.Filter.Young(&info, r.now) {
			positions.stop(rec)
		}
		if !positions.take(rec) {
			continue
		}
		counts.Read++
		switch {
		case !is:
			counts.Skipped.NoLetter++
			continue
		case !r.Filter.Match(&info, r.now):
			counts.Filtered++
			continue
		case info.Payload == letter.Unavailable || info.Payload == "" && rec.Key == nil && rec.Value == nil:
			counts.Skipped.NoPayload++
			continue
		case r.MaxHops > 0 && info.Hops > r.MaxHops:
			counts.Skipped.Hops++
			continue
		}
		again, err := r.again(ctx, rec, &info, headers)
		if err != nil {
			return nil, counts, err
		}
		if again == nil {
			counts.Skipped.NoTopic++
			continue
		}
		counts.Redriven++
		counts.To[again.Topic]++
		out = append(out, again)
	}
	return out, counts, nil
}

// again is the record as it is to be produced: as it was, with the letter's id and hops, so that they are counted on if it is rejected once
// more. It is nil where there is no topic for it.
func (r *run) again(ctx context.Context, rec *kgo.Record, info *letter.Info, headers []policy.RecordHeader) (*kgo.Record, error) {
	topic := r.To
	if topic == "" {
		topic = info.Topic
	}
	n, err := r.partitionsOf(ctx, topic)
	if n <= 0 || err != nil {
		return nil, err
	}
	again := &kgo.Record{Topic: topic, Partition: max(info.Partition, 0) % int32(n), Key: rec.Key, Value: rec.Value}
	for _, h := range letter.Original(headers) {
		again.Headers = append(again.Headers, kgo.RecordHeader(h))
	}
	if info.ID != "" {
		again.Headers = append(again.Headers, kgo.RecordHeader{Key: letter.HeaderID, Value: []byte(info.ID)},
			kgo.RecordHeader{Key: letter.HeaderHops, Value: strconv.AppendInt(nil, int64(info.Hops), 10)})
	}
	return again, nil
}

// partitionsOf is how many partitions a target topic has, -1 where it does not exist.
func (r *run) partitionsOf(ctx context.Context, topic string) (int, error) {
	if topic == "" {
		return -1, nil
	}
	if n, known := r.partitions[topic]; known {
		return n, nil
	}
	all, err := r.admin.ListTopics(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("look up topic %s: %w", topic, err)
	}
	n := -1
	switch t := all[topic]; {
	case t.Err == nil && len(t.Partitions) > 0:
		n = len(t.Partitions)
	case t.Err != nil && !errors.Is(t.Err, kerr.UnknownTopicOrPartition):
		return 0, fmt.Errorf("look up topic %s: %w", topic, t.Err)
	case r.To != "":
		return 0, fmt.Errorf("topic %s: %w", topic, kerr.UnknownTopicOrPartition)
	}
	r.partitions[topic] = n
	return n, nil
}
