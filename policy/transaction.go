package policy

import (
	"context"
	"errors"
	"time"
)

// TransactionEnd is a client's request to end a transaction (EndTxn, KIP-98), as the transaction's coordinator will read it. It does not change.
type TransactionEnd struct {
	Conn          *Conn // to the coordinator: seldom the one that the transaction's acknowledgements came on
	Principal     Principal
	CorrelationID int32

	TransactionalID string
	ProducerID      int64
	ProducerEpoch   int16
	Committed       bool // false aborts
}

// TransactionPolicy is a Policy that decides about the ends of transactions as well: what TxnShareAcknowledge asks for takes effect at the
// commit only (KIP-1289). It is one whose Traits say Transactions. A policy in another process is not asked.
type TransactionPolicy interface {
	Policy
	// EndTransaction is asked before a request to end a transaction is forwarded, by many connections at once, and under the same rules as
	// Decide. A Reason, and CloseBefore, are all that a verdict may have. A failure mode that would respond closes the connection: there is
	// nothing to withhold.
	EndTransaction(ctx context.Context, e *TransactionEnd) (Verdict, error)
	// TransactionEnded is told of the coordinator's answer to a request that was forwarded, unless none came, or it could not be read. An
	// error code of 0 says that the transaction has ended as asked. It is called on the connection's response loop, and must return at once.
	TransactionEnded(e *TransactionEnd, errorCode int16)
}

var (
	errNoTransactions = errors.New("it wants to decide about transactions, and is no TransactionPolicy")
	errNotForAnEnd    = errors.New("invalid verdict: the end of a transaction can be forwarded, or the connection closed before")
)

// Transactions says whether a policy of the chain decides about the ends of transactions.
func (c *Chain) Transactions() bool { return c.transactions }

// EndTransaction asks the policies that decide about the ends of transactions, as Decide asks all. The decision has no partitions.
func (c *Chain) EndTransaction(ctx context.Context, e *TransactionEnd) *Decision {
	d := &Decision{}
	for _, m := range c.members {
		if m.ends == nil {
			continue
		}
		step := Step{Policy: m.name}
		start := time.Now()
		v, err := m.end(ctx, e)
		step.Took, step.Reason, step.Err = time.Since(start), v.Reason, err
		switch {
		case ctx.Err() != nil: // the client failed, not the policy
			d.Gone, d.Close, step.Failed = true, CloseBefore, FailClose
		case err != nil && m.onFailure != FailForward:
			d.Close, step.Failed = CloseBefore, FailClose
		case err == nil:
			d.Close = v.Close
		}
		if d.Trail = append(d.Trail, step); d.Close == CloseBefore {
			break
		}
	}
	return d
}

// TransactionEnded tells the policies of an answer. None is told of a request that was not forwarded.
func (c *Chain) TransactionEnded(e *TransactionEnd, errorCode int16) {
	for _, m := range c.members {
		if m.ends != nil {
			m.ends.TransactionEnded(e, errorCode)
		}
	}
}

// end has one policy decide.
func (m *member) end(ctx context.Context, e *TransactionEnd) (Verdict, error) {
	call := func(ctx context.Context) (v Verdict, err error) {
		defer recovered(&v, &err)
		return m.ends.EndTransaction(ctx, e)
	}
	v, err := Verdict{}, error(nil)
	if m.waits {
		v, err = m.wait(ctx, call)
	} else {
		v, err = call(ctx)
	}
	if err == nil && !v.suitsAnEnd() {
		return Verdict{}, errNotForAnEnd
	}
	return v, err
}

func (v *Verdict) suitsAnEnd() bool {
	return len(v.Edits)+len(v.Replies) == 0 && v.DelayForward == 0 && v.DelayReply == 0 && (v.Close == CloseNever || v.Close == CloseBefore)
}
