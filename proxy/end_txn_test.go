package proxy

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// ender is a policy that decides about the ends of transactions, and remembers what it was told.
type ender struct {
	fixed
	mu     sync.Mutex
	closes int // how many requests it refuses at first
	asked  []policy.TransactionEnd
	ended  []string
}

func (e *ender) Traits() policy.Traits {
	return policy.Traits{Waits: e.waits, Budget: e.budget, Transactions: true}
}

func (e *ender) EndTransaction(_ context.Context, end *policy.TransactionEnd) (policy.Verdict, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, *end)
	if e.closes == 0 {
		return policy.Verdict{}, nil
	}
	e.closes--
	return policy.Verdict{Close: policy.CloseBefore, Reason: "not yet"}, nil
}

func (e *ender) TransactionEnded(end *policy.TransactionEnd, code int16) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = append(e.ended, fmt.Sprint(end.TransactionalID, " ", code))
}

// seen is what the policy was asked and told, but for the connection.
func (e *ender) seen() (asked []policy.TransactionEnd, ended []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	asked = slices.Clone(e.asked)
	for i := range asked {
		asked[i].Conn, asked[i].Principal = nil, policy.Principal{}
	}
	return asked, slices.Clone(e.ended)
}

// endTxn is a request to end the transaction "t" of producer 4.
func endTxn(version int16, id int32, commit bool) []byte {
	r := kmsg.NewPtrEndTxnRequest()
	r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit = "t", 4, 3, commit
	return request(r, version, id)
}

// endTxnReply answers it.
func endTxnReply(version int16, id int32, code int16) []byte {
	r := kmsg.NewPtrEndTxnResponse()
	r.SetVersion(version)
	r.ErrorCode = code
	return reply(r, id)
}

// TestEndTxnFrames sends what may come on the key: all of it reaches the broker as it came, and the policies are asked about what a broker will
// serve.
func TestEndTxnFrames(t *testing.T) {
	good := policy.TransactionEnd{CorrelationID: 7, TransactionalID: "t", ProducerID: 4, ProducerEpoch: 3, Committed: true}
	type sent struct {
		frame  []byte
		asks   bool
		counts string // reason in decode_errors_total
	}
	frames := map[string]sent{
		"trailing":           {sized(append(endTxn(5, 7, true), 1, 2, 3)), true, ""},
		"tags":               {sized(append(endTxn(5, 7, true)[:len(endTxn(5, 7, true))-1], 2, 9, 0, 8, 0)), true, ""},
		"an overlong length": {sized(slices.Concat(endTxn(5, 7, true)[:19], []byte{0x82, 0x80, 0}, endTxn(5, 7, true)[20:])), true, ""},
		"true is not one":    {sized(slices.Concat(endTxn(0, 7, true)[:len(endTxn(0, 7, true))-1], []byte{0xff})), true, ""},
		"truncated":          {sized(endTxn(5, 7, true)[:30]), false, "anomalous"},
		"a null id":          {sized(append(append(slices.Clone(endTxn(5, 7, true)[:19]), 0), endTxn(5, 7, true)[21:]...)), false, "anomalous"},
		"no header":          {sized(slices.Concat(endTxn(5, 7, true)[:12], []byte{0x7f, 0xff})), false, "anomalous"},
		"no body":            {sized(endTxn(0, 7, true)[:18]), false, "anomalous"},
		"many tags":          {sized(append(endTxn(5, 7, true)[:len(endTxn(5, 7, true))-1], 0xff, 0xff, 0xff, 0xff, 0x0f)), false, "anomalous"},
		"version 6":          {withVersion(endTxn(5, 7, true), 6), false, "version"},
		"version -1":         {withVersion(endTxn(0, 7, true), -1), false, "version"},
		"version 9999":       {withVersion(endTxn(5, 7, true), 9999), false, "version"},
	}
	for version := range int16(6) {
		frames[fmt.Sprint("v", version)] = sent{endTxn(version, 7, true), true, ""}
	}
	for name, c := range frames {
		t.Run(name, func(t *testing.T) {
			onBothCalls(t, func(t *testing.T, src source, waits bool) {
				got := make(chan []byte, 1)
				addr := script(t, answering(func(f []byte) []byte {
					got <- f
					return endTxnReply(max(0, min(5, int16(f[7]))), idOf(f, false), 51)
				}))
				p := &ender{fixed: fixed{waits: waits}}
				s := start(t, Config{Upstream: []string{addr}, Policies: chainOf(t, policy.FailClose, p)}, src)
				client := dial(t, s)
				client.Write(c.frame)
				if f := <-got; !bytes.Equal(f, c.frame) {
					t.Errorf("the broker got %x instead of %x", f, c.frame)
				}
				if f, err := readFrame(client); err != nil || idOf(f, true) != 7 {
					t.Fatal(err, f)
				}
				asked, ended := p.seen()
				if c.asks != (len(asked) == 1 && asked[0] == good) || !c.asks && len(asked) > 0 || c.asks != (fmt.Sprint(ended) == "[t 51]") {
					t.Errorf("asked about %+v, told %v", asked, ended)
				}
				if c.counts != "" && testutil.ToFloat64(s.metrics.decode.WithLabelValues("EndTxn", c.counts)) != 1 {
					t.Errorf("not counted as %s", c.counts)
				}
			})
		})
	}
}

