package redrive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// DefaultMaxHops is the MaxHops of a redrive that nothing is said of.
const DefaultMaxHops = 3

// Options say what is redriven.
type Options struct {
	Client  []kgo.Opt // how to reach the cluster
	Topic   string    // dead letters
	To      string    // another topic than each letter's own
	Group   string    // whose committed offsets are the position; empty: made of topic, filter, To and MaxHops
	Filter  Filter
	Rate    int // records a second at most; 0 is no limit
	MaxHops int // letters of more hops are left; 0 is no limit
	DryRun  bool

	Progress func(done, total int64) // offsets of the dead-letter topic
	Now      func() time.Time        // nil is time.Now
}

// Result is what a redrive did, or would do.
type Result struct {
	Topic     string         `json:"topic"`
	Group     string         `json:"group"`
	DryRun    bool           `json:"dry_run"`
	Read      int64          `json:"read"`
	Redriven  int64          `json:"redriven"`
	To        map[string]int `json:"to"` // by topic
	Filtered  int64          `json:"filtered"`
	Skipped   Skipped        `json:"skipped"`
	Younger   int64          `json:"younger"` // offsets that stay for a later run, from each partition's first letter on that is not old enough yet
	Done      bool           `json:"done"`    // all that was there at the beginning is behind us, but for those
	Remaining int64          `json:"remaining"`
}

// Skipped is what could not be redriven, or was not to be. The position is past it.
type Skipped struct {
	Hops      int64 `json:"hops"`       // more than allowed
	NoPayload int64 `json:"no_payload"` // there are only headers
	NoTopic   int64 `json:"no_topic"`   // nothing says where it came from, or that topic is gone
	NoLetter  int64 `json:"no_letter"`  // another record
}

func (r *Result) add(o *Result) {
	r.Read += o.Read
	r.Redriven += o.Redriven
	r.Filtered += o.Filtered
	r.Skipped.Hops += o.Skipped.Hops
	r.Skipped.NoPayload += o.Skipped.NoPayload
	r.Skipped.NoTopic += o.Skipped.NoTopic
	r.Skipped.NoLetter += o.Skipped.NoLetter
	for topic, n := range o.To {
		r.To[topic] += n
	}
}

// run is one call of Run.
type run struct {
	Options
	result     Result
	partitions map[string]int // of target topics, -1 where there is none
	admin      *kadm.Client
	begun      time.Time
	now        time.Time // by which letters are old enough, or not, throughout
}

// Run redrives what the topic has now. When it is interrupted, by ctx too, another run of the same group goes on where it ended. Two runs of one
// group at the same time are not possible: the later one ends the earlier.
func Run(ctx context.Context, o Options) (Result, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Group == "" {
		o.Group = groupOf(o)
	}
	r := &run{Options: o, partitions: make(map[string]int), begun: time.Now(), now: o.Now(),
		result: Result{Topic: o.Topic, Group: o.Group, DryRun: o.DryRun, To: map[string]int{}}}
	if o.To == o.Topic {
		return r.result, fmt.Errorf("%s: a topic cannot be redriven to itself", o.Topic)
	}
	cl, err := kgo.NewClient(o.Client...)
	if err != nil {
		return r.result, err
	}
	defer cl.Close()
	r.admin = kadm.NewClient(cl)
	committed, err := r.admin.FetchOffsets(ctx, o.Group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return r.result, fmt.Errorf("fetch the offsets of group %s: %w", o.Group, err)
	}
	if o.DryRun {
		err = r.look(ctx, committed)
	} else {
		err = r.move(ctx, committed)
	}
	return r.result, err
}

// groupOf names a position. Another filter, another target, or another limit of hops is another redrive, with a position of its own: what one
// leaves for good the other may choose.
func groupOf(o Options) string {
	name := "ackproxy-redrive." + o.Topic
	extra := o.Filter.String() + "\n" + o.To
	if o.MaxHops != DefaultMaxHops { // which has the name that it had before limits were part of it
		extra += "\n" + strconv.Itoa(o.MaxHops)
	}
	if extra != "\n" {
		sum := sha256.Sum256([]byte(extra))
		name += "." + hex.EncodeToString(sum[:6])
	}
	return name
}

// look counts what move would do.
func (r *run) look(ctx context.Context, committed kadm.OffsetResponses) error {
	reader, err := newReader(ctx, r.Client, []string{r.Topic}, committed)
	if err != nil {
		return err
	}
	defer reader.client.Close()
	for !reader.positions.reached() {
		records, err := reader.poll(ctx)
		if err != nil {
			return err
		}
		_, counts, err := r.choose(ctx, records, reader.positions)
		if err != nil {
			return err
		}
		r.result.add(&counts)
		r.progress(reader.positions)
	}
	r.result.Done, r.result.Younger = true, reader.positions.younger()
	return nil
}

