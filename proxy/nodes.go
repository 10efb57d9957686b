package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// nodes knows where each broker is. Static configuration wins over the host pattern, which wins over what answers taught; what they
// taught is kept in the state file, so that a restarted proxy serves the brokers' ports before anyone asks for metadata.
type nodes struct {
	bootstrap  []string
	mu         sync.RWMutex
	static     map[int32]string
	pattern    string
	learnt     map[int32]string
	file       string        // empty: kept in memory only
	saving     sync.Mutex    // over file; apart from mu, since a disk may take its time
	generation atomic.Uint64 // grows when a node is learnt
}

// createTemp is os.CreateTemp, which a test replaces with a full disk.
var createTemp = os.CreateTemp

type stateFile struct {
	Version int              `json:"version"`
	Nodes   map[int32]string `json:"nodes"`
}

// loadNodes reads the state file and makes sure that it can be written.
func loadNodes(cfg *Config) (*nodes, error) {
	n := &nodes{bootstrap: cfg.Upstream, static: cfg.Nodes, pattern: cfg.HostPattern, learnt: map[int32]string{}}
	if cfg.StateDir == "" {
		return n, nil
	}
	n.file = filepath.Join(cfg.StateDir, "nodes.json")
	if err := os.MkdirAll(cfg.StateDir, 0o750); err != nil {
		return nil, fmt.Errorf("state.dir: %w", err)
	}
	text, err := os.ReadFile(n.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("state.dir: %w", err)
	default:
		if n.learnt, err = readState(text); err != nil {
			return nil, fmt.Errorf("state.dir: %s is not a state file of ours (remove it to learn the nodes anew): %w", n.file, err)
		}
	}
	switch err := n.save(); {
	case errors.Is(err, syscall.ENOSPC): // who cannot start would not drain a spool that fills the disk
		cfg.Log.Error().Err(err).Msg("state file not written: the disk of state.dir is full; after a restart nodes that were learnt since are unknown until an answer names them")
	case err != nil:
		return nil, fmt.Errorf("state.dir: %w", err)
	}
	return n, nil
}

func readState(text []byte) (map[int32]string, error) {
	var s stateFile
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	if s.Version != 1 {
		return nil, fmt.Errorf("version %d, want 1", s.Version)
	}
	for id, addr := range s.Nodes {
		if _, _, err := net.SplitHostPort(addr); err != nil || id < 0 {
			return nil, fmt.Errorf("node %d at %q", id, addr)
		}
	}
	if s.Nodes == nil {
		s.Nodes = map[int32]string{}
	}
	return s.Nodes, nil
}

