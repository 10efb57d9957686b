package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ackproxy/ackproxy/plugins/internal/wire"
)

const (
	maxHandshake = 16 << 10               // bytes of the first line
	pipesAfter   = 200 * time.Millisecond // for output that is still in the pipes of a process that ended
)

// process is a plugin's process. It is go-plugin's runner, and shows it the first line of the output and nothing else of it. Once it is
// started, done is closed when it has ended and its output was read.
type process struct {
	cmd    *exec.Cmd
	host   string // version, for messages
	output *output
	first  *io.PipeReader // the handshake, for go-plugin
	line   *io.PipeWriter
	done   chan struct{}

	mu      sync.Mutex
	stdin   *os.File // nil: not started, or hung up
	started bool
	killed  bool  // by us
	ended   error // how the process ended, once done is closed: never nil
	broken  error // what is wrong with the handshake
}

func newProcess(s *Spec, env []string, out *output) *process {
	p := &process{cmd: exec.Command(s.Path, s.Args...), host: s.HostVersion, output: out, done: make(chan struct{})}
	p.cmd.Env, p.cmd.Dir = env, "/"
	p.first, p.line = io.Pipe()
	isolate(p.cmd)
	return p
}

// Start starts the process. Call it on a thread that lives as long as the process may.
func (p *process) Start(context.Context) error {
	stdin, hold, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdin.Close()
	stdout, out, err := os.Pipe()
	if err != nil {
		return errors.Join(err, hold.Close())
	}
	defer out.Close()
	stderr, complain, err := os.Pipe()
	if err != nil {
		return errors.Join(err, hold.Close(), stdout.Close())
	}
	defer complain.Close()
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdin, out, complain
	if err := p.cmd.Start(); err != nil {
		return errors.Join(err, hold.Close(), stdout.Close(), stderr.Close())
	}
	p.mu.Lock()
	p.started, p.stdin = true, hold
	p.mu.Unlock()
	go p.watch(stdout, stderr)
	return nil
}

// watch reads the output to its end, and waits for the process.
func (p *process) watch(stdout, stderr *os.File) {
	var readers sync.WaitGroup
	readers.Go(func() { p.readStdout(stdout) })
	readers.Go(func() { io.Copy(p.output, stderr) })
	err := p.cmd.Wait()
	if err == nil {
		err = errors.New("exit status 0")
	}
	p.mu.Lock()
	killGroup(p.cmd.Process.Pid) // what it leaves behind has the id of its group, which is not given again before it is gone
	p.ended = err
	p.mu.Unlock()
	for _, f := range []*os.File{stdout, stderr} { // which one who left the group may still hold open
		f.SetReadDeadline(time.Now().Add(pipesAfter))
	}
	readers.Wait()
	stdout.Close()
	stderr.Close()
	p.hangUp()
	p.output.flush()
	close(p.done)
}

// readStdout passes the handshake on once it is checked. What follows is output like that on standard error.
func (p *process) readStdout(stdout io.Reader) {
	r := bufio.NewReaderSize(stdout, maxHandshake)
	line, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		err = fmt.Errorf("no handshake: the first line it printed is longer than %d bytes", maxHandshake)
	case err == nil:
		err = checkHandshake(string(line), p.host)
	}
	if err == nil {
		p.line.Write(line)
	} else {
		p.output.Write(line)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		p.mu.Lock()
		p.broken = err
		p.mu.Unlock()
	}
	p.line.Close()
	io.Copy(p.output, r)
}

// checkHandshake says what is wrong with go-plugin's handshake, "1|1|unix|/path|grpc|certificate".
func checkHandshake(line, host string) error {
	parts := strings.Split(strings.TrimSpace(line), "|")
	if len(parts) < 5 || parts[0] != "1" {
		return fmt.Errorf("no handshake: the first line it printed is %.100q", line)
	}
	version, err := strconv.Atoi(parts[1])
	switch {
	case err != nil:
		return fmt.Errorf("no handshake: the first line it printed is %.100q", line)
	case version < wire.ProtocolVersion:
		return fmt.Errorf("the plugin is older: it speaks protocol %d, and this ackproxy (%s) only %d; build it anew with a current SDK",
			version, host, wire.ProtocolVersion)
	case version > wire.ProtocolVersion:
		return fmt.Errorf("this ackproxy (%s) is older: it speaks protocol %d, and the plugin only %d; upgrade ackproxy, or take an older plugin",
			host, wire.ProtocolVersion, version)
	case parts[4] != "grpc":
		return fmt.Errorf("it speaks %.20q, and only grpc is spoken here", parts[4])
	case len(parts) < 6 || len(parts[5]) <= minCertificate:
		return errors.New("its handshake has no certificate: what it serves would not be encrypted")
	}
	return nil
}

// minCertificate is how much go-plugin takes for one.
const minCertificate = 50

// hangUp ends the process's standard input, which asks it to end.
func (p *process) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stdin != nil {
		p.stdin.Close()
		p.stdin = nil
	}
}

// Kill kills the process and all of its group.
func (p *process) Kill(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started && p.ended == nil {
		p.killed = true
		killGroup(p.cmd.Process.Pid)
	}
	return nil
}

// Wait returns when the process has ended, and why.
func (p *process) Wait(context.Context) error {
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// running says whether there is anything to wait for.
func (p *process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.started {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// complaint is what is wrong with the handshake, or else how the process ended with its last words; nil while it runs,
// and where it was us who killed it.
func (p *process) complaint() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var exit *exec.ExitError
	switch {
	case p.broken != nil:
		return p.broken
	case p.ended == nil, p.killed && errors.As(p.ended, &exit) && !exit.Exited():
		return nil
	}
	if last := p.output.lastLine(); last != "" {
		return fmt.Errorf("the process ended (%w); it last printed %.200q", p.ended, last)
	}
	return fmt.Errorf("the process ended (%w)", p.ended)
}

// The rest is what go-plugin wants of a runner.

// Stdout is the first line that the process printed, which is its handshake.
func (p *process) Stdout() io.ReadCloser { return p.first }

// Stderr is empty: what the process prints there does not go through go-plugin, whose parser some of it would bring down.
func (p *process) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name is the path of the program.
func (p *process) Name() string { return p.cmd.Path }

// Diagnose has nothing to add to what complaint says.
func (p *process) Diagnose(context.Context) string { return "" }

// ID is the process id, "none" before there is one.
func (p *process) ID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.started {
		return "none"
	}
	return strconv.Itoa(p.cmd.Process.Pid)
}

// PluginToHost changes nothing: both see the same sockets.
func (p *process) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

// HostToPlugin is PluginToHost the other way.
func (p *process) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}
