package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// ender is a policy that decides about the ends of transactions.
type ender struct {
	fake
	end   func(context.Context, *TransactionEnd) (Verdict, error)
	ended func(*TransactionEnd, int16)
}

func (e ender) EndTransaction(ctx context.Context, end *TransactionEnd) (Verdict, error) {
	return e.end(ctx, end)
}

func (e ender) TransactionEnded(end *TransactionEnd, code int16) { e.ended(end, code) }

func ends(name string, waits bool, mode FailureMode, end func(context.Context, *TransactionEnd) (Verdict, error)) Member {
	traits := Traits{Waits: waits, Budget: time.Second, Transactions: true}
	return Member{Policy: ender{fake: fake{name: name, traits: traits}, end: end}, OnFailure: mode}
}

func TestEndTransaction(t *testing.T) {
	commit := &TransactionEnd{TransactionalID: "t", ProducerID: 4, ProducerEpoch: 2, Committed: true}
	gives := func(v Verdict, err error) func(context.Context, *TransactionEnd) (Verdict, error) {
		return func(_ context.Context, e *TransactionEnd) (Verdict, error) {
			if e != commit {
				t.Errorf("asked about %+v", e)
			}
			return v, err
		}
	}
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		end   func(context.Context, *TransactionEnd) (Verdict, error)
		fails string // part of the error
	}{
		"forward":      {gives(Verdict{Reason: "fine"}, nil), ""},
		"error":        {gives(Verdict{}, broken), "broken"},
		"edit":         {gives(edits(withhold(0, 1, 0)), nil), "invalid verdict"},
		"reply":        {gives(Verdict{Replies: []ReplyEdit{{TopLevel: true, ErrorCode: 51}}}, nil), "invalid verdict"},
		"delay":        {gives(Verdict{DelayForward: 1}, nil), "invalid verdict"},
		"delayed":      {gives(Verdict{DelayReply: 1}, nil), "invalid verdict"},
		"closed after": {gives(Verdict{Close: CloseAfter}, nil), "invalid verdict"},
		"panic": {func(context.Context, *TransactionEnd) (Verdict, error) {
			return explode(nil)
		}, "policy.explode member_test.go:"},
	} {
		for _, waits := range []bool{false, true} {
			for _, mode := range []FailureMode{FailForward, FailRespond, FailClose} {
				asked := false
				last := ends("last", waits, mode, func(context.Context, *TransactionEnd) (Verdict, error) {
					asked = true
					return Verdict{Close: CloseBefore, Reason: "no"}, nil
				})
				d := chain(t, says("not asked", Verdict{Close: CloseBefore}), ends("first", waits, mode, c.end), last).EndTransaction(t.Context(), commit)
				step := d.Trail[0]
				if c.fails == "" != (step.Err == nil) || c.fails != "" && !strings.Contains(step.Err.Error(), c.fails) || step.Policy != "first" {
					t.Errorf("%s, waits=%v, %v: %+v", name, waits, mode, step)
				}
				if goesOn := step.Err == nil || mode == FailForward; goesOn != asked || d.Close != CloseBefore || d.Gone {
					t.Errorf("%s, waits=%v, %v: the last was asked: %v, %+v", name, waits, mode, asked, d)
				}
			}
		}
	}
}

func TestLateEndOfTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for mode, want := range map[FailureMode]Close{FailForward: CloseNever, FailRespond: CloseBefore, FailClose: CloseBefore} {
			d := chain(t, ends("late", true, mode, func(context.Context, *TransactionEnd) (Verdict, error) {
				time.Sleep(time.Minute)
				return Verdict{}, nil
			})).EndTransaction(t.Context(), &TransactionEnd{})
			if !errors.Is(d.Trail[0].Err, context.DeadlineExceeded) || d.Close != want || d.Gone {
				t.Errorf("%v: %+v", mode, d)
			}
			time.Sleep(time.Hour)
		}
	})
}

// A client that is gone is no policy's failure: whatever the mode, its request is not forwarded, and nobody else is asked.
func TestClientGoneAtTheEndOfTransaction(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	first := ends("first", true, FailForward, func(ctx context.Context, _ *TransactionEnd) (Verdict, error) {
		cancel()
		<-ctx.Done()
		return Verdict{}, ctx.Err()
	})
	second := ends("second", false, FailForward, func(context.Context, *TransactionEnd) (Verdict, error) {
		t.Error("the second is asked")
		return Verdict{}, nil
	})
	if d := chain(t, first, second).EndTransaction(ctx, &TransactionEnd{}); !d.Gone || d.Close != CloseBefore || len(d.Trail) != 1 {
		t.Errorf("%+v", d)
	}
}

func TestTransactionEnded(t *testing.T) {
	var told []string
	note := func(name string, transactions bool) Member {
		traits := Traits{Transactions: transactions}
		return Member{Policy: ender{fake: fake{name: name, traits: traits}, ended: func(e *TransactionEnd, code int16) {
			told = append(told, fmt.Sprint(name, e.ProducerID, code))
		}}}
	}
	c := chain(t, note("a", true), note("b", false), note("c", true))
	if c.TransactionEnded(&TransactionEnd{ProducerID: 3}, 51); fmt.Sprint(told) != "[a3 51 c3 51]" {
		t.Errorf("told %v", told)
	}
	if !c.Transactions() || chain(t, note("b", false)).Transactions() {
		t.Error("the chain does not know whether its policies decide about transactions")
	}
	if _, err := NewChain(Member{Policy: fake{name: "a", traits: Traits{Transactions: true}}}); !errors.Is(err, errNoTransactions) {
		t.Errorf("a policy that cannot: %v", err)
	}
}
