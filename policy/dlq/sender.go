package dlq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/policy/dlq/letter"
)

const (
	smallBatch   = 1 << 20 // bytes of a batch of several letters
	smallRecord  = smallBatch * 9 / 10
	batchRoom    = 64 << 10 // what a batch may need besides its record
	topicsMade   = 1024     // names of topics of which something is remembered
	maxBuffered  = 100_000
	maxRequest   = 8 << 20          // bytes of a request with many small letters: what is sent is there twice
	socketBytes  = 100 << 20        // of a request that brokers take by default (socket.request.max.bytes)
	writeTimeout = 10 * time.Second // a broker's own limit for a produce request
)

// sender produces to one cluster, with acks=all and idempotence. It has two clients: small letters share batches; large ones, and those of
// batches that were too large together, go one by one to each topic, so that "too large" is always said of a single record, and a topic that takes
// nothing keeps those of others from nothing.
type sender struct {
	small, alone *producer
	turns        turns // of alone
	create       *Create
	made         *lru.Cache[string, error] // topics that ensure has made, or why it could not
	running      sync.WaitGroup
	starting     sync.Mutex // of what is running
	closed       bool
}

func newSender(c *Cluster, cfg *Config) (*sender, error) {
	small, alone, err := senderOptions(c, cfg)
	if err != nil {
		return nil, err
	}
	s := &sender{create: cfg.Create}
	s.made, _ = lru.New[string, error](topicsMade) // fails for sizes below 1 only
	if s.small, err = newProducer(small...); err != nil {
		return nil, err
	}
	if s.alone, err = newProducer(alone...); err != nil {
		s.small.close()
		return nil, err
	}
	return s, nil
}

// senderOptions are those of a sender's two clients.
func senderOptions(c *Cluster, cfg *Config) (small, alone []kgo.Opt, err error) {
	opts, err := c.Options()
	if err != nil {
		return nil, nil, err
	}
	opts = append(opts, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.AllowIdempotentProduceCancellation(), kgo.ProduceRequestTimeout(writeTimeout),
		kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(sourcePartition)), kgo.MaxBufferedRecords(maxBuffered),
		kgo.MaxBufferedBytes(int(cfg.Memory+cfg.beside()+batchRoom)), kgo.ProducerLinger(0))
	largest := int32(cfg.MaxRecord + batchRoom)
	small = append(slices.Clone(opts), kgo.ProducerBatchMaxBytes(smallBatch), kgo.BrokerMaxWriteBytes(maxRequest))
	alone = append(slices.Clone(opts), kgo.ProducerBatchMaxBytes(largest), kgo.BrokerMaxWriteBytes(max(socketBytes, largest+batchRoom)),
		kgo.ProducerBatchCompression(kgo.ZstdCompression(), kgo.NoCompression()))
	return small, alone, nil
}

// sourcePartition spreads letters as brokers do: by the source's partition modulo the target's number of partitions.
func sourcePartition(string) func(*kgo.Record, int) int {
	return func(r *kgo.Record, n int) int { return int(uint32(r.Partition)) % n }
}

// close gives up on what is being produced, and waits for what that calls.
func (s *sender) close() {
	s.starting.Lock()
	s.closed = true
	s.starting.Unlock()
	s.small.close()
	s.alone.close()
	s.running.Wait()
}

// produce begins to produce a letter, and calls done once the cluster has it, has refused it, or ctx has ended. done may be called before
// produce returns. When ctx ends first, the letter may be there all the same.
func (s *sender) produce(ctx context.Context, l *letter.Record, done func(error)) {
	topic := l.Topic
	told := func(err error) { done(s.forget(topic, err)) }
	if l.Size() > smallRecord {
		s.produceAlone(ctx, l, told)
		return
	}
	s.small.produce(ctx, kafkaRecord(l), func(err error) {
		if errors.Is(err, kerr.MessageTooLarge) { // maybe because of the company it was in
			s.produceAlone(ctx, l, told)
			return
		}
		told(err)
	})
}

func (s *sender) produceAlone(ctx context.Context, l *letter.Record, done func(error)) {
	s.starting.Lock()
	closed := s.closed
	if !closed {
		s.running.Go(func() { s.inTurn(ctx, l, done) })
	}
	s.starting.Unlock()
	if closed {
		done(kgo.ErrClientClosed)
	}
}

