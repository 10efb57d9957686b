package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func port(p int32) string { return strconv.Itoa(int(p)) }

// produce writes count records in batches of ten, one batch a partition in turn, and waits for each.
func produce(ctx context.Context, a args) error {
	cl, err := kgo.NewClient(append(options(a), kgo.DefaultProduceTopic(a.topic), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	tick := time.NewTicker(max(a.interval, time.Millisecond))
	defer tick.Stop()
	done := 0
	for ; ctx.Err() == nil && (a.count == 0 || done < a.count); done += 10 {
		var batch []*kgo.Record
		for i := range 10 {
			value := fmt.Sprintf("%s-%d", a.topic, done+i)
			if done/10%10 == 9 {
				value += strings.Repeat(".", max(0, a.size-len(value)))
			}
			batch = append(batch, kgo.StringRecord(value))
		}
		// The records of a batch must not be lost to SIGTERM: the count that is printed is what the topic holds.
		if err := cl.ProduceSync(context.WithoutCancel(ctx), batch...).FirstErr(); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	say("closed", fields{"settled": done})
	return nil
}
