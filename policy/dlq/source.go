package dlq

import (
	"context"
	"errors"
	"fmt"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
)

const (
	fetchBytes   = 1 << 20 // of one answer; a broker sends the first batch whole, however large
	sourceTopics = 1024    // whose leaders are remembered
	fetchVersion = 13      // the first with topic ids
)

// source reads from the cluster that the proxy stands before, with the policy's own credentials.
type source struct {
	client *kgo.Client
	topics *lru.Cache[codec.UUID, *sourceTopic]
	room   *room // of answers, and of what they decompress to
}

func newSource(c *Cluster, memory int64) (*source, error) {
	opts, err := c.Options()
	if err != nil {
		return nil, err
	}
	s := &source{room: newRoom(memory)}
	s.topics, _ = lru.New[codec.UUID, *sourceTopic](sourceTopics) // fails for sizes below 1 only
	if s.client, err = kgo.NewClient(opts...); err != nil {
		return nil, fmt.Errorf("a client for the source: %w", err)
	}
	return s, nil
}

// sourceTopic is what metadata says of a topic, once it was asked.
type sourceTopic struct {
	id      codec.UUID
	mu      sync.Mutex
	name    string
	leaders map[int32]int32 // nil: ask
}

func (s *source) topic(id codec.UUID) *sourceTopic {
	t := &sourceTopic{id: id}
	if before, found, _ := s.topics.PeekOrAdd(id, t); found {
		return before
	}
	return t
}

func (t *sourceTopic) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leaders = nil
}

// look asks for the topic's name and leaders, unless they are known.
func (s *source) look(ctx context.Context, t *sourceTopic) (name string, leaders map[int32]int32, err error) {
	t.mu.Lock()
	name, leaders = t.name, t.leaders
	t.mu.Unlock()
	if leaders != nil {
		return name, leaders, nil
	}
	q := kmsg.NewPtrMetadataRequest()
	one := kmsg.NewMetadataRequestTopic()
	one.TopicID = t.id
	q.Topics = append(q.Topics, one)
	answer, err := q.RequestWith(ctx, s.client)
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("metadata: %w", err)
	case len(answer.Topics) != 1 || answer.Topics[0].TopicID != t.id:
		return "", nil, errNoSource
	}
	found := &answer.Topics[0]
	if err := kerr.ErrorForCode(found.ErrorCode); err != nil {
		return "", nil, fmt.Errorf("metadata: %w", err)
	}
	leaders = make(map[int32]int32, len(found.Partitions))
	for i := range found.Partitions {
		leaders[found.Partitions[i].Partition] = found.Partitions[i].Leader
	}
	if found.Topic != nil {
		name = *found.Topic
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.name, t.leaders = name, leaders
	return name, leaders, nil
}

// fetch reads record batches, from the one on that holds an offset. They are views of the whole answer.
func (s *source) fetch(ctx context.Context, t *sourceTopic, partition int32, offset int64) ([]byte, error) {
	name, leaders, err := s.look(ctx, t)
	if err != nil {
		return nil, err
	}
	leader, known := leaders[partition]
	if !known || leader < 0 {
		return nil, kerr.LeaderNotAvailable
	}
	answer, err := s.client.Broker(int(leader)).Request(ctx, fetchRequest(name, t.id, partition, offset))
	if err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	read := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(read.ErrorCode); err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	if read.Version < fetchVersion || len(read.Topics) != 1 || len(read.Topics[0].Partitions) != 1 {
		return nil, errors.New("fetch: the broker does not know topic ids")
	}
	p := &read.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	return p.RecordBatches, nil
}

func fetchRequest(name string, id codec.UUID, partition int32, offset int64) *kmsg.FetchRequest {
	q := kmsg.NewPtrFetchRequest()
	q.MaxBytes, q.MinBytes, q.SessionEpoch = fetchBytes, 0, -1 // read uncommitted, as share groups do
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = name, id
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, fetchBytes
	topic.Partitions = append(topic.Partitions, p)
	q.Topics = append(q.Topics, topic)
	return q
}

// permanent says that a fetch fails for each offset of the partition alike.
func permanent(err error) bool {
	return errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, errNoSource)
}
