package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Process is a child in a process group of its own, which the kernel kills when the test binary dies, however that comes.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of the wait; read after done is closed
}

// ProcessOptions say how a child is started.
type ProcessOptions struct {
	Output io.Writer // both streams, unless Stdout is set
	Stdout io.Writer
	Env    []string // added to the test's own
	Dir    string
}

// spawner starts every child on one thread that never ends: the kernel sends the parent-death signal when the thread that made the
// child ends, not the process.
var spawner = sync.OnceValue(func() chan func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// Start starts a program. The caller owns the process and ends it with Kill or Stop.
func Start(name string, args []string, o ProcessOptions) (*Process, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = o.Dir, append(os.Environ(), o.Env...)
	cmd.Stdout, cmd.Stderr = o.Output, o.Output
	if o.Stdout != nil {
		cmd.Stdout = o.Stdout
	}
	cmd.SysProcAttr = attributes()
	cmd.WaitDelay = 5 * time.Second // a grandchild may keep the pipes open
	started := make(chan error)
	spawner() <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID is the child's process id, and that of its group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the child has ended and its output is read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends a signal to the child's group; a child that has ended is no error.
func (p *Process) Signal(s syscall.Signal) error {
	select {
	case <-p.done:
		return nil // its id may be another's by now
	default:
	}
	if err := syscall.Kill(-p.PID(), s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %d: %w", p.PID(), err)
	}
	return nil
}

// Kill sends SIGKILL to the group and waits for the child's end.
func (p *Process) Kill() error {
	err := p.Signal(syscall.SIGKILL)
	<-p.done
	return err
}

// Wait waits for the child's end and returns its error, the exit status included. When ctx ends first the child is killed.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), p.Kill())
	}
}

// Stop sends SIGTERM and waits for the end as Wait does, at most for grace.
func (p *Process) Stop(grace time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	return p.Wait(ctx)
}
