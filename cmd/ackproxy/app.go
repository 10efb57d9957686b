package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"

	"github.com/ackproxy/ackproxy/cmd/ackproxy/internal/config"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/audit"
	"github.com/ackproxy/ackproxy/proxy"
)

// app is the running proxy with all that belongs to it. drain, or close, ends it.
type app struct {
	config  config.Config
	log     zerolog.Logger
	metrics *prometheus.Registry
	server  *proxy.Server
	logs    []*auditLog // the one of the section audit first
	plugins []plugin
	closers []io.Closer   // of built-in policies
	admin   *adminServer  // nil: none
	lost    chan struct{} // gets a value when nobody reads standard output, an audit sink, any more

	draining atomic.Bool
	serving  sync.WaitGroup // what start began
}

// auditLog is an auditor that is made after the server, with whose listeners the start may fail; nothing is observed before Serve.
type auditLog struct {
	name  string // in metrics
	sinks []audit.Sink
	to    *audit.Auditor
}

// Observe implements policy.Observer.
func (l *auditLog) Observe(o *policy.Outcome) { l.to.Observe(o) }

// newApp binds every listener and opens every sink, and serves nothing yet. After an error nothing is left behind. The end of ctx ends it early.
func newApp(ctx context.Context, c config.Config, log zerolog.Logger) (*app, error) {
	a := &app{config: c, log: log, metrics: newRegistry(), lost: make(chan struct{}, 1)}
	if c.Admin.Listen != config.AdminNone {
		ln, err := net.Listen("tcp", string(c.Admin.Listen))
		if err != nil {
			return nil, fmt.Errorf("admin.listen: %w (choose another address, or none)", err)
		}
		a.admin = newAdminServer(ln, a)
	}
	own := &auditLog{name: "audit", sinks: auditSinks(c.Audit.Sinks)}
	a.logs = append(a.logs, own)
	policies, err := a.startPolicies(ctx)
	if err != nil {
		a.close()
		return nil, err
	}
	if len(own.sinks) > 0 || a.admin != nil { // else nobody could see what it writes and counts
		policies.observers = append(policies.observers, own)
	}
	if a.server, err = proxy.New(proxyConfig(c, policies, a.metrics, log)); err != nil {
		a.close()
		return nil, err
	}
	for _, l := range a.logs {
		if l.to, err = audit.New(a.auditConfig(l)); err != nil {
			a.close()
			return nil, err
		}
	}
	return a, nil
}

// close ends what newApp made, when it could not make the rest.
func (a *app) close() {
	if a.admin != nil {
		a.admin.listener.Close()
	}
	if a.server != nil {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		if err := a.server.Shutdown(now); err != nil {
			a.log.Debug().Err(err).Msg("closed")
		}
	}
	a.closeLogs(context.Background())
	a.closePolicies()
}

func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "ackproxy_build_info",
		Help:        "1; the labels say which version runs, and the Kafka release whose schemas it reads.",
		ConstLabels: prometheus.Labels{"version": readVersion().Version, "kafka_schema": kafkaSchema},
	})
	build.Set(1)
	live := collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)} // rises only where something is kept
	r.MustRegister(build, collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(live)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

func proxyConfig(c config.Config, all policies, r prometheus.Registerer, log zerolog.Logger) proxy.Config {
	p := proxy.Config{
		Bootstrap:       string(c.Listen.Bootstrap),
		Advertise:       string(c.Listen.Advertise),
		BrokerPortsBase: int(c.Listen.BrokerPorts.Base),
		Nodes:           map[int32]string{},
		HostPattern:     string(c.Upstream.HostPattern),
		DialTimeout:     time.Duration(c.Upstream.DialTimeout),
		MaxFrame:        int(c.Protocol.MaxFrame),
		MaxInFlight:     int(c.Protocol.MaxInFlight),
		MaxBuffered:     int64(c.Protocol.MaxBuffered),
		KeepRecords:     cmp.Or(int64(c.Protocol.KeepRecords), -1),
		HeaderTimeout:   time.Duration(c.Protocol.HeaderTimeout),
		HideUnknownAPIs: c.Protocol.UnknownAPIs == config.UnknownHide,
		SASLv0Relay:     c.Protocol.SASLv0 == config.SASLRelay,
		TxnKey:          int16(c.Protocol.TxnShareAcknowledge.APIKey),
		TxnArm:          proxy.Arm(c.Protocol.TxnShareAcknowledge.Arm),
		StateDir:        c.State.Dir,
		DrainTimeout:    c.DrainTimeout(),
		Policies:        all.chain,
		Observers:       all.observers,
		Endpoints:       all.endpoints,
		Registerer:      r,
		Log:             log,
	}
	for _, u := range c.Upstream.Bootstrap {
		p.Upstream = append(p.Upstream, string(u))
	}
	for id, address := range c.Upstream.Nodes {
		p.Nodes[id] = string(address)
	}
	return p
}

func (a *app) auditConfig(l *auditLog) audit.Config {
	return audit.Config{
		Name:       l.name,
		Version:    readVersion().Version,
		Sinks:      l.sinks,
		TopicName:  a.server.TopicName,
		Registerer: a.metrics,
		OnError:    a.sinkFailed,
	}
}

func auditSinks(sinks []config.Sink) (out []audit.Sink) {
	for _, s := range sinks {
		out = append(out, audit.Sink{Type: string(s.Type), Path: s.Path})
	}
	return out
}

// sinkFailed is told of a sink that cannot be written.
func (a *app) sinkFailed(err error) {
	a.log.Error().Err(err).Msg("audit lines are not written")
	if errors.Is(err, syscall.EPIPE) && strings.Contains(err.Error(), "sink stdout") {
		select {
		case a.lost <- struct{}{}:
		default:
		}
	}
}

// start begins to serve. The channel gets the error of a part that ends by itself.
func (a *app) start() <-chan error {
	ended := make(chan error, 2)
	a.serving.Go(func() {
		if err := a.server.Serve(context.Background()); err != nil {
			ended <- err
		}
	})
	if a.admin != nil {
		a.serving.Go(func() {
			if err := a.admin.serve(); err != nil {
				ended <- err
			}
		})
	}
	return ended
}

// reopenFiles has all audit logs open their files anew.
func (a *app) reopenFiles(why os.Signal) {
	a.log.Info().Stringer("signal", why).Msg("audit files are opened anew")
	for _, l := range a.logs {
		l.to.Reopen()
	}
}

// drain ends everything in order: connections, audit, admin server. A signal meanwhile ends it at once, which it reports.
func (a *app) drain(signals <-chan os.Signal) (atOnce bool) {
	a.draining.Store(true)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := a.server.Shutdown(ctx); err != nil {
			a.log.Warn().Err(err).Msg("connections were closed")
		}
		a.closeLogs(ctx)
		a.closePolicies()
		if a.admin != nil {
			a.admin.close()
		}
		a.serving.Wait()
	}()
	select {
	case <-done:
		a.log.Info().Msg("stopped")
		return false
	case s := <-signals:
		a.log.Warn().Stringer("signal", s).Msg("ending at once")
		cancel()
	}
	select {
	case <-done:
	case <-time.After(time.Second): // what hangs ends with the process
	}
	return true
}

// closeLogs writes what is queued. Sinks that do not take it have 5 seconds.
func (a *app) closeLogs(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for _, l := range a.logs {
		if l.to == nil {
			continue
		}
		all.Go(func() {
			if err := l.to.Close(ctx); err != nil {
				a.log.Error().Err(err).Str("stream", l.name).Msg("the audit log is not complete")
			}
		})
	}
	all.Wait()
}
