package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/rs/zerolog"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/proxy/internal/delivered"
)

// Server listens for clients and carries each connection to its broker. It owns its listeners and all connections.
type Server struct {
	cfg       Config
	log       zerolog.Logger
	limits    limits
	metrics   *metrics
	nodes     *nodes
	names     *lru.Cache[codec.UUID, string] // topic names, from Metadata that passed
	delivered *delivered.Store               // nil where no policy looks at deliveries
	watchers  []policy.DeliveryObserver      // told of what delivered is told of
	told      *lru.Cache[string, time.Time]  // when a problem was last logged, by who and what
	ids       atomic.Uint64
	reached   atomic.Pointer[time.Time] // when an upstream last accepted a connection, by the monotonic clock; nil: never
	turn      atomic.Uint64
	wrap      func(net.Conn) net.Conn // tests use it to hide TCP
	calm      time.Duration           // without a connection to an upstream, before we reach for one ourselves
	few       int                     // connections that have goroutines; further ones are on loops
	loops     loops

	endpointsWait bool          // an endpoint policy may block
	askAgain      time.Duration // how long a connection leaves an endpoint policy alone that failed

	mu        sync.Mutex
	listeners map[int32]*listener // by node id; bootstrapNode is the bootstrap listener
	conns     map[*conn]struct{}
	brokers   map[string]*brokerState // by the address that is dialled
	serving   bool
	stopped   bool
	work      sync.WaitGroup // accept loops, connections, the prober
	stop      context.CancelFunc
	ctx       context.Context // ends when the server stops
}

// bootstrapNode stands for "any bootstrap broker" where a node id is expected.
const bootstrapNode int32 = -1

// listener is one port of ours, which leads to exactly one broker, or to any bootstrap broker.
type listener struct {
	name   string
	node   int32
	port   int32
	ln     net.Listener
	counts counts
}

// ListenerInfo says where a listener is and where it leads.
type ListenerInfo struct{ Name, Addr, Upstream string }

// brokerState is what is known of one broker, shared by all connections to it.
type brokerState struct {
	addr  string
	armed atomic.Bool // its latest ApiVersions answer offers TxnShareAcknowledge
}

// New binds the bootstrap listener and one for every node that is known, and makes sure that the state directory can be written. It
// serves nothing yet. After an error nothing is left behind.
func New(cfg Config) (*Server, error) {
	fillDefaults(&cfg)
	s := &Server{cfg: cfg, log: cfg.Log, wrap: func(c net.Conn) net.Conn { return c }, calm: 10 * time.Second, askAgain: time.Second, few: fewConns,
		listeners: map[int32]*listener{}, conns: map[*conn]struct{}{}, brokers: map[string]*brokerState{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.limits = limits{maxFrame: cfg.MaxFrame, headerTimeout: cfg.HeaderTimeout, maxBuffered: cfg.MaxBuffered}
	s.names, _ = lru.New[codec.UUID, string](16384)
	s.told, _ = lru.New[string, time.Time](1024)
	s.delivered = newDeliveries(&s.cfg)
	for _, o := range cfg.Observers {
		if w, ok := o.(policy.DeliveryObserver); ok {
			s.watchers = append(s.watchers, w)
		}
	}
	s.endpointsWait = slices.ContainsFunc(cfg.Endpoints, func(m policy.EndpointMember) bool { return m.Policy.Traits().Waits })
	s.metrics = newMetrics(s)
	var err error
	if s.nodes, err = loadNodes(&cfg); err != nil {
		return nil, err
	}
	if _, err = s.listen(bootstrapNode, "bootstrap", cfg.Bootstrap); err == nil {
		for _, id := range s.nodes.ids() {
			if _, ok := s.portOf(id); !ok { // as when an answer names it: it is left out of answers
				s.log.Warn().Int32("node", id).Msg("no port for this broker (lower listen.broker_ports.base)")
				continue
			}
			if _, err = s.listenNode(id); err != nil {
				break
			}
		}
	}
	if err == nil && cfg.Registerer != nil {
		err = s.metrics.register(cfg.Registerer)
	}
	if err != nil {
		s.stop()
		s.closeListeners()
		return nil, err
	}
	return s, nil
}

func fillDefaults(c *Config) {
	d := Defaults()
	c.DialTimeout = cmp.Or(c.DialTimeout, d.DialTimeout)
	c.MaxFrame = cmp.Or(c.MaxFrame, d.MaxFrame)
	c.MaxInFlight = cmp.Or(c.MaxInFlight, d.MaxInFlight)
	c.MaxBuffered = cmp.Or(c.MaxBuffered, d.MaxBuffered)
	c.HeaderTimeout = cmp.Or(c.HeaderTimeout, d.HeaderTimeout)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, d.DrainTimeout)
	c.KeepRecords = cmp.Or(c.KeepRecords, d.KeepRecords)
	c.TxnArm = cmp.Or(c.TxnArm, d.TxnArm)
	c.TxnKey = cmp.Or(c.TxnKey, d.TxnKey)
}

// Serve accepts connections until ctx ends or Shutdown is called, which may have been before: then it returns at once.
// It waits for nothing but the accept loops' end.
func (s *Server) Serve(ctx context.Context) error {
	s.mu.Lock()
	if s.serving {
		s.mu.Unlock()
		return errors.New("server serves already")
	}
	if s.stopped {
		s.mu.Unlock()
		return nil
	}
	s.serving = true
	for _, l := range s.listeners {
		s.accept(l)
	}
	s.work.Go(s.probe)
	s.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	s.closeListeners()
	return nil
}

// accept starts l's accept loop. The caller holds s.mu.
func (s *Server) accept(l *listener) {
	s.work.Go(func() {
		wait := 5 * time.Millisecond
		for {
			c, err := l.ln.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // out of descriptors is not the end: others may be given back
				if !s.quiet(l.name, "accept") {
					s.log.Error().Err(err).Str("listener", l.name).Msg("accept failed, trying again")
				}
				s.metrics.total.WithLabelValues("client", "accept_error").Inc()
				s.sleep(wait)
				wait = min(2*wait, time.Second)
				continue
			}
			wait = 5 * time.Millisecond
			s.work.Go(func() { s.handle(l, c) })
		}
	})
}