// inTurn produces one letter once no other is under way to its topic.
func (s *sender) inTurn(ctx context.Context, l *letter.Record, done func(error)) {
	topic := l.Topic
	if err := s.turns.take(ctx, topic); err != nil {
		done(err)
		return
	}
	s.alone.produce(ctx, kafkaRecord(l), func(err error) {
		s.turns.give(topic)
		done(err)
	})
}

// turns let one at a time through for each topic. The zero turns are free.
type turns struct {
	mu sync.Mutex
	of map[string]*turn // topics that somebody uses, or waits for
}

type turn struct {
	token chan struct{} // has one while somebody uses the topic
	users int           // with those who wait
}

// take waits until nobody else uses the topic, which is the caller's then until give. It fails when ctx ends first.
func (t *turns) take(ctx context.Context, topic string) error {
	one := t.enter(topic)
	select {
	case one.token <- struct{}{}:
		return nil
	case <-ctx.Done():
		t.leave(topic)
		return ctx.Err()
	}
}

func (t *turns) give(topic string) { <-t.leave(topic).token }

func (t *turns) enter(topic string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.of[topic]
	if one == nil {
		if t.of == nil {
			t.of = make(map[string]*turn)
		}
		one = &turn{token: make(chan struct{}, 1)}
		t.of[topic] = one
	}
	one.users++
	return one
}

// leave forgets a topic that nobody uses any more.
func (t *turns) leave(topic string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.of[topic]
	if one.users--; one.users == 0 {
		delete(t.of, topic)
	}
	return one
}

// topics is how many are used.
func (t *turns) topics() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.of)
}

func kafkaRecord(l *letter.Record) *kgo.Record {
	r := &kgo.Record{Topic: l.Topic, Partition: l.Partition, Key: l.Key, Value: l.Value, Headers: make([]kgo.RecordHeader, len(l.Headers))}
	if l.Timestamp != 0 {
		r.Timestamp = time.UnixMilli(l.Timestamp)
	}
	for i, h := range l.Headers {
		r.Headers[i] = kgo.RecordHeader(h)
	}
	return r
}

// ensure makes a topic where the configuration wants that, once. What goes wrong shows when producing to it: the topic may be there all the same, and
// not for us to make.
func (s *sender) ensure(ctx context.Context, topic string) {
	if s.create == nil || s.made.Contains(topic) {
		return
	}
	_, err := kadm.NewClient(s.small.get()).CreateTopic(ctx, int32(s.create.Partitions), int16(s.create.Replication), s.create.configs(), topic)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		err = nil
	}
	s.made.Add(topic, err)
}

// configs are those of the topics that are made.
func (c *Create) configs() map[string]*string {
	return map[string]*string{"retention.ms": kadm.StringPtr(fmt.Sprint(c.Retention.Milliseconds())), "cleanup.policy": kadm.StringPtr("delete")}
}

// forget has ensure make a topic again that is not there any more, or that it could not make, which the error says then. Other errors say nothing of
// that, and ensure needs the controller to be there.
func (s *sender) forget(topic string, err error) error {
	if err == nil || tooLarge(err) {
		return err
	}
	why, _ := s.made.Peek(topic)
	if why != nil || errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID) {
		s.made.Remove(topic)
	}
	if why != nil {
		err = &notMade{err, why}
	}
	return err
}

// notMade is an error of producing to a topic that could not be made.
type notMade struct{ err, why error }

// Error says both.
func (e *notMade) Error() string {
	return fmt.Sprintf("%v, and the topic could not be made: %v", e.err, e.why)
}

// Unwrap returns the error of producing.
func (e *notMade) Unwrap() error { return e.err }

// cause is an error in few words, for the audit log.
func cause(err error) string {
	var coded *kerr.Error
	var missing *notMade
	switch {
	case errors.As(err, &missing):
		return cause(missing.err) + ", and the topic could not be made: " + cause(missing.why)
	case errors.As(err, &coded):
		return coded.Message
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, kgo.ErrRecordTimeout):
		return "no answer in time"
	}
	return err.Error()
}
