package e2e

import (
	"testing"

	"github.com/ackproxy/ackproxy/e2e/client"
	"github.com/ackproxy/ackproxy/e2e/gateway"
	"github.com/ackproxy/ackproxy/e2e/kafka"
)

// TestBrokerKilled kills a broker under load and starts it again. The clients go on through the proxy without help and settle every
// record, and the audit has every acknowledgement that a client was told to have succeeded.
func TestBrokerKilled(t *testing.T) {
	c := cluster(t, kafka.Versions[0], 3)
	g := proxy(t, c, gateway.Options{})
	l := startLoad(t, c, g, client.ExplicitSync)
	l.more(t, 100)
	leader, err := c.Leader(t.Context(), l.topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Nodes[leader-1].Kill(); err != nil {
		t.Fatal(err)
	}
	l.more(t, 100)
	if err := c.Nodes[leader-1].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.MoveLeader(t.Context(), l.topic, 0, leader); err != nil { // clients must come back to it, at its old address
		t.Fatal(err)
	}
	l.more(t, 100)
	records := l.finish(t, c)
	t.Logf("node %d killed and restarted under load, %d records", leader, records)
	l.check(t, g, records)
}
