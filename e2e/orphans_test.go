package e2e

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/e2e/gateway"
	"github.com/ackproxy/ackproxy/e2e/plugin"
	"github.com/ackproxy/ackproxy/plugins/host"
)

// TestPluginsDieWithAckproxy kills ackproxy with SIGKILL. Its plugin, in Go or in Python, ends with it, and so does all that it started.
func TestPluginsDieWithAckproxy(t *testing.T) {
	if gateway.Direct() {
		t.Skip("there is no ackproxy to kill")
	}
	broker, err := net.Listen("tcp", "127.0.0.1:0") // which need not say anything
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { broker.Close() })
	for name, make := range map[string]func(testing.TB) host.Spec{"go": plugin.Go, "python": plugin.Python} {
		t.Run(name, func(t *testing.T) {
			g, err := gateway.Start(t.Context(), gateway.Options{
				Upstream: broker.Addr().String(), Brokers: 1, Dir: dir(t), Args: policies(t, make(t), "orders"),
			})
			if err != nil {
				t.Fatal(err)
			}
			left := descendants(g.PID())
			if len(left) == 0 {
				t.Fatal("ackproxy has no plugin")
			}
			killed := time.Now()
			if err := syscall.Kill(g.PID(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			until(t, 20*time.Second, "the end of the plugin", func() bool {
				left = slices.DeleteFunc(left, func(pid int) bool { return parent(pid) < 0 })
				return len(left) == 0
			})
			t.Logf("no process is left %v after the kill", time.Since(killed).Round(time.Millisecond))
		})
	}
}

// descendants are the processes that one has started, and those that they have.
func descendants(root int) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*")
	for _, f := range files {
		pid, err := strconv.Atoi(filepath.Base(f))
		if err == nil && parent(pid) == root {
			pids = append(append(pids, pid), descendants(pid)...)
		}
	}
	return pids
}

// parent is who started a process; -1 when it has ended.
func parent(pid int) int {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if err != nil || len(fields) < 2 || fields[0] == "Z" { // who has ended waits for its parent to look
		return -1
	}
	id, err := strconv.Atoi(fields[1])
	if err != nil {
		return -1
	}
	return id
}