// move reads and produces, a transaction for each batch that is read.
func (r *run) move(ctx context.Context, committed kadm.OffsetResponses) error {
	positions, err := spans(ctx, r.admin, []string{r.Topic}, committed)
	if err != nil {
		return err
	}
	_, total := positions.done()
	r.result.Remaining = total
	if positions.reached() {
		r.result.Done = true
		return nil
	}
	s, err := kgo.NewGroupTransactSession(append(append(r.Client, reading()...), kgo.ConsumerGroup(r.Group), kgo.TransactionalID(r.Group),
		kgo.InstanceID(r.Group), // takes the place of one that was killed; a member of another name would wait until that has timed out
		kgo.ConsumeTopics(r.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionTimeout(transactionTime),
		kgo.ProducerBatchMaxBytes(largestBatch), kgo.ProducerBatchCompression(kgo.ZstdCompression(), kgo.NoCompression()))...)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, _, err := s.Client().ProducerID(ctx); err != nil { // ends the transaction that one was killed in, and with it the wait for its offsets
		return fmt.Errorf("take over from an earlier redrive: %w", err)
	}
	for !positions.reached() {
		if err := r.transaction(ctx, s, positions); err != nil {
			return r.overtaken(err)
		}
		done, total := positions.done()
		r.result.Remaining, r.result.Younger = total-done, positions.younger()
		r.progress(positions)
		if err := r.pace(ctx); err != nil {
			return err
		}
	}
	r.result.Done = true
	return nil
}

// transactionTime is after how long a broker gives up on a transaction whose redrive is gone. A redrive that begins anew does not wait for it.
const transactionTime = time.Minute

// transaction moves one batch, or none of it.
func (r *run) transaction(ctx context.Context, s *kgo.GroupTransactSession, positions positions) error {
	most := batch
	if r.Rate > 0 {
		most = min(most, r.Rate)
	}
	read, err := records(ctx, s.PollRecords, most)
	if err != nil {
		return err
	}
	if err := s.Begin(); err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	before := positions.copy()
	out, counts, err := r.choose(ctx, read, positions)
	for err == nil && len(out) > 0 {
		n := together(out)
		err = s.ProduceSync(ctx, out[:n]...).FirstErr()
		out = out[n:]
	}
	ending := kgo.PreTxnCommitFnContext(context.WithoutCancel(ctx), positions.bound)
	committed, endErr := s.End(ending, kgo.TransactionEndTry(err == nil))
	switch {
	case err != nil && ctx.Err() != nil:
		err = ctx.Err()
	case err != nil:
		err = fmt.Errorf("produce: %w", err)
	case endErr != nil:
		err = fmt.Errorf("commit: %w", endErr)
	}
	if err != nil || !committed { // it is read once more after a rebalance
		before.restore(positions)
		return err
	}
	r.result.add(&counts)
	return nil
}

const (
	largestBatch = 100 << 20 // what brokers take by default (socket.request.max.bytes): letters are as large as their topic allows
	smallBatch   = 900_000   // bytes of a batch of several records: any topic takes it by default
	recordBytes  = 100       // that a record may need besides its fields
	headerBytes  = 2 * 5     // that a header may
)

// together is how many of the records are produced at a time. A batch is refused as a whole: those that have company must not need more than their
// topic allows for one.
func together(records []*kgo.Record) int {
	size := 0
	for n, r := range records {
		size += recordBytes + len(r.Key) + len(r.Value)
		for _, h := range r.Headers {
			size += headerBytes + len(h.Key) + len(h.Value)
		}
		if size > smallBatch {
			return max(n, 1)
		}
	}
	return len(records)
}

// overtaken explains an error that another redrive is the cause of.
func (r *run) overtaken(err error) error {
	for _, fenced := range [...]error{kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.FencedInstanceID} {
		if errors.Is(err, fenced) {
			return fmt.Errorf("another redrive of group %s has begun, and goes on with it: %w", r.Group, err)
		}
	}
	return err
}

func (p positions) copy() positions {
	c := make(positions, len(p))
	for at, s := range p {
		one := *s
		c[at] = &one
	}
	return c
}

func (p positions) restore(to positions) {
	for at, s := range p {
		*to[at] = *s
	}
}

func (r *run) progress(p positions) {
	if r.Progress != nil {
		r.Progress(p.done())
	}
}

// pace waits until the rate allows more.
func (r *run) pace(ctx context.Context) error {
	if r.Rate <= 0 {
		return nil
	}
	due := time.Duration(float64(r.result.Redriven) / float64(r.Rate) * float64(time.Second))
	select {
	case <-time.After(time.Until(r.begun.Add(due))):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
