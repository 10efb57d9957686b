package dlq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ackproxy/ackproxy/codec"
)

const (
	// transactionTime is how long letters wait for the end of their transaction, from the last of them on. Brokers abort a transaction that takes
	// longer than its client asked for, at most transaction.max.timeout.ms, which is 15 minutes by default; they look every ten seconds (KIP-98).
	transactionTime = 15*time.Minute + 30*time.Second
	transactionLook = time.Second
	maxTransactions = 10_000
	letterCost      = 2 << 10 // bytes that a letter needs besides its record, and a transaction besides its name
)

var errTransactions = errors.New("too much waits for transactions to end")

// transactionKey names a transaction. Brokers that take acknowledgements in one (KIP-1289) give its producer another epoch for the next (KIP-890).
type transactionKey struct {
	id       string
	producer int64
	epoch    int16
}

// transactions keeps the letters of Rejects that take effect when their transaction commits, in memory. It is the policy's and not a connection's:
// a request that ends a transaction goes to its coordinator, those that acknowledge in it go to leaders of partitions.
type transactions struct {
	policy  *Policy
	mu      sync.Mutex
	open    map[transactionKey]*transaction
	size    int64 // bytes for all that waits
	used    int64
	looking bool
}

// transaction is one that has letters. While somebody ends it, the items are theirs.
type transaction struct {
	key     transactionKey
	letters []waiting            // in the order they came
	places  map[letterPlace]bool // of all letters that there were
	until   time.Time
	ending  chan struct{} // closed when the end that is being decided about is over; nil: there is none
}

// waiting is a letter that waits.
type waiting struct {
	at   letterPlace
	item *item
	cost int64 // bytes
}

// letterPlace is what a letter is about, and for whom: a request that is repeated has its letters kept once.
type letterPlace struct {
	group, member string
	topic         codec.UUID
	partition     int32
	offset        int64
}

func newTransactions(p *Policy) *transactions {
	return &transactions{policy: p, open: make(map[transactionKey]*transaction), size: p.config.Memory}
}

// has says whether there was such a letter.
func (t *transactions) has(key transactionKey, at letterPlace) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.open[key]
	return one != nil && one.places[at]
}

// take takes n bytes. It does not wait: what is there may wait for minutes.
func (t *transactions) take(n int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n > t.size-t.used {
		return false
	}
	t.used += n
	return true
}

// bytes is how many are taken.
func (t *transactions) bytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used
}

// add has letters, whose bytes are taken, wait for the end of their transaction: all, or none where there are too many transactions.
func (t *transactions) add(key transactionKey, letters []waiting) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.open[key]
	if one == nil {
		if len(t.open) == maxTransactions || key.cost() > t.size-t.used {
			return false
		}
		one = &transaction{key: key, places: make(map[letterPlace]bool)}
		t.open[key], t.used = one, t.used+key.cost()
	}
	for _, l := range letters {
		if one.places[l.at] { // by another request meanwhile
			t.used -= l.cost
			continue
		}
		one.places[l.at] = true
		one.letters = append(one.letters, l)
	}
	one.until = t.policy.deps.Now().Add(transactionTime)
	if !t.looking {
		t.looking = t.policy.spawn(t.look)
	}
	return true
}

func (k *transactionKey) cost() int64 { return int64(len(k.id)) + letterCost }

// giveBack is for letters that add did not get.
func (t *transactions) giveBack(letters []waiting) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range letters {
		t.used -= l.cost
	}
}

// begin hands out the items of a transaction until finish; nil where there is none. It waits while somebody else has them.
func (t *transactions) begin(ctx context.Context, key transactionKey) (*transaction, []*item, error) {
	for {
		one, items, other := t.tryBegin(key)
		if other == nil {
			return one, items, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

func (t *transactions) tryBegin(key transactionKey) (one *transaction, items []*item, other <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one = t.open[key]; one == nil {
		return nil, nil, nil
	}
	if one.ending != nil {
		return nil, nil, one.ending
	}
	one.ending = make(chan struct{})
	for i := range one.letters {
		l := &one.letters[i]
		l.item = l.item.again()
		items = append(items, l.item)
	}
	return one, items, nil
}

// finish takes items back. Those that still are pending wait on.
func (t *transactions) finish(one *transaction, items []*item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	over := make(map[*item]bool, len(items))
	for _, it := range items {
		over[it] = it.fate != pending
	}
	t.remove(one, func(it *item) bool { return over[it] })
	close(one.ending)
	one.ending = nil
}

// abort drops the letters of a transaction, and returns how many there were.
func (t *transactions) abort(key transactionKey) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.open[key]; one != nil {
		return t.remove(one, func(*item) bool { return true })
	}
	return 0
}

// remove drops some letters of a transaction, and with the last of them the transaction.
func (t *transactions) remove(one *transaction, which func(*item) bool) int {
	before := len(one.letters)
	one.letters = slices.DeleteFunc(one.letters, func(l waiting) bool {
		gone := which(l.item)
		if gone {
			t.used -= l.cost
		}
		return gone
	})
	if len(one.letters) == 0 && t.open[one.key] == one {
		t.used -= one.key.cost()
		delete(t.open, one.key)
	}
	return before - len(one.letters)
}

// look lets go, from time to time, of transactions whose end nobody saw, until there are none.
func (t *transactions) look() {
	for t.policy.sleep(transactionLook) {
		if !t.expire(t.policy.deps.Now()) {
			return
		}
	}
}

// expire drops what has waited for too long, and says whether more waits.
func (t *transactions) expire(now time.Time) bool {
	t.mu.Lock()
	ended, letters := 0, 0
	for _, one := range t.open {
		if one.ending == nil && one.until.Before(now) {
			ended++
			letters += t.remove(one, func(*item) bool { return true })
		}
	}
	t.looking = len(t.open) > 0
	more := t.looking
	t.mu.Unlock()
	if ended > 0 {
		t.policy.metrics.transactions.WithLabelValues(lettersExpired).Add(float64(letters))
		t.policy.deps.Notify(fmt.Sprintf("%d dead letters are dropped: the end of %d transactions was not seen within %v", letters, ended, transactionTime))
	}
	return more
}
