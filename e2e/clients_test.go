package e2e

import (
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/e2e/client"
	"github.com/ackproxy/ackproxy/e2e/gateway"
	"github.com/ackproxy/ackproxy/e2e/kafka"
	"github.com/ackproxy/ackproxy/e2e/ledger"
	"github.com/ackproxy/ackproxy/policy/audit"
)

// TestClients: what each client library acknowledges, in each mode, on either carrier, stands in the audit: each record as often, as
// what, in the order and with the verdict that the client knows.
func TestClients(t *testing.T) {
	modes := []string{client.Explicit, client.ExplicitSync, client.Implicit, client.ImplicitSync}
	matrix(t, cluster(t, kafka.Versions[0], 3), client.Kinds, modes)
}

// perPartition is how many records each member of a matrix settles in each partition: 2,100 in all.
const perPartition = 700

// matrix runs a client of each kind at once, each in a group of its own, once for each mode.
func matrix(t *testing.T, c *kafka.Cluster, kinds []client.Kind, modes []string) {
	g := proxy(t, c, gateway.Options{})
	name, id := topic(t, c)
	if err := c.Produce(t.Context(), name, partitions, perPartition); err != nil {
		t.Fatal(err)
	}
	var all []*client.Client
	for i, mode := range modes {
		var now []*client.Client
		for _, kind := range kinds {
			now = append(now, start(t, client.Spec{
				Kind: kind, Bootstrap: g.Bootstrap(), Topic: name, Group: group(t, c, string(kind)+"-"+mode, nil), ID: string(kind) + "-" + mode,
				Mode: mode, Count: partitions * perPartition, Seed: i, Renew: c.Version >= "4.2", // below, the whole request fails
				RecordLimit: mode == client.ExplicitSync && c.Version >= "4.2",
			}))
		}
		for _, one := range now {
			if err := one.Wait(within(t, 2*time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, now...)
	}
	lines := audited(t, g)
	for _, one := range all {
		t.Run(one.ID, func(t *testing.T) { calm(t, one, lines, id) })
	}
}

// calm checks one client of a matrix, where nothing may have failed.
func calm(t *testing.T, c *client.Client, lines []*audit.Event, topicID string) {
	entries := compare(t, lines, topicID, true, c)
	if got := c.Settled(); got != partitions*perPartition {
		t.Errorf("%d records settled", got)
	}
	for _, e := range c.Events() {
		if e.Error != nil {
			t.Errorf("%+v: %s", e, *e.Error)
		}
	}
	if !gateway.Direct() {
		types(t, c, entries)
		carriers(t, c, entries)
	}
}

// types: an implicit client accepts all, an explicit one uses every type that it has.
func types(t *testing.T, c *client.Client, entries map[ledger.Key][]ledger.Entry) {
	n := map[string]int{}
	for _, es := range entries {
		for _, e := range es {
			n[e.Type]++
		}
	}
	t.Logf("audited types: %v", n)
	explicit := c.Mode == client.Explicit || c.Mode == client.ExplicitSync
	for kind, want := range map[string]bool{"accept": true, "release": explicit, "reject": explicit,
		"renew": explicit && c.Renew && c.Kind != client.Python} {
		if (n[kind] > 0) != want {
			t.Errorf("%d of type %s", n[kind], kind)
		}
	}
}

// carriers: a client that commits uses ShareAcknowledge for all, one that only polls uses ShareFetch where a fetch to that broker comes
// next. The others go by ShareAcknowledge: with three leaders librdkafka, which fetches from one at a time, sends most of them so, and
// kgo its renewals.
func carriers(t *testing.T, c *client.Client, entries map[ledger.Key][]ledger.Entry) {
	n := map[string]int{}
	for _, es := range entries {
		for _, e := range es {
			n[e.Carrier]++
		}
	}
	t.Logf("carriers: %v", n)
	syncs := c.Mode == client.ExplicitSync || c.Mode == client.ImplicitSync
	if syncs && n["share_fetch"] > 0 || !syncs && n["share_fetch"] == 0 {
		t.Errorf("acknowledgements rode on %v", n)
	}
}
