package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// keepAlive finds peers that vanished without a word. There is no other limit on a quiet connection: brokers have theirs.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 6}

func setKeepAlive(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetKeepAliveConfig(keepAlive) // without it the connection works, too
	}
}

// targets are the addresses a listener leads to: a broker's, or the bootstrap brokers', each connection starting with the next.
func (s *Server) targets(l *listener) []string {
	if l.node != bootstrapNode {
		if addr, ok := s.nodes.addr(l.node); ok {
			return []string{addr}
		}
		return nil
	}
	return s.cfg.Upstream
}

// dial connects to the broker that l stands for.
func (s *Server) dial(l *listener) (net.Conn, *brokerState, error) {
	targets := s.targets(l)
	if len(targets) == 0 {
		return nil, nil, fmt.Errorf("no address is known for %s", l.name)
	}
	first := int(s.turn.Add(1))
	var failed error
	for i := range targets {
		addr := targets[(first+i)%len(targets)]
		c, err := s.dialAddr(addr)
		if err == nil {
			return c, s.brokerAt(addr), nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, nil, failed
}

func (s *Server) dialAddr(addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: s.cfg.DialTimeout, KeepAliveConfig: keepAlive, Control: s.refuseOwn}
	c, err := d.DialContext(s.ctx, "tcp", addr)
	if err == nil {
		s.reached.Store(new(time.Now()))
	}
	return c, err
}

func (s *Server) brokerAt(addr string) *brokerState {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.brokers[addr]
	if b == nil {
		b = &brokerState{addr: addr}
		b.armed.Store(s.cfg.TxnArm == ArmAlways)
		s.brokers[addr] = b
	}
	return b
}

// fresh is how recently an upstream must have been reached for the proxy to be ready.
const fresh = 30 * time.Second

// Ready is nil when an upstream was reached within the last 30 seconds.
func (s *Server) Ready() error {
	at := s.reached.Load()
	if at == nil {
		return errors.New("no upstream reached yet")
	}
	if ago := time.Since(*at); ago > fresh {
		return fmt.Errorf("no upstream reached for %v", ago.Round(time.Second))
	}
	return nil
}

// reachesNode says whether a broker can be reached that is known and no bootstrap broker. While the one that clients begin with is away the others are
// served all the same; without it nobody would be sent to a proxy that serves them.
func (s *Server) reachesNode() bool {
	for _, id := range s.nodes.ids() {
		addr, known := s.nodes.addr(id)
		if !known || slices.Contains(s.cfg.Upstream, addr) {
			continue
		}
		if c, err := s.dialAddr(addr); err == nil {
			c.Close()
			return true
		}
	}
	return false
}

// probe reaches for an upstream when no client made us do so for a while.
func (s *Server) probe() {
	wait, down := 100*time.Millisecond, false
	for s.ctx.Err() == nil {
		if at := s.reached.Load(); at == nil || time.Since(*at) >= s.calm {
			c, _, err := s.dial(s.node(bootstrapNode))
			switch {
			case err == nil:
				c.Close()
			case errors.Is(err, context.Canceled):
				return
			case s.reachesNode():
				if !s.quiet("bootstrap", "probe") {
					s.log.Warn().Err(err).Msg("no bootstrap broker is reached, but others are: clients that know those are served, new ones are closed")
				}
			default:
				if !down {
					s.log.Warn().Err(err).Msg("upstream not reached, trying again")
				}
				down = true
				s.sleep(wait)
				wait = min(2*wait, 5*time.Second)
				continue
			}
		}
		if down {
			s.log.Info().Msg("upstream reached")
		}
		wait, down = 100*time.Millisecond, false
		s.sleep(s.calm)
	}
}
