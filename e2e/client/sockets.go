package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// sample is how often the kernel's table of sockets is read.
const sample = 10 * time.Millisecond

// Watch collects the peers of some processes' TCP sockets, as the kernel shows them.
type Watch struct {
	peers   map[int]map[netip.AddrPort]bool // by process
	samples int
	err     error
	stop    context.CancelFunc
	done    chan struct{}
}

// WatchSockets samples until Stop. A process that has ended has no sockets.
func WatchSockets(pids ...int) *Watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Watch{peers: map[int]map[netip.AddrPort]bool{}, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		tick := time.NewTicker(sample)
		defer tick.Stop()
		for {
			w.sample(pids)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return w
}

// Stop ends the sampling and returns every peer that each process had, and how many samples were taken.
func (w *Watch) Stop() (peers map[int]map[netip.AddrPort]bool, samples int, err error) {
	w.stop()
	<-w.done
	return w.peers, w.samples, w.err
}

func (w *Watch) sample(pids []int) {
	table, err := sockets()
	if err != nil {
		w.err = err
		return
	}
	w.samples++
	for _, pid := range pids {
		for _, inode := range inodes(pid) {
			if peer, ok := table[inode]; ok {
				if w.peers[pid] == nil {
					w.peers[pid] = map[netip.AddrPort]bool{}
				}
				w.peers[pid][peer] = true
			}
		}
	}
}

// sockets maps the inode of each TCP socket that has a peer, in whatever state, to that peer.
func sockets() (map[string]netip.AddrPort, error) {
	all := map[string]netip.AddrPort{}
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		scan := bufio.NewScanner(bytes.NewReader(text))
		scan.Scan() // the heading
		for scan.Scan() {
			f := strings.Fields(scan.Text())
			peer, err := parseAddr(f[2])
			if err != nil {
				return nil, err
			}
			if peer.Port() != 0 { // a listener has none
				all[f[9]] = peer
			}
		}
	}
	return all, nil
}

// parseAddr reads "0100007F:1F90": 32-bit words in the machine's byte order, and the port.
func parseAddr(s string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	for i := 0; i+4 <= len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	addr, ok := netip.AddrFromSlice(b)
	p, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil {
		return netip.AddrPort{}, fmt.Errorf("socket address %q", s)
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(p)), nil
}

// inodes are the sockets that a process holds.
func inodes(pid int) []string {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(dir) // gone with the process
	var all []string
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasPrefix(to, "socket:[") {
			all = append(all, strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]"))
		}
	}
	return all
}
