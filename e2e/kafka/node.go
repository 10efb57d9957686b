package kafka

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

//go:embed template/server.properties
var serverProperties string

//go:embed template/log4j2.yaml
var log4j2 []byte

// bootstrapCheckpoint is what formatting a 4.4.0 node with static voters leaves beside meta.properties, in base64: the feature levels
// of that release. It holds neither cluster id nor node id, so that one serves every node and no JVM is needed to format.
//
//go:embed template/bootstrap-4.4.0.checkpoint
var bootstrapCheckpoint []byte

// jvm keeps a broker small and its start quick.
var jvm = []string{"-Xmx300m", "-Xms32m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}

// Node is one broker and controller. Its methods are for one goroutine at a time.
type Node struct {
	ID int32

	cluster *Cluster
	jars    string
	dir     string
	base    int // internal, CLIENT, RELAYED and CONTROLLER listen here and on the next three ports
	process *Process
	out     *os.File
}

func (n *Node) internal() string { return fmt.Sprintf("127.0.0.1:%d", n.base) }

// Client is the address of the CLIENT listener, which it advertises.
func (n *Node) Client() string { return fmt.Sprintf("127.0.0.1:%d", n.base+1) }

// Relayed is the address that the RELAYED listener advertises; a relay listens there.
func (n *Node) Relayed() string { return fmt.Sprintf("%s:%d", RelayHost, n.base+2) }

// RelayTarget is where the RELAYED listener listens itself.
func (n *Node) RelayTarget() string { return fmt.Sprintf("127.0.0.1:%d", n.base+2) }

// Ports are all ports that the node listens on.
func (n *Node) Ports() []int { return []int{n.base, n.base + 1, n.base + 2, n.base + 3} }

// PID is the broker's process id. It is running.
func (n *Node) PID() int { return n.process.PID() }

func (n *Node) log() string { return filepath.Join(n.dir, "out") }

func (n *Node) properties() string { return filepath.Join(n.dir, "server.properties") }

func (n *Node) configure(voters string) error {
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(n.dir, "log4j2.yaml"), log4j2, 0o644); err != nil {
		return err
	}
	f, err := os.Create(n.properties())
	if err != nil {
		return err
	}
	defer f.Close()
	return template.Must(template.New("").Parse(serverProperties)).Execute(f, map[string]any{
		"ID": n.ID, "Voters": voters, "Dir": n.dir, "Replicas": n.cluster.Options.Nodes, "RelayHost": RelayHost,
		"Internal": n.base, "Client": n.base + 1, "Relayed": n.base + 2, "Controller": n.base + 3,
		"From42": n.cluster.Version >= "4.2", "From43": n.cluster.Version >= "4.3",
	})
}

func (n *Node) java(args ...string) []string {
	return append(append([]string{"-cp", n.jars + "/*", "-Dlog4j2.configurationFile=" + filepath.Join(n.dir, "log4j2.yaml")}, jvm...), args...)
}

// Start starts the node on its directory, where it may have run before. It does not wait: Cluster.Ready does.
func (n *Node) Start() error {
	out, err := os.OpenFile(n.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	p, err := Start("java", n.java("kafka.Kafka", n.properties()), ProcessOptions{Output: out})
	if err != nil {
		return errors.Join(err, out.Close())
	}
	n.process, n.out = p, out
	return nil
}

// ended says that the node does not run, or has ended by itself.
func (n *Node) ended() bool {
	if n.process == nil {
		return true
	}
	select {
	case <-n.process.Done():
		return true
	default:
		return false
	}
}

// Kill sends SIGKILL and waits for the end. A node that does not run is left alone.
func (n *Node) Kill() error {
	if n.process == nil {
		return nil
	}
	err := errors.Join(n.process.Kill(), n.out.Close())
	n.process = nil
	return err
}

// Stop sends SIGTERM and waits; a node that is still there after grace is killed, as one without a controller quorum must be.
func (n *Node) Stop(grace time.Duration) error {
	if n.process == nil {
		return nil
	}
	if err := n.process.Stop(grace); err != nil && !strings.Contains(err.Error(), "143") { // 128 + SIGTERM is how a JVM ends
		return errors.Join(fmt.Errorf("node %d: %w", n.ID, err), n.Kill())
	}
	return n.Kill()
}

// Restart starts the node again and waits until the cluster is whole.
func (n *Node) Restart(ctx context.Context) error {
	if err := errors.Join(n.Kill(), n.Start()); err != nil {
		return err
	}
	return n.cluster.Ready(ctx)
}
