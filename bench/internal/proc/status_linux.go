package proc

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// RSS is the resident memory of a process in KiB, summed over its mappings: the figure in /proc/PID/status is only near it.
func RSS(pid int) (float64, error) { return rollup(pid, "Rss:") }

// Anonymous is what of it, in KiB, is not a file's: the program's own pages stay in the page cache, and the kernel takes them back when it wants to.
func Anonymous(pid int) (float64, error) { return rollup(pid, "Anonymous:") }

// rollup is a sum over all mappings of a process.
func rollup(pid int, field string) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, fmt.Errorf("resident memory: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) == 3 && f[0] == field {
			return strconv.ParseFloat(f[1], 64)
		}
	}
	return 0, fmt.Errorf("resident memory: no %s of process %d", field, pid)
}

// Descriptors is how many descriptors a process has open.
func Descriptors(pid int) (int, error) {
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0, fmt.Errorf("descriptors: %w", err)
	}
	return len(all), nil
}

// ReadMachine looks at the machine. What it cannot find stays empty.
func ReadMachine(processors int) Machine {
	m := Machine{Processors: processors, Kernel: word("/proc/sys/kernel/osrelease"),
		ClockSource: word("/sys/devices/system/clocksource/clocksource0/current_clocksource")}
	m.Processor = field("/proc/cpuinfo", "model name", ":")
	m.System = strings.Trim(field("/etc/os-release", "PRETTY_NAME", "="), `"`)
	kib, _ := strconv.Atoi(strings.TrimSuffix(field("/proc/meminfo", "MemTotal", ":"), " kB"))
	m.MemoryMiB = kib >> 10
	m.LoadBefore = strings.Join(strings.Fields(word("/proc/loadavg"))[:3], " ")
	return m
}

func word(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}

// field is the value of the first line that begins with name.
func field(path, name, separator string) string {
	b, _ := os.ReadFile(path)
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, separator); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
