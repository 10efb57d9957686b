package dlq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const renewPause = time.Second // the least between two clients

// producer is a client that is replaced when it has become useless: one whose producer id was refused stays so for ever. So does a topic in it that
// was deleted and made anew: the client has to forget it.
type producer struct {
	make func() (*kgo.Client, error)

	mu      sync.Mutex
	client  *kgo.Client
	made    time.Time
	anew    *lru.Cache[string, int] // how often each topic was forgotten
	closed  bool
	closing sync.WaitGroup // of clients that were replaced, and of topics that are being forgotten
}

func newProducer(opts ...kgo.Opt) (*producer, error) {
	p := &producer{make: func() (*kgo.Client, error) { return kgo.NewClient(opts...) }, made: time.Now()}
	var err error
	p.anew, _ = lru.New[string, int](topicsMade)
	if p.client, err = p.make(); err != nil {
		return nil, fmt.Errorf("a client for dead letters: %w", err)
	}
	return p, nil
}

func (p *producer) get() *kgo.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.client
}

// produce produces a record. done is called once, never by the calling goroutine while it is in produce.
func (p *producer) produce(ctx context.Context, r *kgo.Record, done func(error)) {
	client, times := p.use(r.Topic)
	client.TryProduce(ctx, r, func(_ *kgo.Record, err error) {
		switch {
		case useless(err):
			p.renew(client)
		case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.UnknownTopicOrPartition):
			p.forget(client, r.Topic, times)
		}
		done(err)
	})
}

// use returns the client, and how often it has forgotten a topic.
func (p *producer) use(topic string) (*kgo.Client, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	times, _ := p.anew.Get(topic)
	return p.client, times
}

// forget has a client forget a topic that is not there, or whose id is another one now, unless it has done so since: it would ask for the one as often
// as it may, and never know the other. What is under way to it fails.
func (p *producer) forget(client *kgo.Client, topic string, times int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now, _ := p.anew.Get(topic); p.closed || p.client != client || now != times {
		return
	}
	p.anew.Add(topic, times+1)
	p.closing.Go(func() { client.PurgeTopicsFromProducing(topic) }) // it waits for metadata, and must not be waited for here
}

// useless says whether an error is about the client's producer id, and not about the record.
func useless(err error) bool {
	for _, one := range [...]error{kerr.ClusterAuthorizationFailed, kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.UnknownProducerID,
		kerr.OutOfOrderSequenceNumber, kerr.InvalidProducerIDMapping} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

// renew replaces a client. What it has under way fails, and is spooled.
func (p *producer) renew(old *kgo.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.client != old || time.Since(p.made) < renewPause {
		return
	}
	client, err := p.make()
	if err != nil {
		return // the old one will do as well
	}
	p.client, p.made = client, time.Now()
	p.closing.Go(old.Close)
}

func (p *producer) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.client.Close()
	p.closing.Wait()
}
