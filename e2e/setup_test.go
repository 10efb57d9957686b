package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/e2e/client"
	"github.com/ackproxy/ackproxy/e2e/gateway"
	"github.com/ackproxy/ackproxy/e2e/kafka"
	"github.com/ackproxy/ackproxy/e2e/ledger"
	"github.com/ackproxy/ackproxy/policy/audit"
)

// shared is the cluster that runs at the moment. Tests that want the same one after each other share it: a cluster costs seconds.
var shared *kafka.Cluster

func TestMain(m *testing.M) {
	if err := seen(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if shared != nil {
		if err := shared.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// seen looks at every file that the programs under test are built from, so that go test does not take a result from its cache after a
// change of one.
func seen() error {
	for _, dir := range []string{"../go.mod", "../cmd", "../codec", "../policy", "../proxy", "../plugins", "../examples", "clients"} {
		if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				_, err = os.Stat(path)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// cluster returns a running cluster of that release and size, and shows its logs when the test fails.
func cluster(t *testing.T, version string, nodes int) *kafka.Cluster {
	t.Helper()
	want := kafka.Options{Version: version, Nodes: nodes}
	if shared != nil && shared.Options != want {
		if err := shared.Close(); err != nil {
			t.Fatal(err)
		}
		shared = nil
	}
	if shared == nil {
		start := time.Now()
		c, err := kafka.Boot(t.Context(), want)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("booted in %v", time.Since(start).Round(time.Millisecond))
		shared = c
	}
	t.Logf("Apache Kafka %s, %d node(s), cluster %s", version, nodes, shared.ID)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(shared.Logs(20))
		}
	})
	return shared
}

// proxy starts a gateway in front of a cluster and ends it with the test, unless stop did before.
func proxy(t *testing.T, c *kafka.Cluster, o gateway.Options) *gateway.Gateway {
	t.Helper()
	o.Brokers, o.Dir = len(c.Nodes), dir(t)
	if o.Upstream == "" {
		o.Upstream = c.Bootstrap()
	}
	g, err := gateway.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if g.Running() {
			if err := g.Stop(); err != nil {
				t.Error(err)
			}
		}
		if t.Failed() && !gateway.Direct() {
			t.Log(g.Logs(40))
		}
	})
	return g
}

// dir is a directory for the test's files, which stays when the test fails.
func dir(t testing.TB) string {
	t.Helper()
	d, err := os.MkdirTemp("", "ackproxy-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("files are kept in %s", d)
			return
		}
		if err := os.RemoveAll(d); err != nil {
			t.Error(err)
		}
	})
	return d
}

// group makes a share group named for the test.
func group(t *testing.T, c *kafka.Cluster, name string, settings map[string]string) string {
	t.Helper()
	g := strings.ReplaceAll(t.Name(), "/", "-") + "-" + name
	if err := c.ShareGroup(t.Context(), g, settings); err != nil {
		t.Fatal(err)
	}
	return g
}

// topic makes a topic named for the test, with three partitions, and returns its name and its id as the audit shows it.
func topic(t *testing.T, c *kafka.Cluster) (name, id string) {
	t.Helper()
	name = strings.ReplaceAll(t.Name(), "/", "-")
	uuid, err := c.CreateTopic(t.Context(), name, partitions)
	if err != nil {
		t.Fatal(err)
	}
	return name, base64.RawURLEncoding.EncodeToString(uuid[:])
}

const partitions = 3

// start starts a client and kills it with the test if it still runs then.
func start(t *testing.T, s client.Spec) *client.Client {
	t.Helper()
	if s.Log == "" {
		s.Log = filepath.Join(dir(t), s.ID+".log")
	}
	c, err := client.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.Running() {
			c.Kill()
		}
		if t.Failed() {
			t.Logf("%s has settled %d records; the last of what it said:\n%s", c.ID, c.Settled(), kafka.Tail(s.Log, 8))
		}
	})
	return c
}

// within bounds a wait: on a machine that is busy all is slow, but nothing hangs for ever.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// until waits for a condition.
func until(t *testing.T, d time.Duration, what string, ok func() bool) {
	t.Helper()
	if err := kafka.Until(within(t, d), what, func(context.Context) bool { return ok() }); err != nil {
		t.Fatal(err)
	}
}

// compare holds what clients of one group said against the audit, record by record.
func compare(t *testing.T, lines []*audit.Event, topicID string, calm bool, clients ...*client.Client) map[ledger.Key][]ledger.Entry {
	t.Helper()
	if gateway.Direct() {
		return nil
	}
	claims := map[ledger.Key][]ledger.Claim{}
	for _, c := range clients {
		for k, v := range ledger.Claims(c.ID, c.Events()) {
			claims[k] = v
		}
	}
	entries, err := ledger.Entries(lines, clients[0].Group, topicID)
	if err != nil {
		t.Fatal(err)
	}
	r := ledger.Compare(claims, entries, calm)
	t.Logf("%s: %d acknowledgements by %d client(s), %d audited", clients[0].Group, r.Claims, len(clients), r.Entries)
	if !r.OK() || r.Claims == 0 {
		t.Errorf("%s: the audit does not agree: %s", clients[0].Group, r)
	}
	return entries
}

// audited ends the gateway, so that its last line is written, and reads the file.
func audited(t *testing.T, g *gateway.Gateway) []*audit.Event {
	t.Helper()
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	if gateway.Direct() {
		t.Log("direct: without the proxy, nothing to compare")
		return nil
	}
	lines, err := ledger.ReadAudit(g.Audit)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}
