package e2e

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/e2e/inprocess"
	"github.com/ackproxy/ackproxy/e2e/kafka"
	"github.com/ackproxy/ackproxy/e2e/tap"
	"github.com/ackproxy/ackproxy/policy"
)

const (
	rewriteWorkers = 4
	rewriteTopics  = 2
)

// TestRewriteCases sends random acknowledgements under random verdicts to a real broker, $E2E_REWRITE_CASES of them (1000), from
// $E2E_REWRITE_SEED (1) on. For each: what reached the broker is what the verdict says, offset by offset; the broker finds nothing wrong with it;
// the client is told what docs/policies.md says. And by a model of who holds what, the broker took it so: what it accepted never comes again,
// what was withheld does once the session is closed.
func TestRewriteCases(t *testing.T) {
	cases, err := strconv.Atoi(cmp.Or(os.Getenv("E2E_REWRITE_CASES"), "1000"))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("E2E_REWRITE_SEED"), "1"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	rig := newRewriteRig(t)
	var work sync.WaitGroup
	var all [rewriteWorkers]*rewriteWorker
	for i := range all {
		w := newRewriteWorker(rig, i, seed)
		if err := rig.cluster.ShareGroup(t.Context(), w.group, map[string]string{
			"share.record.lock.duration.ms": "60000", "share.delivery.count.limit": strconv.Itoa(rewriteLimit)}); err != nil {
			t.Fatal(err)
		}
		all[i] = w
		work.Go(func() { w.failed = w.run(t.Context(), cases/rewriteWorkers) })
	}
	work.Wait()
	var sum rewriteTally
	for i, w := range all {
		if w.failed != nil {
			t.Errorf("worker %d, seed %d, case %d: %v", i, seed, w.cases, w.failed)
		}
		sum.add(w.rewriteTally)
	}
	t.Logf("%+v", sum)
	if small := min(sum.withheld, sum.changed, sum.closes, sum.renews, sum.malformed, sum.strange, sum.repeated, sum.onFetch, sum.replies, sum.settled,
		sum.again); small < cases/200 {
		t.Errorf("too little of something: %+v", sum)
	}
}

// rewriteTally counts what was tried, so that the test notices when it tries too little.
type rewriteTally struct {
	cases, onFetch, closes, renews                   int // requests
	malformed, strange, repeated, replies            int // partitions in them
	withheld, changed, settled, again, archived, top int // records, but the last
}

func (t *rewriteTally) add(o rewriteTally) {
	t.cases += o.cases
	t.onFetch += o.onFetch
	t.closes += o.closes
	t.renews += o.renews
	t.malformed += o.malformed
	t.strange += o.strange
	t.repeated += o.repeated
	t.replies += o.replies
	t.withheld += o.withheld
	t.changed += o.changed
	t.settled += o.settled
	t.again += o.again
	t.archived += o.archived
	t.top += o.top
}

// rewriteRig is a broker with a tap, and a proxy with a policy that says what it is told to.
type rewriteRig struct {
	cluster *kafka.Cluster
	proxy   *inprocess.Proxy
	names   []string
	topics  [][16]byte

	produce sync.Mutex

	mu       sync.Mutex
	verdicts map[rewriteID]policy.Verdict
	reached  map[rewriteID]*tap.Exchange
}

// rewriteID names a request on both sides of the proxy.
type rewriteID struct {
	member      string
	correlation int32
}

func newRewriteRig(t *testing.T) *rewriteRig {
	r := &rewriteRig{cluster: cluster(t, kafka.Versions[0], 1), verdicts: map[rewriteID]policy.Verdict{}, reached: map[rewriteID]*tap.Exchange{}}
	for i := range rewriteTopics {
		name := fmt.Sprintf("%s-%d", t.Name(), i)
		id, err := r.cluster.CreateTopic(t.Context(), name, partitions)
		if err != nil {
			t.Fatal(err)
		}
		r.names, r.topics = append(r.names, name), append(r.topics, id)
	}
	node := r.cluster.Nodes[0]
	back, err := tap.Listen(node.Relayed(), node.RelayTarget(), nil, func(x *tap.Exchange) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reached[rewriteID{x.Member, x.Correlation}] = x
	})
	if err != nil {
		t.Fatal(err)
	}
	chain, err := policy.NewChain(policy.Member{Policy: r, OnFailure: policy.FailClose})
	if err != nil {
		t.Fatal(err)
	}
	if r.proxy, err = inprocess.Start([]string{node.Relayed()}, dir(t), chain); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.proxy.Stop(); err != nil {
			t.Error(err)
		}
		if err := back.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// Name implements policy.Policy.
func (r *rewriteRig) Name() string { return "told" }

// Traits implements policy.Policy.
func (r *rewriteRig) Traits() policy.Traits { return policy.Traits{} }

// Decide implements policy.Policy.
func (r *rewriteRig) Decide(_ context.Context, q *policy.Request) (policy.Verdict, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.verdicts[rewriteID{string(q.MemberID), q.CorrelationID}], nil
}

// tell says what is to happen to a request.
func (r *rewriteRig) tell(id rewriteID, v policy.Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verdicts[id] = v
}

// take is what reached the broker, once.
func (r *rewriteRig) take(id rewriteID) *tap.Exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.reached[id]
	delete(r.reached, id)
	delete(r.verdicts, id)
	return x
}

// more writes 60 records to each partition.
func (r *rewriteRig) more(ctx context.Context) error {
	r.produce.Lock()
	defer r.produce.Unlock()
	for _, name := range r.names {
		if err := r.cluster.Produce(ctx, name, partitions, 60); err != nil {
			return err
		}
	}
	return nil
}

// dial connects to the proxy.
func (r *rewriteRig) dial() (net.Conn, error) {
	c, err := net.Dial("tcp", r.proxy.Bootstrap)
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Now().Add(10 * time.Minute))
}
