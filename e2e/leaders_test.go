package e2e

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/e2e/client"
	"github.com/ackproxy/ackproxy/e2e/gateway"
	"github.com/ackproxy/ackproxy/e2e/kafka"
	"github.com/ackproxy/ackproxy/e2e/ledger"
)

// storm is the settings of a group whose brokers go away: locks that a lost answer left behind end soon, and what comes again does not
// run into the delivery limit.
var storm = map[string]string{"share.record.lock.duration.ms": "5000", "share.delivery.count.limit": "10"}

// load is a producer and one member a library, each in a group of its own, all through the proxy.
type load struct {
	topic, id string
	producer  *client.Client
	members   []*client.Client
}

func startLoad(t *testing.T, c *kafka.Cluster, g *gateway.Gateway, mode string) load {
	t.Helper()
	var l load
	l.topic, l.id = topic(t, c)
	l.producer = start(t, client.Spec{Kind: client.Kgo, Bootstrap: g.Bootstrap(), Topic: l.topic, ID: "producer", Mode: client.Produce,
		Interval: 100 * time.Millisecond, Size: 20_000, Log: filepath.Join(g.Dir, "producer.log")})
	for _, kind := range client.Kinds {
		l.members = append(l.members, start(t, client.Spec{Kind: kind, Bootstrap: g.Bootstrap(), Topic: l.topic, ID: string(kind),
			Group: group(t, c, string(kind), storm), Mode: mode, Seed: 3}))
	}
	return l
}

// more waits until every member has settled another n records.
func (l load) more(t *testing.T, n int) {
	t.Helper()
	for _, m := range l.members {
		from := m.Settled()
		until(t, 2*time.Minute, m.ID+" to settle more records", func() bool { return m.Settled() >= from+n || !m.Running() || !l.producer.Running() })
		for _, c := range []*client.Client{m, l.producer} {
			if !c.Running() {
				t.Fatalf("%s ended: %v", c.ID, c.Stop())
			}
		}
	}
}

// move makes the next broker the leader of a partition.
func (l load) move(t *testing.T, c *kafka.Cluster, partition int32) {
	t.Helper()
	ctx := within(t, 30*time.Second)
	leader, err := c.Leader(ctx, l.topic, partition)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.MoveLeader(ctx, l.topic, partition, leader%int32(len(c.Nodes))+1); err != nil {
		t.Fatal(err)
	}
}

// finish ends the producer, waits until the broker says that every member's group has settled every record, ends the members, and
// returns the number of records.
func (l load) finish(t *testing.T, c *kafka.Cluster) int {
	t.Helper()
	if err := l.producer.Stop(); err != nil {
		t.Fatal(err)
	}
	events := l.producer.Events()
	records := events[len(events)-1].Settled
	for _, m := range l.members {
		until(t, 3*time.Minute, m.ID+" to settle all records", func() bool {
			lag, err := c.ShareLag(t.Context(), m.Group, l.topic, partitions)
			return err == nil && lag == 0 || !m.Running()
		})
		if err := m.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	return records
}

// check holds what the members said against the audit, and that each record was settled, as far as a client can know.
func (l load) check(t *testing.T, g *gateway.Gateway, records int) {
	t.Helper()
	lines := audited(t, g)
	for _, m := range l.members {
		entries := compare(t, lines, l.id, false, m)
		claims := ledger.Claims(m.ID, m.Events())
		if len(claims) != records {
			t.Errorf("%s acknowledged %d of %d records", m.ID, len(claims), records)
		}
		verdicts := map[string]int{}
		for _, es := range entries {
			for _, e := range es {
				verdicts[fmt.Sprintf("%s %d", e.State, e.Code)]++
			}
		}
		t.Logf("%s: verdicts with error codes %v", m.ID, verdicts)
		unsure, open := ledger.Unsure(claims, entries)
		t.Logf("%s: %d records are settled for the broker only, not for the client", m.ID, len(unsure))
		for _, k := range unsure[:min(3, len(unsure))] {
			k.Client = m.ID
			t.Logf("%s: %d/%d: %+v, audited %+v", m.ID, k.Partition, k.Offset, claims[k], entries[k])
		}
		if len(open) > 0 && !gateway.Direct() {
			t.Errorf("%s: settled for the broker, but nothing in the audit can have done it: %v", m.ID, open)
		}
	}
}

// TestLeaderMoves moves leaders a hundred times under load. No client ever has a socket to a broker or knows an address of one, and no
// acknowledgement that a client was told to have succeeded is missing in the audit.
func TestLeaderMoves(t *testing.T) {
	const moves = 100
	c := cluster(t, kafka.Versions[0], 3)
	g := proxy(t, c, gateway.Options{})
	l := startLoad(t, c, g, client.Explicit)
	pids := []int{l.producer.PID()}
	for _, m := range l.members {
		pids = append(pids, m.PID())
	}
	watch := client.WatchSockets(pids...)
	l.more(t, 50)
	for i := range moves {
		l.move(t, c, int32(i%partitions))
		if i%10 == 9 {
			l.more(t, 10)
		}
	}
	records := l.finish(t, c)
	peers, samples, err := watch.Stop()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d leader moves, %d records, %d samples of the sockets", moves, records, samples)
	everyone := append([]*client.Client{l.producer}, l.members...)
	for _, m := range everyone {
		escapes(t, g, m, peers[m.PID()])
	}
	l.check(t, g, records)
}

// escapes: every peer in the kernel's table and every node that the client knows is the gateway.
func escapes(t *testing.T, g *gateway.Gateway, c *client.Client, peers map[netip.AddrPort]bool) {
	t.Helper()
	if gateway.Direct() {
		return
	}
	brokers := 0
	for p := range peers {
		if p.Addr().String() != gateway.Host || int(p.Port()) < g.Port || int(p.Port()) > g.Port+g.Brokers {
			t.Errorf("%s had a socket to %v", c.ID, p)
		} else if int(p.Port()) > g.Port {
			brokers++
		}
	}
	known := map[string]bool{}
	for _, e := range c.Events() {
		for _, n := range e.Nodes {
			known[n] = true
			if !strings.HasPrefix(n, gateway.Host+":") {
				t.Errorf("%s knows %s", c.ID, n)
			}
		}
	}
	t.Logf("%s: sockets to %d addresses, %d of them broker listeners; %d node addresses known", c.ID, len(peers), brokers, len(known))
	if brokers != g.Brokers || len(known) < g.Brokers { // Java knows the bootstrap address as a node at first
		t.Errorf("%s used %d of %d broker listeners and knows %d nodes: the check saw too little", c.ID, brokers, g.Brokers, len(known))
	}
}
