package dlq

import (
	"context"
	"fmt"

	"github.com/ackproxy/ackproxy/policy"
)

// Results of letters in transactions, in metrics.
const (
	lettersQueued  = "queued"
	lettersWritten = "written" // produced or spooled, at the commit
	lettersAborted = "aborted"
	lettersExpired = "expired"
	lettersLost    = "lost" // the commit went on without them
)

// queue makes the letters of a request in a transaction, and keeps them until that ends.
func (w *work) queue(ctx context.Context) policy.Verdict {
	produce, late := w.withinLock()
	making, cancel := w.begin(ctx, produce, late)
	defer cancel()
	for i := range w.parts {
		if p := &w.parts[i]; !p.over {
			w.queuePart(making, p)
		}
	}
	return w.verdict()
}

// queuePart does so for one partition: for all that can be made of it, or, where there is no room, for nothing more.
func (w *work) queuePart(ctx context.Context, p *part) {
	r, t := w.request, w.policy.transactions
	key := transactionKey{string(r.TransactionalID), r.ProducerID, r.ProducerEpoch}
	letters, fits := w.waiting(ctx, p, key)
	if fits && len(letters) > 0 {
		fits = t.add(key, letters)
	}
	if !fits {
		t.giveBack(letters)
	}
	for _, it := range p.items {
		switch {
		case it.fate != pending || it.err != nil:
		case fits:
			it.fate = queued
		default:
			it.err, it.final = errTransactions, true
			it.drop()
		}
	}
}

// waiting makes the letters of a partition and takes room for them, until there is none. Those that wait already are not made once more.
func (w *work) waiting(ctx context.Context, p *part, key transactionKey) (letters []waiting, fits bool) {
	r, t := w.request, w.policy.transactions
	at := letterPlace{group: string(r.GroupID), member: string(r.MemberID), topic: p.asked.TopicID, partition: p.asked.Index}
	fetch := w.policy.source.reader(p.asked.TopicID, p.asked.Index, w.fetchUntil)
	defer fetch.close()
	for _, it := range p.items {
		if at.offset = it.offset; it.fate != pending {
			continue
		}
		if t.has(key, at) {
			it.fate = queued
			continue
		}
		from, ok := w.write(ctx, p, it, fetch)
		if !ok {
			continue
		}
		cost := int64(it.record.Size()) + letterCost
		if !t.take(cost) {
			return letters, false
		}
		it.own(from)
		w.policy.metrics.payloads[from].Inc()
		letters = append(letters, waiting{at, it.again(), cost}) // others may end the transaction while this request goes on
		it.drop()
	}
	return letters, true
}

// again is the item for another attempt: of an earlier one, something may still be under way.
func (it *item) again() *item {
	return &item{offset: it.offset, record: it.record, bare: it.bare, stays: true}
}

// EndTransaction writes the letters of a transaction before its commit goes on. Those of one that is aborted wait for the coordinator's answer.
func (p *Policy) EndTransaction(ctx context.Context, e *policy.TransactionEnd) (policy.Verdict, error) {
	if !e.Committed {
		return policy.Verdict{}, nil
	}
	one, items, err := p.transactions.begin(ctx, ended(e))
	if err != nil {
		return policy.Verdict{}, fmt.Errorf("another end of the transaction: %w", err)
	}
	if one == nil {
		return policy.Verdict{}, nil
	}
	defer p.transactions.finish(one, items)
	w := &work{policy: p, began: p.deps.Now(), parts: []part{{items: items}}}
	return w.commit(ctx, items), nil
}

// TransactionEnded drops the letters of a transaction that was aborted.
func (p *Policy) TransactionEnded(e *policy.TransactionEnd, errorCode int16) {
	if e.Committed || errorCode != 0 {
		return
	}
	p.metrics.transactions.WithLabelValues(lettersAborted).Add(float64(p.transactions.abort(ended(e))))
}

func ended(e *policy.TransactionEnd) transactionKey {
	return transactionKey{e.TransactionalID, e.ProducerID, e.ProducerEpoch}
}

// commit writes letters that have waited. Where that does not work, only to go on without them, or not to go on, is left to choose.
func (w *work) commit(ctx context.Context, items []*item) policy.Verdict {
	producing, cancel := w.begin(ctx, w.policy.config.Budget, anyTime)
	defer cancel()
	w.expect()
	for _, it := range items {
		if w.admit(producing, it); it.fate == pending && it.err == nil {
			w.produce(producing, it)
		}
	}
	w.await(producing)
	w.save(w.all)
	var v policy.Verdict
	for _, it := range items {
		if it.drop(); it.fate == pending {
			it.fate = closed // there is nothing to withhold: the client finds the connection closed, and tries again
			if w.policy.choose(it, w.group) == forwarded {
				it.fate = forwarded
			}
		}
	}
	w.tally(&v)
	written, lost := 0, 0
	for _, it := range items {
		switch it.fate {
		case closed:
			it.fate, it.err, it.final = pending, nil, false
			v.Close = policy.CloseBefore
		case forwarded:
			lost++
		default:
			written++
		}
	}
	w.policy.metrics.transactions.WithLabelValues(lettersWritten).Add(float64(written))
	w.policy.metrics.transactions.WithLabelValues(lettersLost).Add(float64(lost))
	return v
}