// save replaces the state file in one step. Who asks where a node is does not wait for it.
func (n *nodes) save() error {
	if n.file == "" {
		return nil
	}
	n.saving.Lock()
	defer n.saving.Unlock()
	n.mu.RLock()
	text, err := json.Marshal(stateFile{Version: 1, Nodes: n.learnt})
	n.mu.RUnlock()
	if err != nil {
		return err
	}
	tmp, err := createTemp(filepath.Dir(n.file), "nodes-*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // does nothing after the rename
	_, err = tmp.Write(append(text, '\n'))
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil { // an empty file after a power cut would be no state file
		return err
	}
	return os.Rename(tmp.Name(), n.file)
}

// addr is where node id is dialled; false when nothing says.
func (n *nodes) addr(id int32) (string, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if a, ok := n.static[id]; ok {
		return a, true
	}
	if n.pattern != "" {
		return strings.ReplaceAll(n.pattern, "{id}", strconv.Itoa(int(id))), true
	}
	a, ok := n.learnt[id]
	return a, ok
}

// knows says whether learning addr for id would change nothing.
func (n *nodes) knows(id int32, addr string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.learnt[id] == addr
}

// learn notes that an answer named addr for node id.
func (n *nodes) learn(id int32, addr string) error {
	n.mu.Lock()
	n.learnt[id] = addr
	n.generation.Add(1)
	n.mu.Unlock()
	return n.save()
}

// ids are the nodes that can be served without having seen an answer.
func (n *nodes) ids() []int32 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	all := map[int32]bool{}
	for id := range n.static {
		all[id] = true
	}
	for id := range n.learnt {
		all[id] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// advertise learns where a broker is from an answer, and returns the address that clients are told instead. False means that no
// listener of ours stands for the node: its address must not be passed on.
func (s *Server) advertise(id int32, host string, port int32) (string, int32, bool) {
	if id < 0 {
		return "", -1, false
	}
	addr := net.JoinHostPort(host, strconv.Itoa(int(port)))
	known := s.nodes.knows(id, addr)
	if known {
		if l := s.node(id); l != nil {
			return s.cfg.Advertise, l.port, true
		}
	}
	if _, _, err := net.SplitHostPort(addr); !known && host != "" && err == nil && !s.own(id, host, port) {
		s.learn(id, addr)
	}
	if _, known := s.nodes.addr(id); !known {
		if !s.quiet("node "+strconv.Itoa(int(id)), "loop") {
			s.log.Error().Int32("node", id).Str("address", addr).
				Msg("this broker advertises an address of ours: clients can't be led to it (let it advertise its own, or set upstream.nodes)")
		}
		return "", -1, false
	}
	l, err := s.listenNode(id)
	if err != nil {
		if !s.quiet("node "+strconv.Itoa(int(id)), "listen") {
			s.log.Error().Err(err).Int32("node", id).Msg("no listener for this broker: it is left out of answers")
		}
		return "", -1, false
	}
	return s.cfg.Advertise, l.port, true
}

func (s *Server) learn(id int32, addr string) {
	if err := s.nodes.learn(id, addr); err != nil {
		s.log.Error().Err(err).Int32("node", id).Msg("state file not written: after a restart this node is unknown until an answer names it")
	}
	s.log.Info().Int32("node", id).Str("upstream", addr).Msg("learnt a broker's address")
}

// portOf is the port that stands for a broker, 0 for any free one; false where it would be beyond the last.
func (s *Server) portOf(id int32) (int, bool) {
	if s.cfg.BrokerPortsBase == 0 {
		return 0, true
	}
	port := s.cfg.BrokerPortsBase + int(id)
	return port, port <= 65535
}

// own says whether the address of a node is one of our listeners', or the one that its own listener is going to have: learning it would
// make us dial ourselves.
func (s *Server) own(id int32, host string, port int32) bool {
	ip := net.ParseIP(host)
	bind, _, _ := net.SplitHostPort(s.cfg.Bootstrap)
	named := host == s.cfg.Advertise || host == bind || host == "localhost"
	if will, ok := s.portOf(id); ok && will == int(port) && (named || isLocal(ip)) {
		return true
	}
	for _, l := range s.snapshot() {
		if l.port == port && (named || l.at(ip)) {
			return true
		}
	}
	return false
}

// at says whether a connection to an address of this machine would reach l.
func (l *listener) at(ip net.IP) bool {
	bound := l.ln.Addr().(*net.TCPAddr).IP
	return bound.Equal(ip) || bound.IsUnspecified() && isLocal(ip)
}

// isLocal says whether an address is one of this machine's.
func isLocal(ip net.IP) bool {
	if ip == nil || ip.IsLoopback() {
		return ip != nil
	}
	addrs, _ := net.InterfaceAddrs() // without them only loopback is known to be ours
	return slices.ContainsFunc(addrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	})
}

// refuseOwn keeps a dialler from our own listeners, whatever the name that led to them: we would accept, dial again, and so on.
func (s *Server) refuseOwn(_, addr string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return err
	}
	for _, l := range s.snapshot() {
		if l.port == int32(to.Port()) && l.at(net.IP(to.Addr().WithZone("").AsSlice())) {
			return fmt.Errorf("%s is the proxy's own listener %s", addr, l.name)
		}
	}
	return nil
}