// handle dials the broker for a client, and starts the connection. It owns client. The connection gets goroutines of its own or a place on
// a loop, since this goroutine's stack has grown by dialling.
func (s *Server) handle(l *listener, client net.Conn) {
	broker, state, err := s.dial(l)
	if err != nil {
		s.metrics.total.WithLabelValues("broker", "dial_error").Inc()
		if !s.quiet(l.name, "dial") {
			s.log.Warn().Err(err).Str("listener", l.name).Msg("upstream not reached: clients are closed until it is")
		}
		resetOnClose(client)
		client.Close()
		return
	}
	s.metrics.total.WithLabelValues("client", "ok").Inc()
	s.metrics.total.WithLabelValues("broker", "ok").Inc()
	setKeepAlive(client)
	c := newConn(s, l, s.wrap(client), s.wrap(broker), state)
	open, many := s.enter(c)
	if !open {
		resetOnClose(client)
		client.Close()
		broker.Close()
		return
	}
	s.work.Add(1) // until finish
	if !many || !s.loops.adopt(c) {
		c.start()
	}
}

// enter takes c in, unless the server stops, and says whether there are so many connections that loops serve them better.
func (s *Server) enter(c *conn) (open, many bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false, false
	}
	s.conns[c] = struct{}{}
	s.metrics.connections.WithLabelValues("client").Inc()
	s.metrics.connections.WithLabelValues("broker").Inc()
	return true, len(s.conns) > s.few
}

func (s *Server) leave(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.metrics.connections.WithLabelValues("client").Dec()
	s.metrics.connections.WithLabelValues("broker").Dec()
}

func (s *Server) closeListeners() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving = false
	for _, l := range s.listeners {
		l.ln.Close()
	}
}

// Shutdown stops accepting and waits until all connections are closed, at most for the drain time-out or until ctx ends; then it closes
// what is left. It returns an error when something was.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.closeListeners()
	s.stop()
	idle := make(chan struct{})
	go func() {
		s.work.Wait()
		s.loops.close()
		close(idle)
	}()
	late := time.NewTimer(s.cfg.DrainTimeout)
	defer late.Stop()
	select {
	case <-idle:
		return nil
	case <-late.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	left := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range left {
		c.fail(errDrained)
	}
	<-idle
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d connections", errDrained, len(left))
}

// TopicName is the name of a topic whose id was seen in a Metadata answer.
func (s *Server) TopicName(id codec.UUID) (string, bool) { return s.names.Get(id) }

// observe hands an outcome to every observer, and lets go of it.
func (s *Server) observe(o *policy.Outcome) {
	if o.Kind == policy.Acknowledgement && o.Reply.State == policy.Answered {
		s.metrics.took[o.Request.Carrier].Observe(o.Reply.Received.Sub(o.Request.Received).Seconds())
	}
	for _, each := range s.cfg.Observers {
		each.Observe(o)
	}
	o.Release()
}

// quiet says whether the same problem of the same peer was logged within the last minute; if not, it notes it.
func (s *Server) quiet(who, what string) bool {
	if host, _, err := net.SplitHostPort(who); err == nil {
		who = host
	}
	key, now := who+" "+what, time.Now()
	if last, ok := s.told.Get(key); ok && now.Sub(last) < time.Minute {
		return true
	}
	s.told.Add(key, now)
	return false
}

// sleep waits for d, or until the server stops.
func (s *Server) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.ctx.Done():
	}
}
