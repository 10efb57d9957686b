package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ackproxy/ackproxy/policy"
)

// fixed is a policy whose verdict is what it says.
type fixed struct {
	waits  bool
	budget time.Duration
	decide func(ctx context.Context, r *policy.Request) (policy.Verdict, error)
}

func (f fixed) Name() string { return "fixed" }

func (f fixed) Traits() policy.Traits { return policy.Traits{Waits: f.waits, Budget: f.budget} }

func (f fixed) Decide(ctx context.Context, r *policy.Request) (policy.Verdict, error) {
	return f.decide(ctx, r)
}

func chainOf(t *testing.T, mode policy.FailureMode, p policy.Policy) *policy.Chain {
	t.Helper()
	c, err := policy.NewChain(policy.Member{Policy: p, OnFailure: mode})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// edit is a verdict about partition 0 of the topic that shareAck asks about.
func edit(first, last int64, a policy.Action, kind int8) policy.Verdict {
	return policy.Verdict{Edits: []policy.Edit{{TopicID: [16]byte{1}, First: first, Last: last, Action: a, Type: kind}}}
}

// onBothCalls runs a test on each source, with a policy that decides in the loop and with one that may wait.
func onBothCalls(t *testing.T, test func(t *testing.T, src source, waits bool)) {
	onBoth(t, func(t *testing.T, src source) {
		t.Run("at once", func(t *testing.T) { test(t, src, false) })
		t.Run("waits", func(t *testing.T) { test(t, src, true) })
	})
}

// asks reads a ShareAcknowledge v1 as offsets and their types.
func asks(t *testing.T, frame []byte) map[int64]int8 {
	t.Helper()
	m := kmsg.NewPtrShareAcknowledgeRequest()
	m.SetVersion(1)
	if err := m.ReadFrom(frame[14+4+1:]); err != nil { // client id "test", no tags
		t.Fatal(err)
	}
	all := map[int64]int8{}
	for _, topic := range m.Topics {
		for _, p := range topic.Partitions {
			for _, b := range p.AcknowledgementBatches {
				for o := b.FirstOffset; o <= b.LastOffset; o++ {
					all[o] = b.AcknowledgeTypes[min(int(o-b.FirstOffset), len(b.AcknowledgeTypes)-1)]
				}
			}
		}
	}
	return all
}

// codeTold reads the code of partition 0 from the answer to a ShareAcknowledge v1.
func codeTold(t *testing.T, frame []byte) int16 {
	t.Helper()
	m := kmsg.NewPtrShareAcknowledgeResponse()
	m.SetVersion(1)
	if err := m.ReadFrom(frame[9:]); err != nil || len(m.Topics) != 1 || len(m.Topics[0].Partitions) != 1 {
		t.Fatal(err, m.Topics)
	}
	return m.Topics[0].Partitions[0].ErrorCode
}

func TestVerdictsReachBrokerAndClient(t *testing.T) {
	for name, c := range map[string]struct {
		verdict policy.Verdict
		want    map[int64]int8 // at the broker, of offsets 0 to 2 that the client accepts
		code    int16          // at the client
	}{
		"forward":        {policy.Verdict{}, map[int64]int8{0: 1, 1: 1, 2: 1}, 0},
		"change":         {edit(1, 1, policy.Change, policy.Release), map[int64]int8{0: 1, 1: 2, 2: 1}, 0},
		"withhold some":  {edit(0, 1, policy.Withhold, 0), map[int64]int8{2: 1}, 121},
		"withhold all":   {edit(0, 9, policy.Withhold, 0), map[int64]int8{}, 121},
		"another answer": {policy.Verdict{Replies: []policy.ReplyEdit{{TopicID: [16]byte{1}, ErrorCode: 124}}}, map[int64]int8{0: 1, 1: 1, 2: 1}, 124},
		"delays":         {policy.Verdict{DelayForward: time.Millisecond, DelayReply: time.Millisecond}, map[int64]int8{0: 1, 1: 1, 2: 1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			onBothCalls(t, func(t *testing.T, src source, waits bool) {
				got := make(chan []byte, 3)
				addr := script(t, answering(func(f []byte) []byte {
					got <- append([]byte(nil), f...)
					if len(asks(t, f)) == 0 {
						return reply(empty(), idOf(f, false)) // a broker leaves emptied entries out
					}
					return shareAckReply(idOf(f, false), 0)
				}))
				seen := &recorder{}
				p := fixed{waits: waits, budget: 20 * time.Second, decide: func(context.Context, *policy.Request) (policy.Verdict, error) { return c.verdict, nil }}
				client := dial(t, start(t, Config{Upstream: []string{addr}, Policies: chainOf(t, policy.FailForward, p), Observers: []policy.Observer{seen}}, src))
				for id := range int32(3) { // in one write: order holds while a policy waits
					if _, err := client.Write(shareAck(id, 1, 3)); err != nil {
						t.Fatal(err)
					}
				}
				for id := range int32(3) {
					f, err := readFrame(client)
					if err != nil {
						t.Fatal(err)
					}
					if idOf(f, true) != id || codeTold(t, f) != c.code {
						t.Fatalf("answer %d to %d with code %d, want %d", idOf(f, true), id, codeTold(t, f), c.code)
					}
					asked := asks(t, <-got)
					if len(asked) != len(c.want) {
						t.Fatalf("the broker was asked %v, want %v", asked, c.want)
					}
					for o, kind := range c.want {
						if asked[o] != kind {
							t.Fatalf("the broker was asked %v, want %v", asked, c.want)
						}
					}
				}
				eventually(t, "observed", func() bool { return len(seen.seen()) == 3 })
				for _, o := range seen.seen() {
					if o.Decision == nil || len(o.Decision.Trail) != 1 {
						t.Fatalf("decision: %+v", o.Decision)
					}
				}
			})
		})
	}
}

func empty() *kmsg.ShareAcknowledgeResponse {
	m := kmsg.NewPtrShareAcknowledgeResponse()
	m.SetVersion(1)
	return m
}

func TestFailureModes(t *testing.T) {
	fail := func(context.Context, *policy.Request) (policy.Verdict, error) {
		return policy.Verdict{}, errors.New("broken")
	}
	onBothCalls(t, func(t *testing.T, src source, waits bool) {
		for mode, want := range map[policy.FailureMode]int16{policy.FailForward: 0, policy.FailRespond: 56} {
			addr := script(t, answering(func(f []byte) []byte {
				if len(asks(t, f)) == 0 {
					return reply(empty(), idOf(f, false))
				}
				return shareAckReply(idOf(f, false), 0)
			}))
			c := dial(t, start(t, Config{Upstream: []string{addr}, Policies: chainOf(t, mode, fixed{waits: waits, decide: fail})}, src))
			c.Write(shareAck(1, 1, 3))
			if f, err := readFrame(c); err != nil || codeTold(t, f) != want {
				t.Errorf("%v: %v", mode, err)
			}
		}
		var forwarded atomic.Bool
		addr := script(t, answering(func(f []byte) []byte { forwarded.Store(true); return shareAckReply(idOf(f, false), 0) }))
		seen := &recorder{}
		c := dial(t, start(t, Config{Upstream: []string{addr}, Policies: chainOf(t, policy.FailClose, fixed{waits: waits, decide: fail}), Observers: []policy.Observer{seen}}, src))
		c.Write(shareAck(1, 1, 3))
		if p, err := closedBy(c); err != nil || len(p) > 0 || forwarded.Load() {
			t.Errorf("close: %d bytes, %v, forwarded %v", len(p), err, forwarded.Load())
		}
		eventually(t, "observed", func() bool { return len(seen.seen()) == 1 })
		if o := seen.seen()[0]; o.Decision.Close != policy.CloseBefore || o.Reply.State != policy.Lost {
			t.Errorf("%+v", o)
		}
	})
}

func TestPoliciesCutAnswers(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		whole := len(shareAckReply(1, 0))
		for name, c := range map[string]struct {
			verdict policy.Verdict
			want    int
		}{
			"after":     {policy.Verdict{Close: policy.CloseAfter}, 0},
			"truncated": {policy.Verdict{Close: policy.CloseTruncated, CloseAfter: 7}, 7},
			"replied":   {policy.Verdict{Close: policy.CloseReplied}, whole},
		} {
			p := fixed{decide: func(context.Context, *policy.Request) (policy.Verdict, error) { return c.verdict, nil }}
			addr := script(t, answering(func(f []byte) []byte { return shareAckReply(idOf(f, false), 0) }))
			cl := dial(t, start(t, Config{Upstream: []string{addr}, Policies: chainOf(t, policy.FailForward, p)}, src))
			cl.Write(shareAck(1, 1, 3))
			if p, err := closedBy(cl); err != nil || len(p) != c.want {
				t.Errorf("%s: %d bytes, want %d, %v", name, len(p), c.want, err)
			}
		}
	})
}

