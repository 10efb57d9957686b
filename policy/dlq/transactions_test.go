package dlq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/dlq/letter"
)

// stage is a request in the transaction "t" of producer 4 with an epoch.
func (r *rig) stage(epoch int16, ranges ...policy.Range) *policy.Request {
	q := r.request(1, ranges...)
	q.Carrier, q.TransactionalID, q.ProducerID, q.ProducerEpoch = policy.TxnShareAcknowledge, []byte("t"), 4, epoch
	return q
}

func end(epoch int16, committed bool) *policy.TransactionEnd {
	return &policy.TransactionEnd{TransactionalID: "t", ProducerID: 4, ProducerEpoch: epoch, Committed: committed}
}

// end has the policy decide about the end of a transaction.
func (r *rig) end(e *policy.TransactionEnd) policy.Verdict {
	r.t.Helper()
	v, err := r.policy.EndTransaction(r.t.Context(), e)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

// inTransactions is how many letters there were of a result.
func (r *rig) inTransactions(result string) int {
	return int(value(r.policy.metrics.transactions.WithLabelValues(result)))
}

// written is how many letters partition 1 of the dead-letter topic has.
func (r *rig) written() int { return int(r.cluster.PartitionInfo("dlq.orders", 1).HighWatermark) }

const twoQueued = "dead letters: 2 queued until the transaction ends"

func TestLettersWaitForCommit(t *testing.T) {
	r := newRig(t)
	r.start(map[string]any{"transactions": "queue"})
	r.keep(8)
	if !r.policy.Traits().Transactions {
		t.Fatal("the policy does not want to know how transactions end")
	}
	for range 2 { // a client may repeat a request
		if v := r.decide(r.stage(3, reject(0, 1), accept(2, 3))); v.Reason != twoQueued || len(v.Edits) > 0 || v.Close != 0 {
			t.Fatalf("verdict %+v", v)
		}
	}
	r.decide(r.stage(3, reject(6, 6)))
	r.decide(r.stage(4, reject(7, 7))) // another transaction
	if n := r.written(); n != 0 || r.policy.room.used() != 0 {
		t.Fatalf("%d letters before the commit", n)
	}
	delete(r.kept, 0) // from here on the letters are all there is
	if v := r.end(end(3, true)); v.Reason != "dead letters: 3 produced" || v.Close != 0 {
		t.Fatalf("verdict %+v", v)
	}
	for i, l := range r.letters("dlq.orders", 3) {
		want := []string{"a", "b", "g"}[i]
		if string(l.Value) != want || header(l, "h") != "orig" || header(l, letter.HeaderPayload) != "full" ||
			header(l, "ackproxy.api") != "TxnShareAcknowledge" {
			t.Errorf("letter %d: %q, %v", i, l.Value, l.Headers)
		}
	}
	if v := r.end(end(3, true)); v.Reason != "" || v.Close != 0 || r.written() != 3 {
		t.Errorf("once more: verdict %+v, %d letters", v, r.written())
	}
	if r.inTransactions(lettersQueued) != 6 || r.inTransactions(lettersWritten) != 3 || value(r.policy.metrics.transactional) != 0 {
		t.Error("counted wrongly")
	}
	r.policy.TransactionEnded(end(4, false), 0)
	if used := r.policy.transactions.bytes(); used != 0 {
		t.Errorf("%d bytes are taken when nothing waits", used)
	}
}

// An abort counts once the coordinator has said so: anybody can ask for one.
func TestAbort(t *testing.T) {
	r := newRig(t)
	r.start(map[string]any{"transactions": "queue"})
	r.keep(2)
	r.decide(r.stage(3, reject(0, 1)))
	for _, code := range []int16{kerr.TransactionalIDAuthorizationFailed.Code, kerr.ConcurrentTransactions.Code, kerr.NotCoordinator.Code} {
		if v := r.end(end(3, false)); v.Reason != "" || v.Close != 0 {
			t.Errorf("verdict %+v", v)
		}
		r.policy.TransactionEnded(end(3, false), code)
	}
	r.policy.TransactionEnded(end(2, false), 0)
	r.policy.TransactionEnded(end(3, true), 0)
	if n := r.inTransactions(lettersAborted); n != 0 {
		t.Fatalf("%d letters are dropped", n)
	}
	r.policy.TransactionEnded(end(3, false), 0)
	if v := r.end(end(3, true)); v.Reason != "" || r.inTransactions(lettersAborted) != 2 || r.written() != 0 {
		t.Errorf("verdict %+v, %d dropped, %d written", v, r.inTransactions(lettersAborted), r.written())
	}
}

// TestCommitFails is about a dead-letter cluster that is down when the transaction commits, and a client that tries again.
func TestCommitFails(t *testing.T) {
	for _, c := range []struct {
		modes   []string
		reason  string
		close   policy.Close
		spooled int
		blocked bool // there is no spool
	}{
		{[]string{"spool", "release", "withhold"}, "2 spooled", policy.CloseNever, 2, false},
		{[]string{"spool", "withhold"}, "2 closed", policy.CloseBefore, 0, true},
		{[]string{"release", "spool", "withhold"}, "2 spooled", policy.CloseNever, 2, false}, // nothing is released in a transaction
		{[]string{"release", "withhold"}, "2 closed", policy.CloseBefore, 0, false},
		{[]string{"withhold"}, "2 closed", policy.CloseBefore, 0, false},
		{[]string{"close"}, "2 closed", policy.CloseBefore, 0, false},
		{[]string{"release", "forward"}, "2 forwarded", policy.CloseNever, 0, false},
	} {
		t.Run(strings.Join(c.modes, ","), func(t *testing.T) {
			r := newRig(t)
			up := r.down(kerr.NotEnoughReplicas)
			if c.blocked {
				block(t, SpoolDir(r.state, "dlq"))
			}
			r.start(map[string]any{"transactions": "queue", "on_failure": c.modes, "budget": "100ms"})
			r.keep(2)
			if v := r.decide(r.stage(3, reject(0, 1))); v.Reason != twoQueued {
				t.Fatalf("verdict %+v", v)
			}
			v := r.end(end(3, true))
			if !strings.HasPrefix(v.Reason, "dead letters: "+c.reason) || v.Close != c.close || c.spooled > 0 && len(r.spool()) != c.spooled {
				t.Fatalf("verdict %+v", v)
			}
			up()
			switch {
			case c.close != policy.CloseNever:
				until(t, "a commit goes on", func() bool { return r.end(end(3, true)).Close == policy.CloseNever })
				if ids := r.distinct("dlq.orders", 2); !slices.Equal(ids, r.ids(0, 1)) {
					t.Errorf("dead letters %v", ids)
				}
				if r.inTransactions(lettersWritten) != 2 {
					t.Errorf("%d written", r.inTransactions(lettersWritten))
				}
			case c.spooled > 0:
				r.distinct("dlq.orders", 2)
			case r.inTransactions(lettersLost) != 2:
				t.Error("lost, and not counted")
			}
			until(t, "no memory is taken", func() bool { return r.policy.transactions.bytes()+r.policy.room.used() == 0 })
		})
	}
}

// TestTransactionsAreBounded in bytes and in number. What does not fit is withheld as a whole, and fits once others have ended.
func TestTransactionsAreBounded(t *testing.T) {
	r := newRig(t)
	r.start(map[string]any{"transactions": "queue", "memory": "1MiB", "max_record": "1MiB"})
	for o := range int64(4) {
		r.kept[o] = policy.Record{Offset: o, Value: incompressible(300 << 10)}
	}
	if v := r.decide(r.stage(3, reject(0, 1))); v.Reason != twoQueued {
		t.Fatalf("verdict %+v", v)
	}
	used := r.policy.transactions.bytes()
	v := r.decide(r.stage(4, reject(2, 3), accept(4, 4)))
	if len(v.Edits) != 1 || v.Edits[0].Action != policy.Withhold || v.Edits[0].ErrorCode != codeStorageError || v.Edits[0].First != 2 ||
		v.Edits[0].Last != 4 || !strings.Contains(v.Reason, "2 withheld ("+errTransactions.Error()) {
		t.Errorf("verdict %+v", v)
	}
	if now := r.policy.transactions.bytes(); now != used {
		t.Errorf("%d bytes are taken for what is withheld", now-used)
	}
	r.policy.TransactionEnded(end(3, false), 0)
	if v := r.decide(r.stage(4, reject(2, 3))); v.Reason != twoQueued {
		t.Errorf("verdict %+v", v)
	}
	r.policy.TransactionEnded(end(4, false), 0)
	r.policy.transactions.mu.Lock()
	for i := range maxTransactions {
		r.policy.transactions.open[transactionKey{fmt.Sprint(i), 0, 0}] = &transaction{until: time.Now().Add(time.Hour)}
	}
	r.policy.transactions.mu.Unlock()
	if v := r.decide(r.stage(5, reject(9, 9))); len(v.Edits) != 1 || r.policy.transactions.bytes() != 0 {
		t.Errorf("too many: verdict %+v, %d bytes", v, r.policy.transactions.bytes())
	}
}

// What cannot become a letter is not kept, and does what the configuration says.
func TestNoLetterInTransaction(t *testing.T) {
	r := newRig(t)
	r.start(map[string]any{"transactions": "queue", "unavailable": "on_failure"})
	r.keep(1)
	if v := r.decide(r.stage(3, reject(0, 1))); len(v.Edits) != 1 || v.Edits[0].Action != policy.Withhold || !strings.Contains(v.Reason, "1 withheld") {
		t.Errorf("verdict %+v", v)
	}
	q := r.stage(3, release(0, 0)) // the broker will refuse it
	q.Partitions[0].Acquired[0].DeliveryCount = 5
	if v := r.decide(q); len(v.Edits) > 0 || v.Reason != "" {
		t.Errorf("a Release: verdict %+v", v)
	}
}

func TestTransactionsExpire(t *testing.T) {
	r := newRig(t)
	r.start(map[string]any{"transactions": "queue"})
	r.keep(2)
	r.decide(r.stage(3, reject(0, 1)))
	now := time.Now()
	if !r.policy.transactions.expire(now.Add(transactionTime-time.Minute)) || r.inTransactions(lettersExpired) != 0 {
		t.Error("expired too early")
	}
	more := r.policy.transactions.expire(now.Add(transactionTime + time.Minute))
	if more || r.inTransactions(lettersExpired) != 2 || r.policy.transactions.bytes() != 0 {
		t.Errorf("%d expired, %d bytes are left", r.inTransactions(lettersExpired), r.policy.transactions.bytes())
	}
	if !r.notices.has("2 dead letters are dropped: the end of 1 transactions") {
		t.Error("nobody was told")
	}
}

// A request that is repeated before the first is done has its letters kept once.
func TestRepeatedAtOnce(t *testing.T) {
	r := newRig(t)
	r.start(map[string]any{"transactions": "queue"})
	key, all := transactionKey{"t", 4, 3}, r.policy.transactions
	for range 2 {
		if !all.take(1000) || !all.add(key, []waiting{{at: letterPlace{group: "g", offset: 7}, item: &item{}, cost: 1000}}) {
			t.Fatal("no room")
		}
	}
	if n := all.bytes(); n != 1000+key.cost() {
		t.Errorf("%d bytes are taken", n)
	}
	if n := all.abort(key); n != 1 || all.bytes() != 0 {
		t.Errorf("%d letters, %d bytes are left", n, all.bytes())
	}
}

// A commit that is repeated while the first still waits for the dead-letter cluster does not go on before the letters are there.
func TestSecondCommitWaits(t *testing.T) {
	r := newRig(t)
	up := r.down(kerr.NotEnoughReplicas)
	r.start(map[string]any{"transactions": "queue", "budget": "1m"})
	r.keep(2)
	r.decide(r.stage(3, reject(0, 1)))
	first := make(chan policy.Verdict)
	go func() {
		v, _ := r.policy.EndTransaction(t.Context(), end(3, true))
		first <- v
	}()
	until(t, "the first begins", func() bool {
		r.policy.transactions.mu.Lock()
		defer r.policy.transactions.mu.Unlock()
		return r.policy.transactions.open[transactionKey{"t", 4, 3}].ending != nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := r.policy.EndTransaction(ctx, end(3, true)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second commit that cannot wait: %v", err)
	}
	up()
	if v := r.end(end(3, true)); v.Reason != "" || v.Close != 0 || r.written() != 2 {
		t.Errorf("a second commit: %+v with %d letters", v, r.written())
	}
	if v := <-first; v.Reason != "dead letters: 2 produced" {
		t.Errorf("the first commit: %+v", v)
	}
}

// TestManyEnds has clients that stage, commit and abort one transaction at the same time, as no honest one does: each letter is written or dropped
// once.
func TestManyEnds(t *testing.T) {
	r := newRig(t)
	r.start(map[string]any{"transactions": "queue", "budget": "10s"})
	r.keep(20)
	var work sync.WaitGroup
	for i := range int64(20) {
		work.Go(func() { r.decide(r.stage(3, reject(i, i))) })
		work.Go(func() { r.end(end(3, true)) })
		if i%4 == 0 {
			work.Go(func() { r.policy.TransactionEnded(end(3, false), 0) })
		}
	}
	work.Wait()
	r.end(end(3, true))
	if n := r.inTransactions(lettersWritten); n != r.written() || n+r.inTransactions(lettersAborted) < 20 {
		t.Errorf("%d written, %d in the topic, %d dropped", n, r.written(), r.inTransactions(lettersAborted))
	}
	if used := r.policy.transactions.bytes() + r.policy.room.used(); used != 0 {
		t.Errorf("%d bytes are taken when nothing waits", used)
	}
}

// Where nobody has the policy decide about the ends of transactions, letters cannot wait for them.
func TestNobodyTellsOfEnds(t *testing.T) {
	_, err := New(t.Context(), "dlq", []byte(`{"cluster": {"bootstrap": ["k:1"]}, "transactions": "queue"}`), Deps{})
	var mistake *policy.ConfigError
	if !errors.As(err, &mistake) || !slices.Equal(mistaken(t, err), []string{"on_failure", "transactions"}) {
		t.Errorf("%v", err)
	}
}
