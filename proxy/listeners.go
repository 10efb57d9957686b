package proxy

import (
	"fmt"
	"net"
	"slices"
	"strconv"
)

// listen binds addr for node, unless it is bound already, and starts accepting if the server does.
func (s *Server) listen(node int32, name, addr string) (*listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.listeners[node]; l != nil {
		return l, nil
	}
	if s.stopped {
		return nil, net.ErrClosed
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		key := "listen.bootstrap"
		if node != bootstrapNode {
			key = "listen.broker_ports.base"
		}
		return nil, fmt.Errorf("%s: listener %s: %w", key, name, err)
	}
	l := &listener{name: name, node: node, ln: ln, port: int32(ln.Addr().(*net.TCPAddr).Port)}
	s.listeners[node] = l
	if s.serving { // what is bound before is told of when serving begins
		s.log.Info().Str("listener", name).Str("address", ln.Addr().String()).Int32("node", node).Msg("listening for a broker that was learnt")
		s.accept(l)
	}
	return l, nil
}

// listenNode binds the port that stands for a broker: a function of its id, so that it is the same on every replica and after every
// restart. With a base of 0 any free port is taken.
func (s *Server) listenNode(id int32) (*listener, error) {
	port, ok := s.portOf(id)
	if !ok {
		return nil, fmt.Errorf("node %d: port %d is above 65535 (lower listen.broker_ports.base)", id, port)
	}
	host, _, err := net.SplitHostPort(s.cfg.Bootstrap)
	if err != nil {
		return nil, fmt.Errorf("listen.bootstrap: %w", err)
	}
	return s.listen(id, "broker-"+strconv.Itoa(int(id)), net.JoinHostPort(host, strconv.Itoa(port)))
}

// node is the listener that stands for a broker, or nil.
func (s *Server) node(id int32) *listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listeners[id]
}

func (s *Server) snapshot() []*listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*listener
	for _, l := range s.listeners {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *listener) int { return int(a.node - b.node) })
	return all
}

// Addr is the address of the bootstrap listener.
func (s *Server) Addr() string { return s.node(bootstrapNode).ln.Addr().String() }

// Listeners says where every listener is and where it leads, the bootstrap listener first.
func (s *Server) Listeners() []ListenerInfo {
	var infos []ListenerInfo
	for _, l := range s.snapshot() {
		infos = append(infos, ListenerInfo{Name: l.name, Addr: l.ln.Addr().String(), Upstream: fmt.Sprint(s.targets(l))})
	}
	return infos
}
