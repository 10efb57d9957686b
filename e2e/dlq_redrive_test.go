package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/ackproxy/ackproxy/e2e/deadletter"
	"github.com/ackproxy/ackproxy/e2e/gateway"
	"github.com/ackproxy/ackproxy/e2e/kafka"
)

// number reads a number from the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestRedriveKilled: records are rejected, their letters are redriven by a program that is killed at random moments and called again. Each
// record is back once. Rejected once more, it has one set of headers, and a hop more.
func TestRedriveKilled(t *testing.T) {
	letters, kills := number(t, "E2E_DLQ_LETTERS", 4000), number(t, "E2E_DLQ_KILLS", 5)
	c := cluster(t, kafka.Versions[0], 1)
	name, _ := topic(t, c)
	if _, err := c.CreateTopic(t.Context(), "dlq."+name, partitions); err != nil {
		t.Fatal(err)
	}
	each := letters / partitions
	letters = each * partitions
	if err := c.Produce(t.Context(), name, partitions, each); err != nil {
		t.Fatal(err)
	}
	g := group(t, c, "g", nil)
	ctx := within(t, time.Minute+time.Duration(letters)*2*time.Millisecond)
	p := proxy(t, c, gateway.Options{Args: deadLetters(t, c, "", nil)})
	began := time.Now()
	reject := deadletter.Consumer{Bootstrap: p.Bootstrap(), Group: g, Topic: name}
	if _, err := reject.Settle(ctx, letters); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d records were rejected in %v", letters, time.Since(began).Round(time.Millisecond))

	began = time.Now()
	killed := redriveKilled(t, c, name, kills)
	t.Logf("redriven in %v, %d of %d kills", time.Since(began).Round(time.Millisecond), killed, kills)
	if killed == 0 {
		t.Error("no redrive was killed")
	}
	onceBack(t, ctx, c, name, letters)
	ends, err := c.Admin().ListEndOffsets(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	offsets := -int64(2 * letters)
	ends.Each(func(o kadm.ListedOffset) { offsets += o.Offset })
	t.Logf("%d offsets are markers, or of transactions that a kill ended", offsets)

	again := deadletter.Consumer{Bootstrap: p.Bootstrap(), Group: g, Topic: name, Poll: 50}
	if _, err := again.Settle(ctx, 100); err != nil {
		t.Fatal(err)
	}
	twice(t, ctx, c, name)
}

// redriveKilled redrives letters back to a topic. It calls the program until that ends by itself, and kills it before, at random moments: every
// second time of its whole run, else soon after it wrote something.
func redriveKilled(t *testing.T, c *kafka.Cluster, topic string, kills int) (killed int) {
	t.Helper()
	for {
		r, log := redrive(t, c, "dlq."+topic)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		done := make(chan error)
		go func() { done <- r.Wait(ctx) }() // kills it at the end of ctx
		var err error
		if killed < kills {
			if killed%2 == 1 {
				written(ctx, c, topic, r.Done())
			}
			select {
			case err = <-done:
			case <-time.After(rand.N([]time.Duration{300 * time.Millisecond, 30 * time.Millisecond}[killed%2])):
				killed++
				cancel()
				err = errors.Join(<-done, ctx.Err())
			}
		} else {
			err = <-done
		}
		cancel()
		switch {
		case err == nil:
			return killed
		case !errors.Is(err, context.Canceled):
			t.Fatalf("redrive: %v\n%s", err, kafka.Tail(log, 10))
		}
	}
}

// written returns once something more is written to a topic, or done is closed.
func written(ctx context.Context, c *kafka.Cluster, topic string, done <-chan struct{}) {
	end := int64(-1)
	_ = kafka.Until(ctx, "records", func(ctx context.Context) bool { // what goes wrong shows elsewhere
		select {
		case <-done:
			return true
		default:
		}
		now := int64(0)
		ends, err := c.Admin().ListEndOffsets(ctx, topic)
		ends.Each(func(o kadm.ListedOffset) { now += o.Offset })
		if end < 0 {
			end = now
		}
		return err == nil && now > end
	})
}

// redrive starts the program, and names the file of what it says.
func redrive(t *testing.T, c *kafka.Cluster, topic string, further ...string) (p *kafka.Process, log string) {
	t.Helper()
	program, err := gateway.Program()
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.CreateTemp(dir(t), "redrive-*.log")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	args := append([]string{"dlq", "redrive", "--bootstrap", c.Bootstrap(), "--topic", topic}, further...)
	if p, err = kafka.Start(program, args, kafka.ProcessOptions{Output: out}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p, out.Name()
}

// onceBack says what is wrong with the records that were redriven: each of n is to be in its partition once more, and the same.
func onceBack(t *testing.T, ctx context.Context, c *kafka.Cluster, topic string, n int) {
	t.Helper()
	all, err := deadletter.Read(ctx, c.Bootstrap(), topic)
	if err != nil {
		t.Fatal(err)
	}
	back, ids := map[string]int{}, map[string]bool{}
	for _, r := range all {
		if id, is := deadletter.Header(r, "ackproxy.dlq.id"); is {
			back[fmt.Sprint(r.Partition, " ", string(r.Value))]++
			ids[id] = true
			if hops, _ := deadletter.Header(r, "ackproxy.dlq.hops"); hops != "1" || len(r.Headers) != 2 || r.Key != nil {
				t.Fatalf("a redriven record has key %q and headers %q", r.Key, r.Headers)
			}
		}
	}
	missing, more := 0, 0
	for _, r := range all[:len(all):len(all)] {
		if _, is := deadletter.Header(r, "ackproxy.dlq.id"); is {
			continue
		}
		switch times := back[fmt.Sprint(r.Partition, " ", string(r.Value))]; {
		case times == 0:
			missing++
		case times > 1:
			more += times - 1
		}
	}
	t.Logf("%d letters: %d are back, %d are not, %d too often", n, len(ids), missing, more)
	if len(all) != 2*n || len(ids) != n || missing > 0 || more > 0 {
		t.Errorf("%d records, want %d", len(all), 2*n)
	}
}

// twice looks at the letters of records that were rejected, redriven and rejected again.
func twice(t *testing.T, ctx context.Context, c *kafka.Cluster, topic string) {
	t.Helper()
	all, err := deadletter.Read(ctx, c.Bootstrap(), "dlq."+topic)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, r := range all {
		hops, _ := deadletter.Header(r, "ackproxy.dlq.hops")
		if hops == "1" {
			continue
		}
		seen++
		names := map[string]bool{}
		for _, h := range r.Headers {
			if names[h.Key] {
				t.Fatalf("%s stands there twice: %q", h.Key, r.Headers)
			}
			names[h.Key] = true
		}
		if at, _ := deadletter.Header(r, "__dlq.errors.offset"); hops != "2" || at == "" {
			t.Fatalf("hops %s, offset %q", hops, at)
		}
	}
	if seen < 100 {
		t.Errorf("%d letters of records that were redriven, want 100", seen)
	}
}

// deadLetters are the flags of a proxy that dead-letters in one cluster.
func deadLetters(t *testing.T, c *kafka.Cluster, keepRecords string, further map[string]any) []string {
	t.Helper()
	args, err := deadletter.Configure(dir(t), c.Bootstrap(), keepRecords, further)
	if err != nil {
		t.Fatal(err)
	}
	return args
}

// TestRedriveTwice: of two redrives at once the later one ends the earlier, which says so. Each record is back once.
func TestRedriveTwice(t *testing.T) {
	c := cluster(t, kafka.Versions[0], 1)
	ctx := within(t, time.Minute)
	name, _ := topic(t, c)
	if _, err := c.CreateTopic(ctx, "dlq."+name, partitions); err != nil {
		t.Fatal(err)
	}
	const each = 200
	if err := c.Produce(ctx, name, partitions, each); err != nil {
		t.Fatal(err)
	}
	p := proxy(t, c, gateway.Options{Args: deadLetters(t, c, "", nil)})
	reject := deadletter.Consumer{Bootstrap: p.Bootstrap(), Group: group(t, c, "g", nil), Topic: name}
	if _, err := reject.Settle(ctx, partitions*each); err != nil {
		t.Fatal(err)
	}
	slow, slowLog := redrive(t, c, "dlq."+name, "--rate", "50")
	until(t, 20*time.Second, "the first redrive to have begun", func() bool {
		all, err := deadletter.Read(ctx, c.Bootstrap(), name)
		return err == nil && len(all) > partitions*each
	})
	fast, fastLog := redrive(t, c, "dlq."+name)
	if err := fast.Wait(ctx); err != nil {
		t.Errorf("the second redrive: %v\n%s", err, kafka.Tail(fastLog, 5))
	}
	if err := slow.Wait(ctx); err == nil || !strings.Contains(kafka.Tail(slowLog, 1), "another redrive") {
		t.Errorf("the first redrive: %v\n%s", err, kafka.Tail(slowLog, 5))
	}
	onceBack(t, ctx, c, name, partitions*each)
}

// TestRedriveOlder: a redrive of letters that are old enough is called again and again while records are rejected. Each record comes to the other
// topic once, and none is passed for being too young.
func TestRedriveOlder(t *testing.T) {
	c := cluster(t, kafka.Versions[0], 1)
	ctx := within(t, time.Minute)
	name, _ := topic(t, c)
	for _, other := range []string{"dlq." + name, name + ".again"} {
		if _, err := c.CreateTopic(ctx, other, partitions); err != nil {
			t.Fatal(err)
		}
	}
	const each, rounds = 50, 4
	p := proxy(t, c, gateway.Options{Args: deadLetters(t, c, "", nil)})
	reject := deadletter.Consumer{Bootstrap: p.Bootstrap(), Group: group(t, c, "g", nil), Topic: name}
	again := func() string {
		r, log := redrive(t, c, "dlq."+name, "--filter", "older=2s", "--to", name+".again")
		if err := r.Wait(ctx); err != nil {
			t.Fatalf("redrive: %v\n%s", err, kafka.Tail(log, 5))
		}
		return kafka.Tail(log, 5)
	}
	stayed := false
	var said []string
	for range rounds {
		if err := c.Produce(ctx, name, partitions, each); err != nil {
			t.Fatal(err)
		}
		if _, err := reject.Settle(ctx, partitions*each); err != nil {
			t.Fatal(err)
		}
		said = append(said, again())
		stayed = stayed || strings.Contains(said[len(said)-1], "stay for a later run")
	}
	if !stayed {
		t.Errorf("no letter was too young: %q", said)
	}
	for strings.Contains(again(), "stay") { // until all are old enough
	}
	back, err := deadletter.Read(ctx, c.Bootstrap(), name+".again")
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, r := range back {
		id, _ := deadletter.Header(r, "ackproxy.dlq.id")
		ids[id] = true
	}
	if n := rounds * partitions * each; len(back) != n || len(ids) != n {
		t.Errorf("%d records of %d letters came, want %d", len(back), len(ids), n)
	}
}