// While a policy waits, what came before is not held up, a reset of the client's ends the wait, and the broker's end reaches the client.
func TestWhileAPolicyWaits(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		wait := func(ctx context.Context, _ *policy.Request) (policy.Verdict, error) {
			<-ctx.Done()
			return policy.Verdict{}, ctx.Err()
		}
		asked := make(chan struct{}, 10)
		chain := chainOf(t, policy.FailForward, fixed{waits: true, budget: time.Hour, decide: func(ctx context.Context, r *policy.Request) (policy.Verdict, error) {
			asked <- struct{}{}
			return wait(ctx, r)
		}})
		t.Run("what came before", func(t *testing.T) {
			c := dial(t, start(t, Config{Upstream: []string{script(t, answering(echo))}, Policies: chain}, src))
			c.Write(append(opaque(1, 10), shareAck(2, 1, 1)...))
			if f, err := readFrame(c); err != nil || idOf(f, true) != 1 {
				t.Fatal(err)
			}
		})
		t.Run("reset", func(t *testing.T) {
			ended := make(chan struct{})
			seen := &recorder{}
			s := start(t, Config{Upstream: []string{script(t, func(c *net.TCPConn) { io.Copy(io.Discard, c); close(ended) })}, Policies: chain,
				Observers: []policy.Observer{seen}}, src)
			for len(asked) > 0 {
				<-asked
			}
			c := dial(t, s)
			c.Write(shareAck(2, 1, 1))
			<-asked
			c.SetLinger(0)
			c.Close()
			if _, hidden := s.wrap(c).(hidden); hidden { // a reset shows only on a TCP socket that is known to be one: the wait goes on
				s.mu.Lock()
				for c := range s.conns {
					go c.fail(errClosed)
				}
				s.mu.Unlock()
			}
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Fatal("the broker's side goes on")
			}
			eventually(t, "observed", func() bool { return len(seen.seen()) == 1 })
			if d := seen.seen()[0].Decision; !d.Gone {
				t.Errorf("%+v", d)
			}
		})
		t.Run("the broker ends", func(t *testing.T) {
			s := start(t, Config{Upstream: []string{script(t, func(c *net.TCPConn) { c.CloseWrite(); io.Copy(io.Discard, c) })}, Policies: chain}, src)
			c := dial(t, s)
			c.Write(shareAck(2, 1, 1))
			if p, err := closedBy(c); err != nil || len(p) > 0 {
				t.Fatal(p, err)
			}
		})
	})
}

