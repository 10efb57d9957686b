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
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
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

// Settle goes on until n deliveries are acknowledged, and the broker has said so. It returns them in their order.
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
	for len(all) < n {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return all, fmt.Errorf("group %s got %d of %d records: %w", c.Group, len(all), n, ctx.Err())
		}
		for _, r := range fs.Records() {
			status := kgo.AckReject
			if c.Ack != nil {
				status = c.Ack(r)
			}
			r.Ack(status)
			all = append(all, r)
		}
		if c.Carrier == OnShareAcknowledge {
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

// Topic makes a topic with settings, on as many brokers as there are up to three.
func Topic(ctx context.Context, cl *kgo.Client, name string, partitions int32, settings map[string]string) error {
	configs := map[string]*string{}
	for k, v := range settings {
		configs[k] = &v
	}
	_, err := kadm.NewClient(cl).CreateTopic(ctx, partitions, -1, configs, name)
	return err
}

// Finalize sets the level of a feature, up or down.
func Finalize(ctx context.Context, cl *kgo.Client, feature string, level int16, up bool) error {
	q := kmsg.NewPtrUpdateFeaturesRequest()
	one := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	one.Feature, one.MaxVersionLevel, one.UpgradeType = feature, level, 2 // 2 is down where nothing is lost by it
	if up {
		one.UpgradeType = 1
	}
	q.FeatureUpdates = append(q.FeatureUpdates, one)
	answer, err := q.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	err = kerr.ErrorForCode(answer.ErrorCode)
	for i := range answer.Results {
		err = errors.Join(err, kerr.ErrorForCode(answer.Results[i].ErrorCode))
	}
	return err
}
