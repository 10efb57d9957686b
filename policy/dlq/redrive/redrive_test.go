package redrive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/dlq/letter"
)

// brokers starts a broker with topics, and a client on it.
func brokers(t *testing.T, topics ...string) (opts []kgo.Opt, cl *kgo.Client) {
	t.Helper()
	k, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, topics...),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	opts = []kgo.Opt{kgo.SeedBrokers(k.ListenAddrs()...)}
	if cl, err = kgo.NewClient(append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return opts, cl
}

// dead is a letter from orders, as the policy writes it.
func dead(n int, change func(*letter.Letter)) *kgo.Record {
	l := letter.Letter{Group: "billing", Topic: "orders", TopicID: codec.UUID{1}, Partition: int32(n % 3), Offset: int64(n), Reason: letter.ClientReject,
		Payload: letter.Full, Time: time.Now().Add(-time.Hour),
		Source: &policy.Record{Key: []byte("k"), Value: []byte(strconv.Itoa(n)), Headers: []policy.RecordHeader{{Key: "trace", Value: []byte{7}}}}}
	if change != nil {
		change(&l)
	}
	r := &kgo.Record{Topic: "dlq.orders", Partition: int32(n % 3)}
	if l.Source != nil {
		r.Key, r.Value = l.Source.Key, l.Source.Value
	}
	for _, h := range l.Headers(letter.KIP1191) {
		r.Headers = append(r.Headers, kgo.RecordHeader(h))
	}
	return r
}

