package dlq

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ackproxy/ackproxy/policy"
)

// Deps are what the policy needs from the program it runs in.
type Deps struct {
	StateDir string                // the spool is below it; empty: there is none, and the configuration must not want one
	Metrics  prometheus.Registerer // nil keeps the metrics to the policy
	// Notify is told what an operator should know, in a sentence: a group whose broker-side settings do not work, a spool that cannot be
	// used, a breaker that opens. It is told of changes only. nil: nobody.
	Notify func(string)
	Now    func() time.Time // nil is time.Now
	// Transactions says that the program has the policy decide about the ends of transactions (policy.TransactionPolicy), without which the
	// configuration must not want any letter to wait for one.
	Transactions bool
	// Deliveries says that the program tells the policy of deliveries (policy.DeliveryObserver), without which the configuration must not want
	// letters of those whose lock ran out.
	Deliveries bool
}

// Policy writes records to dead-letter topics before their Reject goes on.
type Policy struct {
	name    string
	config  Config
	deps    Deps
	metrics *metrics

	senders map[string]*sender // by the cluster's name; "" is the policy's own
	source  *source            // nil: not configured
	room    *room
	late    *room  // for letters that are spooled because there was no room in time
	store   *store // nil: the configuration does not want a spool
	groups  *groups
	brakes  *breakers
	reasons *reasons
	last    *lastDeliveries

	transactions *transactions

	draining sync.Map // names of queues that are being delivered
	drains   *room    // for what these have read

	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	running  sync.WaitGroup
	starting sync.Mutex // of what is running
}

var (
	_ policy.TransactionPolicy = (*Policy)(nil)
	_ policy.DeliveryObserver  = (*Policy)(nil)
)

