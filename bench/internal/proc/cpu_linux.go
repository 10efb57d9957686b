package proc

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the CPU time of a process so far, of all its threads, those that have ended included. It is the kernel's own clock of the
// process, in nanoseconds, where /proc/PID/stat counts ticks of 10 ms.
func CPU(pid int) (time.Duration, error) {
	clock := int32(^pid<<3 | 2) // clock_getcpuclockid(3): CPUCLOCK_SCHED of a process
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// Self is the name under which CPUOf reports the calling process.
const Self = "generator"

// CPUOf is the CPU time of each process, and of the calling one under Self.
func CPUOf(pids map[string]int) (map[string]time.Duration, error) {
	all := map[string]time.Duration{}
	for name, pid := range pids {
		d, err := CPU(pid)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all[name] = d
	}
	var err error
	all[Self], err = CPU(unix.Getpid())
	return all, err
}

// SelfAndChildren is the CPU time of the calling process and of its children that have ended and were waited for.
func SelfAndChildren() time.Duration {
	var sum time.Duration
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if unix.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}

// Busy is the time that all processors together have not been idle, in ticks of 10 ms; 0 when it cannot be read.
func Busy() time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux
	f := strings.Fields(field("/proc/stat", "cpu", " "))
	var busy time.Duration
	for i, s := range f {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil && i != 3 && i != 4 && i < 8 { // idle, iowait; guests are counted before
			busy += time.Duration(n) * tick
		}
	}
	return busy
}
