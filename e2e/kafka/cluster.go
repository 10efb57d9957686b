// Package kafka boots Apache Kafka brokers for tests: KRaft nodes of one release, from the jars of Maven Central, on free ports of
// 127.0.0.1, in seconds. Every process dies with the test binary.
//
// A node has four listeners: INTERNAL for the brokers among themselves and for the harness, CLIENT for what is under test, RELAYED for
// tests that put a relay in between, advertised at a host where that relay listens, and CONTROLLER.
package kafka

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// RelayHost is the host that RELAYED listeners are advertised at; their ports are the same there as on 127.0.0.1. It is longer than any
// other host of the tests, so that addresses change their length where they are rewritten.
const RelayHost = "127.100.100.103"

// Options say what to boot.
type Options struct {
	Version string // "4.4.0"
	Nodes   int    // 1 or 3; their ids are 1 to Nodes
}

// Cluster is a running set of brokers. Whoever started it calls Close.
type Cluster struct {
	Options
	ID    string  // cluster id
	Nodes []*Node // node id n is Nodes[n-1]
	Dir   string  // data and logs, removed by Close

	admin *kgo.Client // on the INTERNAL listeners
}

// Boot formats and starts a cluster and returns when every broker is listed in Metadata and a share group has consumed a record:
// the first consumption in a cluster takes seconds more than later ones.
func Boot(ctx context.Context, o Options) (*Cluster, error) {
	jars, err := Jars(ctx, o.Version)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ackproxy-kafka-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{Options: o, ID: uuid(), Dir: dir}
	if err := c.boot(ctx, jars); err != nil {
		err = fmt.Errorf("boot Kafka %s: %w\n%s", o.Version, err, c.Logs(40))
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) boot(ctx context.Context, jars string) error {
	if err := c.layOut(jars); err != nil {
		return err
	}
	for _, n := range c.Nodes {
		if err := n.format(ctx); err != nil {
			return err
		}
	}
	for _, n := range c.Nodes {
		if err := n.Start(); err != nil {
			return err
		}
	}
	var err error
	if c.admin, err = kgo.NewClient(kgo.SeedBrokers(c.addrs((*Node).internal)...), kgo.MetadataMinAge(10*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression())); err != nil {
		return err
	}
	if err := c.Ready(ctx); err != nil {
		return err
	}
	return c.warmUp(ctx)
}

// layOut chooses ports and writes every node's configuration.
func (c *Cluster) layOut(jars string) error {
	base, err := FreePorts(4*c.Options.Nodes, "127.0.0.1", RelayHost)
	if err != nil {
		return err
	}
	var voters []string
	for i := range c.Options.Nodes {
		n := &Node{ID: int32(i + 1), cluster: c, jars: jars, dir: filepath.Join(c.Dir, fmt.Sprintf("n%d", i+1)), base: base + 4*i}
		c.Nodes = append(c.Nodes, n)
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", n.ID, n.base+3))
	}
	for _, n := range c.Nodes {
		if err := n.configure(strings.Join(voters, ",")); err != nil {
			return err
		}
	}
	return nil
}

// Close kills every node and removes the directory.
func (c *Cluster) Close() error {
	if c.admin != nil {
		c.admin.Close()
	}
	var errs []error
	for _, n := range c.Nodes {
		errs = append(errs, n.Kill())
	}
	return errors.Join(append(errs, os.RemoveAll(c.Dir))...)
}

// Bootstrap is the CLIENT addresses of all nodes, joined by commas.
func (c *Cluster) Bootstrap() string { return strings.Join(c.addrs((*Node).Client), ",") }

// RelayedBootstrap is the advertised addresses of the RELAYED listeners, joined by commas.
func (c *Cluster) RelayedBootstrap() string { return strings.Join(c.addrs((*Node).Relayed), ",") }

func (c *Cluster) addrs(of func(*Node) string) []string {
	var all []string
	for _, n := range c.Nodes {
		all = append(all, of(n))
	}
	return all
}

// Client is a client on the brokers' internal listeners, owned by the cluster.
func (c *Cluster) Client() *kgo.Client { return c.admin }

// Admin is an administration client on the brokers' internal listeners, owned by the cluster.
func (c *Cluster) Admin() *kadm.Client { return kadm.NewClient(c.admin) }

// Logs is the last lines that each node printed, for the report of a failed test.
func (c *Cluster) Logs(lines int) string {
	var b strings.Builder
	for _, n := range c.Nodes {
		fmt.Fprintf(&b, "--- node %d (Kafka %s)\n%s\n", n.ID, c.Version, Tail(n.log(), lines))
	}
	return b.String()
}

// Tail is the last lines of a file.
func Tail(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// uuid makes an id as Kafka writes them: 22 characters of base64url.
func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[0] &= 0x7f // a leading dash would read as an option
	return base64.RawURLEncoding.EncodeToString(b[:])
}