func produce(t *testing.T, cl *kgo.Client, records ...*kgo.Record) {
	t.Helper()
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// all reads a topic, committed records only.
func all(t *testing.T, opts []kgo.Opt, topic string) (records []*kgo.Record) {
	t.Helper()
	err := Read(t.Context(), opts, []string{topic}, func(r *kgo.Record) { records = append(records, r) }, func(int64, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// once fails unless the records are the numbers below n, each once.
func once(t *testing.T, records []*kgo.Record, n int) {
	t.Helper()
	seen := make(map[string]int)
	for _, r := range records {
		seen[string(r.Value)]++
	}
	for i := range n {
		if seen[strconv.Itoa(i)] != 1 {
			t.Fatalf("record %d came back %d times", i, seen[strconv.Itoa(i)])
		}
	}
	if len(records) != n {
		t.Fatalf("%d records came back, not %d", len(records), n)
	}
}

func TestRedrive(t *testing.T) {
	opts, cl := brokers(t, "orders", "dlq.orders")
	for i := range 500 {
		produce(t, cl, dead(i, nil))
	}
	o := Options{Client: opts, Topic: "dlq.orders"}
	dry := o
	dry.DryRun = true
	r, err := Run(t.Context(), dry)
	if err != nil || r.Redriven != 500 || !r.Done || len(all(t, opts, "orders")) != 0 {
		t.Fatalf("the dry run said %+v, %v", r, err)
	}
	if r, err = Run(t.Context(), o); err != nil || r.Redriven != 500 || r.To["orders"] != 500 || !r.Done || r.Remaining != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	back := all(t, opts, "orders")
	once(t, back, 500)
	for _, b := range back {
		n, _ := strconv.Atoi(string(b.Value))
		want := []kgo.RecordHeader{{Key: "trace", Value: []byte{7}}, {Key: letter.HeaderID, Value: []byte(fmt.Sprintf("billing/%s/%d/%d", codec.UUID{1}, n%3, n))},
			{Key: letter.HeaderHops, Value: []byte("1")}}
		if b.Partition != int32(n%3) || string(b.Key) != "k" || fmt.Sprint(b.Headers) != fmt.Sprint(want) {
			t.Fatalf("record %d is on partition %d with key %q and headers %v, not %v", n, b.Partition, b.Key, b.Headers, want)
		}
	}
	if r, err = Run(t.Context(), o); err != nil || r.Redriven != 0 || !r.Done {
		t.Fatalf("a second run said %+v, %v", r, err)
	}
	produce(t, cl, dead(500, nil))
	if r, err = Run(t.Context(), o); err != nil || r.Redriven != 1 {
		t.Fatalf("after one more letter: %+v, %v", r, err)
	}
}

// Letters of any size come back, in the order they are in: a large one is in no batch with others.
func TestRedriveLarge(t *testing.T) {
	opts, cl := brokers(t, "orders", "dlq.orders")
	large, err := kgo.NewClient(append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(8<<20))...)
	if err != nil {
		t.Fatal(err)
	}
	defer large.Close()
	sizes := []int{10, 3 << 20, 600_000, 600_000, 20, 2 << 20}
	for i, size := range sizes {
		with := cl
		if size > 1<<20 {
			with = large
		}
		produce(t, with, dead(3*i, func(l *letter.Letter) { l.Source.Value = make([]byte, size) }))
	}
	r, err := Run(t.Context(), Options{Client: opts, Topic: "dlq.orders"})
	if err != nil || r.Redriven != int64(len(sizes)) || !r.Done {
		t.Fatalf("%+v, %v", r, err)
	}
	var got []int
	for _, b := range all(t, opts, "orders") {
		got = append(got, len(b.Value))
	}
	if !slices.Equal(got, sizes) {
		t.Errorf("records of %d bytes came back, not %d", got, sizes)
	}
}

func TestTogether(t *testing.T) {
	of := func(sizes ...int) (records []*kgo.Record) {
		for _, n := range sizes {
			records = append(records, &kgo.Record{Value: make([]byte, n)})
		}
		return records
	}
	for _, one := range []struct {
		want    int
		records []*kgo.Record
	}{
		{1, of(2<<20, 1)}, {2, of(10, 600_000, 600_000)}, {3, of(1, 2, 3)}, {3, of(1, 2, 3, smallBatch)},
		{smallBatch / recordBytes, of(make([]int, 10_000)...)},
	} {
		if got := together(one.records); got != one.want {
			t.Errorf("%d of %d, not %d", got, len(one.records), one.want)
		}
	}
}

// A redrive that is interrupted, at whatever moment, goes on where it ended.
func TestRedriveInterrupted(t *testing.T) {
	opts, cl := brokers(t, "orders", "dlq.orders")
	const n = 3000
	var letters []*kgo.Record
	for i := range n {
		letters = append(letters, dead(i, nil))
	}
	produce(t, cl, letters...)
	interruptions := 0
	for try := 0; ; try++ {
		ctx, cancel := context.WithCancel(t.Context())
		o := Options{Client: opts, Topic: "dlq.orders", Rate: 400, Progress: func(int64, int64) {
			if try < 4 {
				time.AfterFunc(time.Duration(try)*7*time.Millisecond, cancel)
			}
		}}
		if try >= 4 {
			o.Rate = 0
		}
		r, err := Run(ctx, o)
		cancel()
		if errors.Is(err, context.Canceled) {
			interruptions++
			continue
		}
		if err != nil || !r.Done {
			t.Fatalf("%+v, %v", r, err)
		}
		break
	}
	if interruptions == 0 {
		t.Fatal("nothing was interrupted")
	}
	once(t, all(t, opts, "orders"), n)
}

func TestRedriveChooses(t *testing.T) {
	opts, cl := brokers(t, "orders", "again", "dlq.orders")
	produce(t, cl,
		dead(0, nil),
		dead(1, func(l *letter.Letter) { l.Group = "other" }),
		dead(2, func(l *letter.Letter) { l.Strip("gone") }),
		dead(3, func(l *letter.Letter) { l.Topic = "deleted" }),
		dead(4, func(l *letter.Letter) { l.Source.Headers = hops(t, 3) }),
		&kgo.Record{Topic: "dlq.orders", Value: []byte("stray")})
	f, err := ParseFilter([]string{"group=bill*"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), Options{Client: opts, Topic: "dlq.orders", Filter: f, MaxHops: 3})
	want := Skipped{Hops: 1, NoPayload: 1, NoTopic: 1, NoLetter: 1}
	if err != nil || r.Redriven != 1 || r.Filtered != 1 || r.Skipped != want || r.Read != 6 {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err = Run(t.Context(), Options{Client: opts, Topic: "dlq.orders", To: "again"}); err != nil || r.To["again"] != 4 {
		t.Fatalf("to another topic: %+v, %v", r, err)
	}
	if _, err = Run(t.Context(), Options{Client: opts, Topic: "dlq.orders", To: "nowhere"}); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Fatalf("to a topic that is not there: %v", err)
	}
	if _, err = Run(t.Context(), Options{Client: opts, Topic: "dlq.nothing"}); err == nil {
		t.Fatal("a dead-letter topic that is not there was redriven")
	}
	if _, err = Run(t.Context(), Options{Client: opts, Topic: "again", To: "again"}); err == nil {
		t.Fatal("a topic was redriven to itself")
	}
}

// hops are the headers of a record that was dead-lettered so many times before.
func hops(t *testing.T, n int) []policy.RecordHeader {
	t.Helper()
	return []policy.RecordHeader{{Key: letter.HeaderID, Value: []byte("billing/AQAAAAAAAAAAAAAAAAAAAA/0/4")},
		{Key: letter.HeaderHops, Value: strconv.AppendInt(nil, int64(n), 10)}}
}

// Letters that are too young for a filter are chosen by a later run, with all that is behind them: whatever the record's own timestamp says.
func TestRedriveYoung(t *testing.T) {
	opts, cl := brokers(t, "orders", "dlq.orders")
	now := time.Now()
	var letters []*kgo.Record
	for n, age := range []time.Duration{time.Hour, 0, time.Hour, time.Hour, time.Hour, time.Hour, time.Hour, time.Hour, time.Minute, time.Hour} {
		letters = append(letters, dead(n, func(l *letter.Letter) { l.Time = now.Add(-age) }))
		letters[n].Timestamp = now.Add(-24 * time.Hour) // timestamp: original
	}
	// Which no later run would choose: that it is young is no reason to wait for it.
	produce(t, cl, append([]*kgo.Record{dead(30, func(l *letter.Letter) { l.Group, l.Time = "other", now })}, letters...)...)
	f, err := ParseFilter([]string{"older=15m", "group=billing"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		later                     time.Duration
		redriven, younger, passed int64
	}{
		{0, 6, 4, 1}, // partition 0: 0, 3, 6, 9; 1: before 1; 2: 2 and 5 before 8
		{14*time.Minute + 30*time.Second, 1, 3, 0},
		{15 * time.Minute, 3, 0, 0},
		{time.Hour, 0, 0, 0},
	} {
		o := Options{Client: opts, Topic: "dlq.orders", Filter: f, Now: func() time.Time { return now.Add(want.later) }}
		for _, o.DryRun = range []bool{true, false} {
			r, err := Run(t.Context(), o)
			if err != nil || r.Redriven != want.redriven || r.Younger != want.younger || r.Filtered != want.passed || !r.Done || r.Remaining != 0 {
				t.Fatalf("run %d: %+v, %v", i, r, err)
			}
		}
	}
	once(t, all(t, opts, "orders"), len(letters))
}

// What is written while a redrive reads is left to the next one.
func TestRedriveMeanwhile(t *testing.T) {
	opts, cl := brokers(t, "orders", "dlq.orders")
	n := 0
	for ; n < 30; n++ {
		produce(t, cl, dead(n, nil))
	}
	o := Options{Client: opts, Topic: "dlq.orders", Rate: 15, Progress: func(int64, int64) {
		produce(t, cl, dead(n, nil))
		n++
	}}
	r, err := Run(t.Context(), o)
	if err != nil || r.Redriven != 30 || !r.Done {
		t.Fatalf("%+v, %v", r, err)
	}
	o.Rate, o.Progress = 0, nil
	if r, err = Run(t.Context(), o); err != nil || r.Redriven != int64(n-30) {
		t.Fatalf("then %+v, %v", r, err)
	}
	once(t, all(t, opts, "orders"), n)
}

// Letters that had too many hops come back once more are allowed.
func TestRedriveMoreHops(t *testing.T) {
	opts, cl := brokers(t, "orders", "dlq.orders")
	produce(t, cl, dead(0, nil), dead(4, func(l *letter.Letter) { l.Source.Headers = hops(t, 3) }))
	groups := make(map[string]bool)
	for most, want := range map[int]int64{DefaultMaxHops: 1, 5: 2, 0: 2} {
		r, err := Run(t.Context(), Options{Client: opts, Topic: "dlq.orders", MaxHops: most})
		if err != nil || r.Redriven != want {
			t.Errorf("--max-hops %d: %+v, %v", most, r, err)
		}
		groups[r.Group] = true
	}
	if len(groups) != 3 || !groups["ackproxy-redrive.dlq.orders"] {
		t.Errorf("groups %v", groups)
	}
}

// A later run of the same group ends an earlier one, so that no letter is redriven by both.
func TestRedriveTwice(t *testing.T) {
	opts, cl := brokers(t, "orders", "dlq.orders")
	const n = 400
	for i := range n {
		produce(t, cl, dead(i, nil))
	}
	first := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		var once bool
		_, err := Run(t.Context(), Options{Client: opts, Topic: "dlq.orders", Rate: 50, Progress: func(int64, int64) {
			if !once {
				once = true
				close(begun)
			}
		}})
		first <- err
	}()
	<-begun
	if r, err := Run(t.Context(), Options{Client: opts, Topic: "dlq.orders"}); err != nil || !r.Done {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := <-first; err == nil {
		t.Log("the first run ended without a letter left for it")
	}
	once(t, all(t, opts, "orders"), n)
}

func TestSummary(t *testing.T) {
	opts, cl := brokers(t, "orders", "dlq.orders")
	produce(t, cl, dead(0, nil), dead(0, nil), dead(1, nil), dead(2, func(l *letter.Letter) { l.Strip("gone") }), &kgo.Record{Topic: "dlq.orders"})
	var s Summary
	for _, r := range all(t, opts, "dlq.orders") {
		l, is, _ := Inspect(r, Filter{}, time.Now())
		s.Add(l, is)
	}
	rows := s.Rows()
	if len(rows) != 2 || s.Others != 1 {
		t.Fatalf("%+v, %d others", rows, s.Others)
	}
	full := rows[0]
	if full.Letters != 3 || full.IDs != 2 || full.Topic != "orders" || full.Group != "billing" || full.Reason != "client_reject" || full.Payload != "full" ||
		full.Bytes != 6 || full.MaxHops != 1 || time.Since(full.Oldest) < time.Hour {
		t.Errorf("%+v", full)
	}
	if rows[1].Letters != 1 || rows[1].Payload != "unavailable" {
		t.Errorf("%+v", rows[1])
	}
}

func TestFilter(t *testing.T) {
	now := time.Now()
	info := &letter.Info{Topic: "orders", Group: "a/b", Reason: letter.ClientReject, Hops: 2, Partition: 1, Time: now.Add(-2 * time.Hour), Principal: "User:ann"}
	for terms, want := range map[string]bool{
		"": true, "topic=orders": true, "topic=ord*": true, "topic=*": true, "topic=order": false, "group=a*": true, "group=*/b": true, "group=b": false,
		"hops=2": true, "hops=1": false, "partition=1": true, "older=1h": true, "older=3h": false, "newer=3h": true, "newer=1h": false,
		"principal=User:ann": true, "reason=client_reject": true, "reason=policy": false,
	} {
		var all []string
		if terms != "" {
			all = []string{terms}
		}
		f, err := ParseFilter(all)
		if err != nil || f.Match(info, now) != want {
			t.Errorf("%s: %v, %v", terms, !want, err)
		}
	}
	_, err := ParseFilter([]string{"topic", "colour=red", "hops=many", "older=yesterday", "topic=[a"})
	if err == nil || len(err.(interface{ Unwrap() []error }).Unwrap()) != 5 {
		t.Errorf("%v", err)
	}
	a, _ := ParseFilter([]string{"topic=x", "group=y"})
	b, _ := ParseFilter([]string{"group=y", "topic=x", "topic=x"})
	if filtered := groupOf(Options{Topic: "t", Filter: a, MaxHops: DefaultMaxHops}); filtered != "ackproxy-redrive.t.1e41ef21701d" {
		t.Errorf("%s: positions of before would be lost", filtered)
	}
	if a.String() != b.String() || groupOf(Options{Topic: "t", Filter: a}) != groupOf(Options{Topic: "t", Filter: b}) || groupOf(Options{Topic: "t", MaxHops: DefaultMaxHops}) != "ackproxy-redrive.t" {
		t.Errorf("%q and %q", a, b)
	}
}