// A connection that ends during a delay is no policy's doing, and the request is told of as not sent.
func TestDelayEndsWithTheConnection(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		asked := make(chan struct{}, 1)
		p := fixed{decide: func(context.Context, *policy.Request) (policy.Verdict, error) {
			asked <- struct{}{}
			return policy.Verdict{DelayForward: time.Hour}, nil
		}}
		seen := &recorder{}
		s := start(t, Config{Upstream: []string{script(t, answering(echo))}, Policies: chainOf(t, policy.FailForward, p), Observers: []policy.Observer{seen}}, src)
		c := dial(t, s)
		c.Write(shareAck(2, 1, 1))
		<-asked
		s.mu.Lock()
		for c := range s.conns {
			go c.fail(errClosed)
		}
		s.mu.Unlock()
		eventually(t, "observed", func() bool { return len(seen.seen()) == 1 })
		if o := seen.seen()[0]; !o.Decision.Gone || o.Decision.Close != policy.CloseBefore || o.Reply.State != policy.Lost {
			t.Errorf("%+v, %+v", o.Decision, o.Reply)
		}
	})
}

// What a policy keeps from the broker counts as received, and not as forwarded.
func TestForwardedIsCounted(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		reg := prometheus.NewRegistry()
		p := fixed{decide: func(_ context.Context, r *policy.Request) (v policy.Verdict, _ error) {
			if r.CorrelationID == 3 {
				v.Close = policy.CloseBefore
			}
			return v, nil
		}}
		c := dial(t, start(t, Config{Upstream: []string{script(t, answering(echo))}, Policies: chainOf(t, policy.FailForward, p), Registerer: reg}, src))
		c.Write(append(append(opaque(1, 10), shareAck(2, 1, 1)...), shareAck(3, 1, 1)...))
		closedBy(c)
		got := map[string]float64{}
		all, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			for _, m := range f.GetMetric() {
				got[f.GetName()] += m.GetCounter().GetValue()
			}
		}
		if got["ackproxy_requests_total"] != 3 || got["ackproxy_requests_forwarded_total"] != 2 {
			t.Errorf("%v received, %v forwarded", got["ackproxy_requests_total"], got["ackproxy_requests_forwarded_total"])
		}
	})
}