func withVersion(frame []byte, version int16) []byte {
	frame[6], frame[7] = byte(version>>8), byte(version)
	return frame
}

// An answer to EndTxn has no addresses: it passes also where it cannot be read, and then says nothing.
func TestEndTxnAnswers(t *testing.T) {
	for name, answer := range map[string][]byte{
		"short":      opaqueReply(7, 3),
		"empty":      opaqueReply(7, 0),
		"tags":       sized(append(endTxnReply(5, 7, 0)[:8], 1, 0xff, 0xff)),
		"trailing":   sized(append(endTxnReply(5, 7, 0), 1)),
		"as it says": endTxnReply(5, 7, 0),
	} {
		p := &ender{}
		addr := script(t, answering(func([]byte) []byte { return answer }))
		client := dial(t, start(t, Config{Upstream: []string{addr}, Policies: chainOf(t, policy.FailClose, p)}, nil))
		client.Write(endTxn(5, 7, false))
		if f, err := readFrame(client); err != nil || !bytes.Equal(f, answer) {
			t.Errorf("%s: %v, %x", name, err, f)
		}
		if _, ended := p.seen(); (name == "trailing" || name == "as it says") != (len(ended) == 1) {
			t.Errorf("%s: told %v", name, ended)
		}
	}
}

// What a policy does not let go is not forwarded, and what came before it is answered.
func TestEndTxnIsRefused(t *testing.T) {
	onBothCalls(t, func(t *testing.T, src source, waits bool) {
		var keys sync.Map
		addr := script(t, answering(func(f []byte) []byte {
			keys.Store(int16(f[5]), true)
			return echo(f)
		}))
		chain := chainOf(t, policy.FailForward, &ender{fixed: fixed{waits: waits}, closes: 1})
		s := start(t, Config{Upstream: []string{addr}, Policies: chain}, src)
		client := dial(t, s)
		client.Write(append(opaque(1, 10), endTxn(5, 2, true)...))
		p, err := closedBy(client)
		if _, forwarded := keys.Load(codec.KeyEndTxn); err != nil || forwarded || !bytes.Equal(p, opaqueReply(1, 10)) {
			t.Errorf("%v, %x, forwarded: %v", err, p, forwarded)
		}
		eventually(t, "the counter", func() bool { return testutil.ToFloat64(s.metrics.ended.WithLabelValues("policy")) == 1 })
	})
}

// TestTransactionalProducer has a real client end transactions through the proxy. One whose connection is closed instead tries again.
func TestTransactionalProducer(t *testing.T) {
	onBothCalls(t, func(t *testing.T, src source, waits bool) {
		k := cluster(t, 3, "orders")
		p := &ender{fixed: fixed{waits: waits, budget: 20 * time.Second}, closes: 1}
		s := start(t, Config{Upstream: k.ListenAddrs(), Policies: chainOf(t, policy.FailClose, p), StateDir: t.TempDir()}, src)
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		c := client(t, kgo.SeedBrokers(s.Addr()), kgo.DefaultProduceTopic("orders"), kgo.TransactionalID("t"))
		for i := range 4 {
			if err := c.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := c.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if err := c.EndTransaction(ctx, kgo.TransactionEndTry(i%2 == 0)); err != nil {
				t.Fatal(i, err)
			}
		}
		var got []string
		reader := client(t, kgo.SeedBrokers(s.Addr()), kgo.ConsumeTopics("orders"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.FetchMaxWait(50*time.Millisecond))
		for len(got) < 2 && ctx.Err() == nil {
			for _, r := range reader.PollFetches(ctx).Records() {
				got = append(got, string(r.Value))
			}
		}
		if slices.Sort(got); !slices.Equal(got, []string{"0", "2"}) {
			t.Errorf("committed: %v", got)
		}
		asked, ended := p.seen()
		var committed []bool
		for _, e := range asked {
			committed = append(committed, e.Committed)
		}
		if !slices.Equal(committed, []bool{true, true, false, true, false}) || fmt.Sprint(ended) != "[t 0 t 0 t 0 t 0]" {
			t.Errorf("asked %v, told %v", committed, ended)
		}
	})
}

// Where no policy decides about the ends of transactions, they are not read.
func TestEndTxnPassesUnread(t *testing.T) {
	for name, chain := range map[string]*policy.Chain{"no policies": nil, "others": chainOf(t, policy.FailClose, fixed{})} {
		s := stub(t, Config{Policies: chain})
		if s.reads(codec.KeyEndTxn) {
			t.Errorf("%s: EndTxn is read", name)
		}
	}
	if s := stub(t, Config{Policies: chainOf(t, policy.FailClose, &ender{})}); !s.reads(codec.KeyEndTxn) {
		t.Error("EndTxn is not read")
	}
}