// New makes the policy from its configuration, in JSON. Mistakes in it are joined, each a *policy.ConfigError. Brokers are not asked for
// anything yet: one that is down keeps nobody from starting. Close ends what New begins; ctx does not.
func New(ctx context.Context, name string, config []byte, deps Deps) (*Policy, error) {
	c, err := Parse(config)
	if err == nil {
		err = errors.Join(c.CheckState(deps.StateDir), c.checkTransactions(deps.Transactions), c.checkInfer(deps.Deliveries))
	}
	if err != nil {
		return nil, err
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Notify == nil {
		deps.Notify = func(string) {}
	}
	p := &Policy{name: name, config: c, deps: deps, room: newRoom(c.Memory), late: newRoom(c.beside()), drains: newRoom(c.beside()),
		senders: make(map[string]*sender)}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := p.open(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// open makes the parts, in the order that they need each other.
func (p *Policy) open() (err error) {
	c := &p.config
	p.metrics, p.transactions = newMetrics(p), newTransactions(p)
	for name, cluster := range c.all() {
		if p.senders[name], err = newSender(&cluster, c); err != nil {
			delete(p.senders, name)
			return below(clusterKey(name), err)
		}
	}
	if c.Source != nil {
		if p.source, err = newSource(c.Source, c.beside()); err != nil {
			return below("source", err)
		}
	}
	p.groups, p.brakes, p.last = newGroups(p), newBreakers(p), newLastDeliveries(p)
	if p.reasons, err = newReasons(c.Reasons); err != nil {
		return &policy.ConfigError{Key: "reasons.listen", Problem: err.Error()}
	}
	p.openSpool()
	return p.metrics.register(p.deps.Metrics)
}

// checkInfer says whether the policy can do what is wanted of it where the program does, or does not, tell it of deliveries.
func (c *Config) checkInfer(told bool) error {
	if told || !c.Infer {
		return nil
	}
	return &policy.ConfigError{Key: "infer", Problem: "the policy does not see deliveries here",
		Hint: "leave it out, or run it as builtin: dlq and not as a plugin"}
}

// all are the clusters that letters may go to.
func (c *Config) all() map[string]Cluster {
	all := map[string]Cluster{"": c.Cluster}
	for name, cluster := range c.Clusters {
		all[name] = cluster
	}
	return all
}

func clusterKey(name string) string {
	if name == "" {
		return "cluster"
	}
	return "clusters." + name
}

// spawn runs f in a goroutine that Close waits for. Once the policy is closed it does not.
func (p *Policy) spawn(f func()) (runs bool) {
	p.starting.Lock()
	defer p.starting.Unlock()
	if p.ctx.Err() != nil {
		return false
	}
	p.running.Go(f)
	return true
}

// Close gives up on what is being produced, and waits for all that the policy began. What the spool has stays there. It implements io.Closer.
func (p *Policy) Close() error {
	p.starting.Lock()
	p.cancel()
	p.starting.Unlock()
	for _, s := range p.senders {
		s.close()
	}
	if p.source != nil {
		p.source.client.Close()
	}
	err := p.reasons.close()
	p.running.Wait()
	err = errors.Join(err, p.closeSpool())
	p.metrics.close()
	return err
}

// Name is the policy's in the chain.
func (p *Policy) Name() string { return p.name }

const (
	spoolTime  = 2 * time.Second        // how much longer than its budget a decision may take: what was not produced in time goes to the spool
	answerTime = 100 * time.Millisecond // for the verdict to be there in time, or a tenth of the time that there is

	anyTime   = time.Hour
	leastTime = 50 * time.Millisecond // for producing, and for the spool: however little of a lock is left

	// LeastTimeout is the shortest time for a decision that is of use, where a chain has one of its own for the policy: half of it is for
	// producing, which takes brokers some 100 ms on a bad day, and what is left for synchronising the spool to a disk that is busy.
	LeastTimeout = time.Second
)

// Traits say that it waits, for how long, that it wants records, and whether it has letters wait for transactions.
func (p *Policy) Traits() policy.Traits {
	return policy.Traits{Waits: true, Budget: p.config.Budget + spoolTime, Records: true, Transactions: p.config.QueueTransactions}
}

// Decide forwards the request when all records that it rejects are dead-lettered, or their letters wait for the transaction to end. It does what the
// configuration says about those that are not. The wait has a budget: all that the client does on the connection waits as well.
func (p *Policy) Decide(ctx context.Context, r *policy.Request) (policy.Verdict, error) {
	if !p.config.wanted(r) {
		return policy.Verdict{}, nil
	}
	inTransaction := r.Carrier == policy.TxnShareAcknowledge // takes effect at the commit only
	if inTransaction && !p.config.QueueTransactions {
		p.metrics.transactional.Inc()
		return policy.Verdict{Reason: "in a transaction: not dead-lettered"}, nil
	}
	w := &work{policy: p, request: r, began: p.deps.Now(), group: p.groups.get(ctx, string(r.GroupID))}
	if inTransaction {
		w.group.limit = 0 // brokers refuse a Release there
	}
	if w.parts = p.config.collect(r, w.group); len(w.parts) == 0 {
		return policy.Verdict{}, nil
	}
	if p.config.StandDown {
		if w.parts = p.leave(w.parts, w.group); len(w.parts) == 0 {
			return policy.Verdict{Reason: "the broker dead-letters for this group"}, nil
		}
	}
	if p.brakes.open(w) {
		w.brake()
	}
	if inTransaction {
		return w.queue(ctx), nil
	}
	return w.decide(ctx), nil
}

// decide dead-letters all, and says what is to happen.
func (w *work) decide(ctx context.Context) policy.Verdict {
	produce, late := w.times()
	producing, cancel := w.begin(ctx, produce, late)
	defer cancel()
	w.deliver(producing)
	w.save(w.all)
	return w.verdict()
}

// times is how long making and producing the letters of a request may take, and then fetching records that are late and spooling. While the spool or
// a Release keeps the record, both heed the lock: what is accepted in the same request, or after it on the connection, waits as well, and is refused
// once its lock is over. But the letter comes first where the record is gone without.
func (w *work) times() (produce, late time.Duration) {
	budget, spools := w.policy.config.Budget, w.policy.spoolOpen()
	produce, late = w.withinLock()
	switch gone := w.loses(); {
	case gone && spools:
		late = anyTime
	case gone:
		produce, late = budget, 0
	case !spools:
		late = 0
	}
	return produce, late
}

// withinLock is the same by the lock alone: a quarter of what is left is for producing, and a half for all, but never so little that brokers and a disk
// that are well could not do it.
func (w *work) withinLock() (produce, late time.Duration) {
	left := w.lockLeft(w.policy.deps.Now())
	produce = min(w.policy.config.Budget, max(left/4, leastTime))
	return produce, max(left/2-produce, leastTime)
}

// loses says whether any record of the request would be gone, or may be, if it had no letter.
func (w *work) loses() bool {
	for i := range w.parts {
		for _, it := range w.parts[i].items {
			if it.fate != pending {
				continue
			}
			f := w.policy.choose(it, w.group)
			if f == forwarded || f != released && !w.group.comesAgain(it) {
				return true
			}
		}
	}
	return false
}

// begin begins the time for a decision, and for producing, which ends sooner: late before it. A chain gives all of it, or less; without one late is
// spoolTime at most.
func (w *work) begin(ctx context.Context, produce, late time.Duration) (producing context.Context, cancel context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok { // which is the chain's; after it nobody listens any more
		left := time.Until(end)
		produce = min(produce, left/2)
		late = min(late, left-produce-min(answerTime, left/10))
	} else {
		late = min(late, spoolTime)
	}
	ctx, cancelAll := context.WithTimeout(ctx, produce+late)
	w.all, w.fetchUntil = ctx, time.Now().Add(produce+late/2)
	producing, cancelProducing := context.WithTimeout(ctx, produce)
	return producing, func() { cancelProducing(); cancelAll() }
}

// auditRef is what to look for in the audit log.
func auditRef(r *policy.Request) string {
	if r.Conn == nil {
		return ""
	}
	return r.Conn.ID + "/" + strconv.Itoa(int(r.CorrelationID))
}