// What somebody may want to be told of is counted from 0 on.
func TestFailuresAreThereFromTheStart(t *testing.T) {
	reg := prometheus.NewRegistry()
	s, err := New(Config{Upstream: []string{"127.0.0.1:1"}, Bootstrap: "127.0.0.1:0", Advertise: "127.0.0.1", Registerer: reg,
		Policies: chainOf(t, policy.FailRespond, fixed{})})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(t.Context())
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue() == 0
		}
	}
	for _, want := range []string{"policy_failures_total respond fixed", "policy_failures_total close fixed", "connections_closed_total frame_limit",
		"connections_total dial_error broker"} {
		if !got["ackproxy_"+want] {
			t.Errorf("no %s", want)
		}
	}
}

// A request that is read, and decided, when the broker's side has ended cannot go on: it is told of as not sent.
func TestTooLateToBeForwarded(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		for _, policies := range []bool{true, false} {
			asked, decided := make(chan struct{}), make(chan struct{})
			seen := &recorder{}
			cfg := Config{Observers: []policy.Observer{seen}, Upstream: []string{script(t, func(c *net.TCPConn) {
				if policies {
					<-asked
				}
				c.CloseWrite()
				io.Copy(io.Discard, c)
			})}}
			if policies {
				cfg.Policies = chainOf(t, policy.FailForward, fixed{waits: true, budget: time.Hour, decide: func(context.Context, *policy.Request) (policy.Verdict, error) {
					close(asked)
					<-decided
					return policy.Verdict{Reason: "written"}, nil
				}})
			}
			c := dial(t, start(t, cfg, src))
			if policies {
				c.Write(shareAck(2, 1, 1))
			}
			if _, err := c.Read(make([]byte, 1)); err != io.EOF {
				t.Fatal(err)
			}
			close(decided)
			if !policies {
				c.Write(shareAck(2, 1, 1))
			}
			eventually(t, "observed", func() bool { return len(seen.seen()) == 1 })
			if o := seen.seen()[0]; !o.Decision.Gone || o.Decision.Close != policy.CloseBefore || o.Reply.State != policy.Lost {
				t.Errorf("%+v, %+v", o.Decision, o.Reply)
			}
		}
	})
}

