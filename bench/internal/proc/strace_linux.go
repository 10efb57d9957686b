package proc

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// Tracer is an strace that counts the calls of a process by name. The process is slowed down several times over, so that it finds more
// work at each turn: the names tell, the sum is better taken from a Counter.
type Tracer struct {
	cmd *exec.Cmd
	out bytes.Buffer
	err io.ReadCloser
}

// Trace attaches strace to all threads of a process, and returns when it is. The caller ends it with Stop.
func Trace(pid int) (*Tracer, error) {
	t := &Tracer{cmd: exec.Command("strace", "-c", "-f", "-U", "calls,name", "-o", "/dev/stdout", "-p", strconv.Itoa(pid))}
	t.cmd.Stdout = &t.out
	var err error
	if t.err, err = t.cmd.StderrPipe(); err != nil {
		return nil, err
	}
	if err := t.cmd.Start(); err != nil {
		return nil, fmt.Errorf("strace: %w", err)
	}
	line, err := bufio.NewReader(t.err).ReadString('\n') // "Process N attached with M threads"
	if err != nil || !strings.Contains(line, "attached") {
		return nil, fmt.Errorf("strace: %s: %w", strings.TrimSpace(line), t.cmd.Wait())
	}
	return t, nil
}

// Stop detaches and returns the number of calls by name.
func (t *Tracer) Stop() (map[string]uint64, error) {
	if err := t.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return nil, fmt.Errorf("strace: %w", err)
	}
	_, _ = io.Copy(io.Discard, t.err)
	_ = t.cmd.Wait() // it ends by the signal
	return parseStrace(t.out.Bytes())
}

// parseStrace reads a table of two columns, calls and name.
func parseStrace(table []byte) (map[string]uint64, error) {
	calls := map[string]uint64{}
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) != 2 || f[1] == "total" {
			continue
		}
		if n, err := strconv.ParseUint(f[0], 10, 64); err == nil {
			calls[f[1]] = n
		}
	}
	if len(calls) == 0 {
		return nil, fmt.Errorf("strace counted nothing: %q", table)
	}
	return calls, nil
}
