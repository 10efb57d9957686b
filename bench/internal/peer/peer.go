//go:build linux

// Package peer starts what the benchmark measures: each relay or proxy as a process of its own, in front of the same broker stand-in.
package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/ackproxy/ackproxy/bench/internal/frames"
	"github.com/ackproxy/ackproxy/e2e/kafka"
)

// Peer is one contender.
type Peer struct {
	Name    string // as -peers wants it, "haproxy"
	Title   string // for people, "HAProxy, TCP mode"
	Version string
	Note    string // what a reader must know about how it is measured

	ShareVersion int16         // of the share APIs that it lets through
	Descriptors  int           // it holds for each client connection
	Warm         time.Duration // of load before anything counts: a virtual machine compiles what runs often
	Audited      bool          // it writes an audit log, Running.Audit

	command func(at Place) (Command, error) // nil: nothing runs, the client talks to the broker
}

// Place is where a peer works.
type Place struct {
	Listen, Upstream int    // ports of 127.0.0.1
	Dir              string // for its files, its own
}

// Command is how a peer is started.
type Command struct {
	Args []string // the program first
	Env  []string // added to ours
}

// Running is a started peer. Whoever started it calls Stop.
type Running struct {
	*Peer
	Addr  string // where clients connect
	PID   int    // 0 when nothing runs
	Audit string // its audit log, empty without one
	Admin string // its metrics, empty without them

	process *kafka.Process
	log     *os.File
}

// Direct is no proxy at all.
func Direct() *Peer {
	return &Peer{Name: "direct", Title: "direct, no proxy", ShareVersion: frames.ShareVersion, Descriptors: 0}
}

// Start starts a peer whose files go below dir, and returns when it takes connections.
func (p *Peer) Start(ctx context.Context, dir string, upstream int) (*Running, error) {
	if p.command == nil {
		return &Running{Peer: p, Addr: fmt.Sprintf("127.0.0.1:%d", upstream)}, nil
	}
	dir, err := os.MkdirTemp(dir, p.Name+"-")
	if err != nil {
		return nil, err
	}
	port, err := kafka.FreePorts(ports, "127.0.0.1")
	if err != nil {
		return nil, err
	}
	at := Place{Listen: port, Upstream: upstream, Dir: dir}
	c, err := p.command(at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	r := &Running{Peer: p, Addr: fmt.Sprintf("127.0.0.1:%d", port)}
	if p.Audited {
		r.Audit, r.Admin = at.audit(), at.admin()
	}
	if r.log, err = os.Create(filepath.Join(dir, "out")); err != nil {
		return nil, err
	}
	if r.process, err = kafka.Start(c.Args[0], c.Args[1:], kafka.ProcessOptions{Output: r.log, Env: c.Env, Dir: dir}); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", p.Name, err), r.log.Close())
	}
	r.PID = r.process.PID()
	if err := r.ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w\n%s", p.Name, err, r.Logs()), r.Stop())
	}
	return r, nil
}

// ports is how many in a row a peer may use, from Place.Listen.
const ports = 4

func (at Place) audit() string { return filepath.Join(at.Dir, "audit.jsonl") }
func (at Place) admin() string { return fmt.Sprintf("127.0.0.1:%d", at.Listen+1) }
func (at Place) brokers() int  { return at.Listen + 2 } // port of node 0

func (r *Running) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	ended := false
	err := kafka.Until(ctx, r.Name+" to listen", func(context.Context) bool {
		select {
		case <-r.process.Done():
			ended = true
			return true
		default:
		}
		c, err := net.DialTimeout("tcp", r.Addr, time.Second)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	if ended {
		return errors.New("it ended at its start")
	}
	return err
}

// Logs is the last that the peer printed.
func (r *Running) Logs() string {
	if r.log == nil {
		return ""
	}
	return kafka.Tail(r.log.Name(), 15)
}

// Stop ends the peer.
func (r *Running) Stop() error {
	if r.process == nil {
		return nil
	}
	return errors.Join(r.process.Kill(), r.log.Close())
}
