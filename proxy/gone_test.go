package proxy

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/policy"
)

// A request is told of as not sent, and as nobody's doing, where its connection turns out to have ended: when what came before it is written, before
// policies that wait are asked; and when it is to be delayed.
func TestTheConnectionEndsBeforeARequest(t *testing.T) {
	for name, tc := range map[string]struct {
		waits, asked bool
		broken       error // what writing to the broker says
		want         error
	}{
		"before a policy that waits": {waits: true, broken: syscall.EPIPE, want: syscall.EPIPE},
		"before a delay":             {asked: true, want: errClosed},
		"while a policy waits":       {waits: true, asked: true, want: errClosed},
	} {
		t.Run(name, func(t *testing.T) {
			seen, asked := &recorder{}, false
			p := fixed{waits: tc.waits, budget: time.Hour, decide: func(context.Context, *policy.Request) (policy.Verdict, error) {
				asked = true
				return policy.Verdict{DelayForward: time.Hour}, nil
			}}
			s := stub(t, Config{Observers: []policy.Observer{seen}, Policies: chainOf(t, policy.FailForward, p)})
			c := stubConn(s)
			h := &half{side: clientSide, limits: &s.limits, send: func([]byte) error { return tc.broken }}
			c.up = h
			h.d = &requests{c: c, h: h}
			h.wake()
			defer h.close()
			first := opaque(1, 10)
			h.got(copy(h.buf[:], first))
			if n, err := h.look(); n != readMore || err != nil {
				t.Fatal(n, err)
			}
			if tc.broken == nil {
				c.pending.close()
			}
			h.got(copy(h.buf[h.w:], shareAck(2, 1, 1)))
			if _, err := h.look(); !errors.Is(err, tc.want) {
				t.Fatalf("%v, want %v", err, tc.want)
			}
			all := seen.seen()
			if len(all) != 1 || asked != tc.asked {
				t.Fatalf("%d outcomes, the policy was asked: %v", len(all), asked)
			}
			if o := all[0]; o.Reply.State != policy.Lost || o.Decision == nil || !o.Decision.Gone || o.Decision.Close != policy.CloseBefore {
				t.Errorf("%+v, %+v", o.Decision, o.Reply)
			}
		})
	}
}

// An answer that is too short to be one is the end of its request, whatever its correlation id would be.
func TestAnswersWithoutAnID(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		seen := &recorder{}
		addr := script(t, answering(func([]byte) []byte { return frameOf([]byte{0, 0}) }))
		c := dial(t, start(t, Config{Upstream: []string{addr}, Observers: []policy.Observer{seen}}, src))
		c.Write(shareAck(0, 1, 1))
		if p, err := closedBy(c); err != nil || len(p) > 0 {
			t.Fatalf("%v, %x", err, p)
		}
		eventually(t, "the loss observed", func() bool { return len(seen.seen()) == 1 })
		if o := seen.seen()[0]; o.Reply.State != policy.Lost || string(o.Request.GroupID) != "g" {
			t.Errorf("%+v", o)
		}
	})
}
