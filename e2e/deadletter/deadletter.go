// Package deadletter helps tests of dead letters on real brokers: it configures the policy, rejects records as a share consumer of either carrier,
// and reads topics back.
package deadletter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Configure writes a configuration of the program with the policy dlq, for letters to and records from the brokers at bootstrap, and returns the
// flags that name it. Further settings of the policy replace these; keepRecords is protocol.keep_records, "" its default.
func Configure(dir, bootstrap, keepRecords string, further map[string]any) ([]string, error) {
	cluster := map[string]any{"bootstrap": strings.Split(bootstrap, ",")}
	policy := map[string]any{"cluster": cluster, "source": cluster}
	maps.Copy(policy, further)
	all := map[string]any{"policies": []any{map[string]any{"name": "dlq", "builtin": "dlq", "on_failure": "respond", "config": policy}}}
	if keepRecords != "" {
		all["protocol"] = map[string]any{"keep_records": keepRecords}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "ackproxy.yaml") // JSON is YAML
	return []string{"--config", path}, os.WriteFile(path, text, 0o600)
}

// Carrier is the message that acknowledgements ride on.
type Carrier string

// The carriers, as the header ackproxy.api spells them.
const (
	OnShareFetch       Carrier = "ShareFetch"
	OnShareAcknowledge Carrier = "ShareAcknowledge"
)

// Consumer settles records as a member of a share group.
type Consumer struct {
	Bootstrap, Group, Topic string
	Carrier                 Carrier
	Poll                    int // records a poll, at most; 0: as many as come
	// Ack is what to do with a record; nil rejects all.
	Ack func(*kgo.Record) kgo.AckStatus
}

// Settle goes on until n records are accepted or rejected, and the broker has said so. It returns all deliveries, in their order.
func (c Consumer) Settle(ctx context.Context, n int) ([]*kgo.Record, error) {
	var mu sync.Mutex
	var refused error
	results := func(_ *kgo.Client, all kgo.ShareAckResults) {
		mu.Lock()
		defer mu.Unlock()
		refused = errors.Join(refused, all.Error())
	}
	opts := []kgo.Opt{kgo.SeedBrokers(strings.Split(c.Bootstrap, ",")...), kgo.ShareGroup(c.Group), kgo.ConsumeTopics(c.Topic), kgo.ClientID("settler"),
		kgo.FetchMaxWait(200 * time.Millisecond), kgo.ShareAckCallback(results)}
	if c.Poll > 0 {
		opts = append(opts, kgo.ShareMaxRecords(int32(c.Poll)), kgo.ShareMaxRecordsStrict())
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var all []*kgo.Record
	for settled := 0; settled < n; {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return all, fmt.Errorf("group %s settled %d of %d records: %w", c.Group, settled, n, ctx.Err())
		}
		for _, r := range fs.Records() {
			status := kgo.AckReject
			if c.Ack != nil {
				status = c.Ack(r)
			}
			r.Ack(status)
			if status != kgo.AckRelease {
				settled++
			}
			all = append(all, r)
		}
		if c.Carrier == OnShareAcknowledge || settled >= n && c.Carrier == "" {
			if err := cl.FlushAcks(ctx); err != nil {
				return all, err
			}
		}
	}
	if c.Carrier == OnShareFetch { // one more fetch carries what was acknowledged last
		one, cancel := context.WithTimeout(ctx, time.Second)
		cl.PollFetches(one)
		cancel()
	}
	if err := cl.FlushAcks(ctx); err != nil {
		return all, err
	}
	mu.Lock()
	defer mu.Unlock()
	return all, refused
}

// Read returns all committed records that a topic has now, by partition and offset.
func Read(ctx context.Context, bootstrap, topic string) ([]*kgo.Record, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeTopics(topic),
		kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond), kgo.FetchMaxBytes(16<<20), kgo.FetchMaxPartitionBytes(16<<20))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
	if err = errors.Join(err, ends.Error()); err != nil {
		return nil, err
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	var all []*kgo.Record
	for len(left) > 0 {
		fs := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %d partitions are left: %w", topic, len(left), err)
		}
		for _, r := range fs.Records() {
			if !r.Attrs.IsControl() {
				all = append(all, r)
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		}
	}
	return all, nil
}

// Header is the last header of a name, as readers of dead letters take it; ok says whether there is one.
func Header(r *kgo.Record, name string) (value string, ok bool) {
	for _, h := range r.Headers {
		if h.Key == name {
			value, ok = string(h.Value), true
		}
	}
	return value, ok
}
