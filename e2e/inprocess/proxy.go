// Package inprocess runs the proxy as a library, for tests that bring policies and observers of their own.
package inprocess

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/e2e/gateway"
	"github.com/ackproxy/ackproxy/e2e/kafka"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/audit"
	"github.com/ackproxy/ackproxy/proxy"
)

// Proxy is a running proxy. Whoever started it calls Stop.
type Proxy struct {
	Bootstrap string
	Audit     string // path of the audit log

	server  *proxy.Server
	auditor *audit.Auditor
	serving sync.WaitGroup

	mu     sync.Mutex
	failed error // of the audit
}

// Start runs a proxy in front of the brokers, whose node ids go from 1 to their number. Its log and its audit log are written to dir.
func Start(upstream []string, dir string, chain *policy.Chain) (*Proxy, error) {
	port, err := kafka.FreePorts(len(upstream)+1, gateway.Host)
	if err != nil {
		return nil, err
	}
	p := &Proxy{Bootstrap: fmt.Sprintf("%s:%d", gateway.Host, port), Audit: filepath.Join(dir, "audit.jsonl")}
	if p.auditor, err = audit.New(audit.Config{Sinks: []audit.Sink{{Type: audit.File, Path: p.Audit}}, TopicName: p.topicName, OnError: p.auditFailed}); err != nil {
		return nil, err
	}
	c := proxy.Defaults()
	c.Bootstrap, c.Advertise, c.BrokerPortsBase, c.Upstream, c.StateDir = p.Bootstrap, gateway.Host, port, upstream, ""
	c.Policies, c.Observers = chain, []policy.Observer{p.auditor}
	c.Log = zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr, NoColor: true}).Level(zerolog.WarnLevel)
	if p.server, err = proxy.New(c); err != nil {
		return nil, errors.Join(err, p.closeAudit())
	}
	p.serving.Go(func() {
		if err := p.server.Serve(context.Background()); err != nil {
			p.auditFailed(err)
		}
	})
	return p, nil
}

func (p *Proxy) topicName(id codec.UUID) (string, bool) { return p.server.TopicName(id) }

func (p *Proxy) auditFailed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = errors.Join(p.failed, err)
}

// Stop waits until the clients have closed their connections, and writes the last audit lines.
func (p *Proxy) Stop() error {
	err := p.server.Shutdown(context.Background())
	p.serving.Wait()
	err = errors.Join(err, p.closeAudit())
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(err, p.failed)
}

func (p *Proxy) closeAudit() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return p.auditor.Close(ctx)
}
