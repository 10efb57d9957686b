package proc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Counter counts the system calls of a process, through the kernel's tracepoint at their entry: the process runs on at nearly its speed,
// which a tracer such as strace does not let it.
type Counter struct{ events []int }

var tracepoints = []string{
	"/sys/kernel/tracing/events/raw_syscalls/sys_enter/id",
	"/sys/kernel/debug/tracing/events/raw_syscalls/sys_enter/id",
}

// NewCounter begins to count in all threads of a process, and in those that they start. The caller closes it.
func NewCounter(pid int) (*Counter, error) {
	id, err := tracepointID()
	if err != nil {
		return nil, err
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, fmt.Errorf("threads: %w", err)
	}
	c := &Counter{}
	for _, t := range threads {
		tid, _ := strconv.Atoi(t.Name())
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: id, Bits: unix.PerfBitInherit}
		attr.Size = uint32(binary.Size(attr))
		fd, err := unix.PerfEventOpen(&attr, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.ESRCH) {
			continue // a thread that has ended
		}
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("perf_event_open: %w", err)
		}
		c.events = append(c.events, fd)
	}
	return c, nil
}

func tracepointID() (uint64, error) {
	var errs []error
	for _, path := range tracepoints {
		b, err := os.ReadFile(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		return strconv.ParseUint(string(b[:len(b)-1]), 10, 64)
	}
	return 0, fmt.Errorf("no tracepoint of system calls: %w", errors.Join(errs...))
}

// Count is how many calls began since NewCounter.
func (c *Counter) Count() (uint64, error) {
	var all uint64
	for _, fd := range c.events {
		var b [8]byte
		if _, err := unix.Read(fd, b[:]); err != nil {
			return 0, fmt.Errorf("perf event: %w", err)
		}
		all += binary.NativeEndian.Uint64(b[:])
	}
	return all, nil
}

// Close ends counting.
func (c *Counter) Close() {
	for _, fd := range c.events {
		_ = unix.Close(fd)
	}
}

// Settle waits until the resident memory of a process changes by less than half a per cent within a second, at most for limit, and
// returns it in KiB.
func Settle(pid int, limit time.Duration) (float64, error) {
	end := time.Now().Add(limit)
	last, err := RSS(pid)
	for err == nil && time.Now().Before(end) {
		time.Sleep(time.Second)
		var now float64
		if now, err = RSS(pid); err == nil && max(now-last, last-now) < now/200 {
			return now, nil
		}
		last = now
	}
	return last, err
}
