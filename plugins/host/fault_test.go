//go:build unix

package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func (p *Plugin) pid(t testing.TB) int {
	t.Helper()
	s := p.session.Load()
	if s == nil {
		t.Fatal(p.Ready())
	}
	pid, err := strconv.Atoi(s.process.ID())
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// gone says whether a process has ended; one that nobody has waited for yet has.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

func descriptors(t testing.TB) int {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// kills makes n kills under the load of several connections, and returns how often a call failed.
func kills(t *testing.T, p *Plugin, n int) (failed int64) {
	var failures, calls atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				if _, err := decide(p, "g", time.Second); err != nil {
					failures.Add(1)
					if !errors.Is(err, ErrDown) && !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
				}
				if took := time.Since(began); took > 20*time.Second {
					t.Errorf("a call took %v, its deadline was 1 s", took)
				}
				calls.Add(1)
				time.Sleep(500 * time.Microsecond)
			}
		})
	}
	for i := range n {
		eventually(t, "healthy", func() bool { return p.session.Load() != nil })
		seen := calls.Load()
		eventually(t, "calls", func() bool { return calls.Load() > seen+8 })
		starts := p.Stats().Starts
		syscall.Kill(p.pid(t), syscall.SIGKILL)
		eventually(t, fmt.Sprintf("start after kill %d", i+1), func() bool { return p.Stats().Starts > starts })
	}
	cancel()
	load.Wait()
	eventually(t, "healthy at last", func() bool { return p.session.Load() != nil })
	return failures.Load()
}

func TestHundredKills(t *testing.T) {
	p := start(t, spec(t, "sdk", nil))
	kills(t, p, 3)
	goroutines, fds := runtime.NumGoroutine(), descriptors(t)
	failed := kills(t, p, 97)
	if failed == 0 {
		t.Error("no call was hit")
	}
	eventually(t, "goroutines as before", func() bool { return runtime.NumGoroutine() <= goroutines })
	eventually(t, "descriptors as before", func() bool { return descriptors(t) <= fds })
	if s := p.Stats(); s.FailedStarts != 0 || s.Starts != 101 {
		t.Errorf("%+v", s)
	}
	if v, err := decide(p, "g", 10*time.Second); err != nil || len(v.Edits) != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	if left, err := os.ReadDir(p.sockets.dir); err != nil || len(left) != 1 {
		t.Errorf("sockets: %v, %v", left, err)
	}
}

func TestBreaker(t *testing.T) {
	exists := filepath.Join(t.TempDir(), "go")
	s := spec(t, "sdk", &tried{Exists: exists})
	p := start(t, s)
	if err := os.WriteFile(exists, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(p.pid(t), syscall.SIGKILL)
	eventually(t, "the breaker opens", func() bool {
		err := p.Ready()
		return err != nil && strings.Contains(err.Error(), "failed to start 5 times")
	})
	_, err := decide(p, "g", time.Second)
	if !errors.Is(err, ErrDown) || !strings.Contains(err.Error(), `told to go`) {
		t.Error(err)
	}
	if s := p.Stats(); s.Starts != 6 || s.FailedStarts != 5 {
		t.Errorf("%+v", s)
	}
}

func TestTwentyFailedStartsAndBack(t *testing.T) {
	exists := filepath.Join(t.TempDir(), "go")
	s := spec(t, "sdk", &tried{Exists: exists})
	s.Backoff.Break = time.Millisecond
	p := start(t, s)
	if err := os.WriteFile(exists, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(p.pid(t), syscall.SIGKILL)
	eventually(t, "20 failed starts", func() bool { return p.Stats().FailedStarts >= 20 })
	if err := os.Remove(exists); err != nil {
		t.Fatal(err)
	}
	eventually(t, "healthy again", func() bool { return p.Ready() == nil })
}

func TestRhythm(t *testing.T) {
	r := rhythm{Backoff: Backoff{Min: 1, Max: 6, Break: 100}}
	var got []time.Duration
	for _, c := range []struct {
		healthy bool
		lived   time.Duration
	}{
		{true, 0}, {true, 0}, {true, 0}, {true, 0}, {true, time.Hour}, {false, 0}, {false, 0}, {false, 0}, {false, 0}, {false, 0}, {false, 0}, {true, 0},
	} {
		got = append(got, r.next(c.healthy, c.lived))
	}
	if want := "[1ns 2ns 4ns 6ns 1ns 2ns 4ns 6ns 6ns 100ns 100ns 6ns]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestStoppedProcessIsReplaced(t *testing.T) {
	s := spec(t, "sdk", nil)
	s.healthEvery = 100 * time.Millisecond
	p := start(t, s)
	stopped := p.pid(t)
	syscall.Kill(stopped, syscall.SIGSTOP)
	eventually(t, "no answer", func() bool { // a signal takes a moment
		_, err := decide(p, "g", 50*time.Millisecond)
		return err != nil
	})
	eventually(t, "another process", func() bool {
		_, err := decide(p, "g", time.Second)
		return err == nil && gone(stopped)
	})
}

func TestChangedFileIsNotStarted(t *testing.T) {
	own, err := copySelf(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	os.Chmod(filepath.Dir(own.Path), 0o700)
	s := spec(t, "sdk", nil)
	s.Path = own.Path
	p := start(t, s)
	if err := errors.Join(os.Remove(own.Path), os.WriteFile(own.Path, []byte("#!/bin/sh\n"), 0o700)); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(p.pid(t), syscall.SIGKILL)
	eventually(t, "the checksum stops it", func() bool {
		err := p.Ready()
		return err != nil && strings.Contains(err.Error(), "sha256: "+own.Path+" has ")
	})
}

// lines collects what is logged.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, string(b))
	return len(b), nil
}

func (l *lines) has(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(strings.Join(l.text, ""), s)
}

func TestFlood(t *testing.T) {
	var log lines
	p, err := Start(t.Context(), spec(t, "sdk", &tried{Floods: true}), zerolog.New(&log))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := decide(p, "g", 10*time.Second); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "it is said", func() bool { return log.has("printed more than is logged") })
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestLinesThatHurtOthers(t *testing.T) {
	for _, line := range []string{`{"@message":1}`, `{"@message":"m","@level":{}}`, `{"@timestamp":7}`, "\x1b[2J", strings.Repeat("x", 1<<17)} {
		var log lines
		p, err := Start(t.Context(), spec(t, "sdk", &tried{Says: line}), zerolog.New(&log))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decide(p, "g", 10*time.Second); err != nil {
			t.Error(err)
		}
		eventually(t, "logged", func() bool { log.mu.Lock(); defer log.mu.Unlock(); return len(log.text) >= 2 })
		if err := p.Close(); err != nil || log.has("\x1b") {
			t.Errorf("%v %q", err, log.text)
		}
	}
}

func init() { plugins["host"] = serveAsHost }

// serveAsHost runs a plugin and is killed.
func serveAsHost() {
	s := Spec{Name: "child", Path: os.Args[2], SHA256: os.Args[3], Args: []string{"plugin=sdk"}, SocketDir: os.Args[4]}
	p, err := Start(context.Background(), s, zerolog.Nop())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.session.Load().process.ID())
	time.Sleep(time.Minute)
}

func TestPluginDiesWithTheHost(t *testing.T) {
	cmd := exec.Command(self.Path, "plugin=host", self.Path, self.SHA256, filepath.Dir(self.Path))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || gone(pid) {
		t.Fatalf("%q: %v", line, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	eventually(t, "the plugin is gone", func() bool { return gone(pid) })
}