// A client that resets its connection during a delay ends the delay, whether or not a policy waits otherwise: the broker's side closes, and
// nothing more of the client's reaches the broker.
func TestClientResetsDuringADelay(t *testing.T) {
	for name, c := range map[string]struct {
		verdict  policy.Verdict
		half     bool // the client has sent its FIN before
		requests int  // that reach the broker
	}{
		"of the request":                {verdict: policy.Verdict{DelayForward: time.Hour}},
		"of the request, a short one":   {verdict: policy.Verdict{DelayForward: 300 * time.Millisecond}},
		"of the answer":                 {verdict: policy.Verdict{DelayReply: time.Hour}, requests: 1},
		"of the answer, client is half": {verdict: policy.Verdict{DelayReply: time.Hour}, half: true, requests: 1},
	} {
		t.Run(name, func(t *testing.T) {
			onBothCalls(t, func(t *testing.T, src source, waits bool) {
				delayed, got := make(chan struct{}, 2), make(chan int, 1)
				p := fixed{waits: waits, budget: 20 * time.Second, decide: func(context.Context, *policy.Request) (policy.Verdict, error) {
					if c.verdict.DelayForward > 0 {
						delayed <- struct{}{}
					}
					return c.verdict, nil
				}}
				seen := &recorder{}
				s := start(t, Config{Upstream: []string{script(t, func(b *net.TCPConn) {
					n := 0
					answering(func(f []byte) []byte { n++; delayed <- struct{}{}; return shareAckReply(idOf(f, false), 0) })(b)
					got <- n
				})}, Policies: chainOf(t, policy.FailForward, p), Observers: []policy.Observer{seen}}, src)
				client := dial(t, s)
				if !s.seesResets(client) {
					return
				}
				client.Write(shareAck(2, 1, 1))
				if c.half {
					client.CloseWrite()
				}
				<-delayed
				time.Sleep(100 * time.Millisecond)
				client.SetLinger(0)
				client.Close()
				eventually(t, "the connection's end", func() bool { return s.open() == 0 })
				if n := <-got; n != c.requests {
					t.Errorf("the broker got %d requests, want %d", n, c.requests)
				}
				eventually(t, "observed", func() bool { return len(seen.seen()) == 1 })
				if d := seen.seen()[0].Decision; d.Gone != (c.verdict.DelayForward > 0) {
					t.Errorf("%+v", d)
				}
			})
		})
	}
}

// A half-closed client gets its delayed answer, though the broker has gone meanwhile.
func TestHalfClosedClientsGetDelayedAnswers(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		p := fixed{decide: func(context.Context, *policy.Request) (policy.Verdict, error) {
			return policy.Verdict{DelayReply: 2 * lookAtClient}, nil
		}}
		s := start(t, Config{Upstream: []string{script(t, answering(func(f []byte) []byte { return shareAckReply(idOf(f, false), 0) }))},
			Policies: chainOf(t, policy.FailForward, p)}, src)
		c := dial(t, s)
		c.Write(shareAck(2, 1, 1))
		c.CloseWrite()
		if f, err := readFrame(c); err != nil || idOf(f, true) != 2 {
			t.Fatal(err)
		}
	})
}

// seesResets says whether the proxy can see that c was reset: only on a TCP socket that it knows to be one.
func (s *Server) seesResets(c net.Conn) bool {
	_, is := s.wrap(c).(hidden)
	return !is
}

// open is how many connections there are.
func (s *Server) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}
