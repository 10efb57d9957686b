package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/e2e/client"
	"github.com/ackproxy/ackproxy/e2e/gateway"
	"github.com/ackproxy/ackproxy/e2e/kafka"
	"github.com/ackproxy/ackproxy/e2e/wire"
)

// frontHost is where the relays before the gateway listen, at the gateway's ports; the gateway tells clients that it is there.
const frontHost = "127.0.0.4"

// relays listen at one host each and record.
type relays []*wire.Relay

func (rs relays) conns() (all []*wire.Conn) {
	for _, r := range rs {
		all = append(all, r.Conns()...)
	}
	return all
}

func (rs relays) close() error {
	var errs []error
	for _, r := range rs {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

func relay(t *testing.T, rs *relays, listen, target string) {
	t.Helper()
	r, err := wire.NewRelay(listen, target)
	if err != nil {
		t.Fatal(err)
	}
	*rs = append(*rs, r)
}

// TestBytes records on both sides of the proxy while three libraries share-consume, a producer and a consumer run and leaders move:
// each broker connection carries the bytes of one client connection, and each answer reaches the client as the broker gave it but for
// addresses. Answers are of all sizes up to some hundred KiB, and the proxy's host is shorter than the brokers'. A client that went to
// a broker itself would show as a connection of the proxy's own.
func TestBytes(t *testing.T) {
	if gateway.Direct() {
		t.Fatal("this compares the two sides of the proxy: not to be run without it")
	}
	c := cluster(t, kafka.Versions[0], 3)
	var front, back relays
	for _, n := range c.Nodes {
		relay(t, &back, n.Relayed(), n.RelayTarget())
	}
	g := proxy(t, c, gateway.Options{Upstream: c.RelayedBootstrap(), Advertise: frontHost})
	for p := g.Port; p <= g.Port+g.Brokers; p++ {
		relay(t, &front, fmt.Sprintf("%s:%d", frontHost, p), fmt.Sprintf("%s:%d", gateway.Host, p))
	}
	l := startLoad(t, c, g, client.Explicit)
	// No renewals: after a commitSync of some, poll of the Java client may spin for good and return nothing. It does so without a proxy as well.
	l.members = append(l.members, start(t, client.Spec{Kind: client.Java, Bootstrap: g.Bootstrap(), Topic: l.topic, ID: "java-sync",
		Group: group(t, c, "java-sync", storm), Mode: client.ExplicitSync}))
	l.more(t, 50)
	for i := range 2 * partitions {
		l.move(t, c, int32(i%partitions))
		l.more(t, 20)
	}
	others(t, g, l.topic)
	hints(t, c, g)
	l.finish(t, c)
	if err := g.Stop(); err != nil { // all connections end
		t.Fatal(err)
	}
	if err := errors.Join(front.close(), back.close()); err != nil {
		t.Fatal(err)
	}
	same(t, front.conns(), back.conns())
}

// same compares the recordings, and makes sure that they hold what they are to show.
func same(t *testing.T, front, back []*wire.Conn) {
	t.Helper()
	tally, problems := wire.Compare(front, back, wire.Hosts{Front: frontHost, Back: kafka.RelayHost})
	t.Logf("%d connections, %d bytes; exchanges %v; rewritten %v, %d of them with filler; endpoints told %v; %d answers not waited for; "+
		"the proxy's own requests %v", tally.Conns, tally.Bytes, tally.Exchanges, tally.Rewritten, tally.Filled, tally.Endpoints, tally.Cut, tally.Own)
	for _, p := range problems[:min(len(problems), 10)] {
		t.Error(p[:min(len(p), 2000)])
	}
	for _, api := range []string{"Metadata", "FindCoordinator", "DescribeCluster", "ShareFetch", "Fetch"} {
		if tally.Endpoints[api] == 0 || tally.Rewritten[api] == 0 {
			t.Errorf("no address in any %s answer: the comparison saw too little", api)
		}
	}
	for _, api := range []string{"Produce", "ApiVersions", "ShareAcknowledge", "ShareGroupHeartbeat"} {
		if tally.Exchanges[api] == 0 {
			t.Errorf("no %s: the comparison saw too little", api)
		}
	}
	if tally.Filled < 2 {
		t.Errorf("%d large answers with an address: the comparison saw too little", tally.Filled)
	}
	for api, n := range tally.Own {
		if api != "ApiVersions" && api != "Metadata" {
			t.Errorf("the proxy itself sent %d of %s", n, api)
		}
	}
	if n := tally.Rewritten["ApiVersions"]; n > 0 {
		t.Errorf("%d ApiVersions answers changed; all that these brokers offer is read", n)
	}
}

// others sends what share clients do not: Fetch and DescribeCluster.
func others(t *testing.T, g *gateway.Gateway, topic string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(g.Bootstrap()), kgo.ClientID("others"), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx := within(t, 30*time.Second)
	if _, err := kmsg.NewPtrDescribeClusterRequest().RequestWith(ctx, cl); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < 100; {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		n += fs.NumRecords()
	}
}
