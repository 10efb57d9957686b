package crash

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ackproxy/ackproxy/e2e/kafka"
)

// host is where the proxy listens, an address that no broker has.
const host = "127.0.0.2"

// spoolSuffix ends the names of files with letters that wait, and spoolEmpty is the size of one that has none.
const (
	spoolSuffix = ".spool"
	spoolEmpty  = 8
)

// proxy is the program, which is started and killed many times. Whoever started it calls kill or stop.
type proxy struct {
	program, config string
	port            int // of the bootstrap listener; those of the brokers follow, whose ids begin at 0 or 1
	log             string

	process *kafka.Process
	out     *os.File
}

// start starts the program and waits until it accepts connections.
func (p *proxy) start(ctx context.Context) (err error) {
	if p.out, err = os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return err
	}
	if p.process, err = kafka.Start(p.program, []string{"run", "-c", p.config, "--listen", p.addr(),
		"--broker-ports", fmt.Sprint(p.port + 1)},
		kafka.ProcessOptions{Output: p.out}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		c, err := net.Dial("tcp", p.addr())
		if err == nil {
			return c.Close()
		}
		select {
		case <-p.process.Done():
			return fmt.Errorf("ackproxy ended at its start\n%s", kafka.Tail(p.log, 20))
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// kill ends the program with SIGKILL.
func (p *proxy) kill() error {
	if p.process == nil {
		return nil
	}
	err := errors.Join(p.process.Kill(), p.out.Close())
	p.process = nil
	return err
}

// stop lets the program end by itself.
func (p *proxy) stop() error {
	err := errors.Join(p.process.Stop(30*time.Second), p.out.Close())
	p.process = nil
	return err
}

func (p *proxy) addr() string { return fmt.Sprintf("%s:%d", host, p.port) }

func list(all []string) string { return strings.Join(all, ", ") }

// anySpooled says whether letters wait in a spool below dir.
func anySpooled(dir string) (found bool, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if d.IsDir() || !strings.HasSuffix(path, spoolSuffix) {
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		found = found || err == nil && info.Size() > spoolEmpty
		return err
	})
	return found, err
}
