// Command ackproxy is a proxy for the Kafka protocol that shows what happens to the records of share groups.
//
// One file a command: each has a newXxxCmd that builds it. Only this directory knows YAML, the environment and exit statuses.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	statusNo    = 1 // it ran and the answer is no, or it could not go on
	statusUsage = 2 // the call or the configuration is wrong
)

// exit ends a command with a status. A nil err says that everything was said.
type exit struct {
	status int
	err    error
}

// Error implements error.
func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("status %d", e.status)
	}
	return e.err.Error()
}

// Unwrap is the cause.
func (e *exit) Unwrap() error { return e.err }

func failed(err error) error { return &exit{statusNo, err} }

func misused(format string, args ...any) error {
	return &exit{statusUsage, fmt.Errorf(format, args...)}
}

func main() { os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// execute runs one command line and returns its exit status. An error that no command made comes from reading the command line.
func execute(args []string, in io.Reader, out, errs io.Writer) int {
	root := newRootCmd()
	root.SetArgs(args)
	root.SetIn(in)
	to := &printer{w: out}
	root.SetOut(to)
	root.SetErr(errs)
	cmd, err := root.ExecuteC()
	var e *exit
	switch {
	case errors.As(err, &e):
	case to.err != nil:
		e = &exit{statusNo, fmt.Errorf("standard output: %w", to.err)}
	case err == nil:
		return 0
	default:
		e = &exit{statusUsage, fmt.Errorf("%w (%s -h shows how it is called)", err, cmd.CommandPath())}
	}
	if e.err != nil {
		fmt.Fprintln(errs, "ackproxy: "+strings.TrimSuffix(e.err.Error(), "\n"))
	}
	return e.status
}

// printer remembers that something could not be printed: most commands do not look.
type printer struct {
	w   io.Writer
	mu  sync.Mutex
	err error
}

// Write implements io.Writer.
func (p *printer) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.err = err
	}
	return n, err
}

func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "ackproxy",
		Short: "A Kafka proxy that shows what happens to the records of share groups",
		Long: `ackproxy stands between Kafka clients and brokers. It sees every acknowledgement of a share group (KIP-932), joins it with what the
broker said, and writes an audit log. To a client it is the broker.`,
		Example: `  ackproxy run --listen 127.0.0.1:19092 --upstream localhost:9092
  ackproxy validate -c ackproxy.yaml --online
  tcpdump -i lo -w - port 9092 | ackproxy decode`,
		Version:       readVersion().Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddGroup(&cobra.Group{ID: "built", Title: "Commands:"}, &cobra.Group{ID: "planned", Title: "Not built yet:"})
	root.SetHelpCommandGroupID("built")
	for _, c := range []*cobra.Command{newRunCmd(), newDecodeCmd(), newValidateCmd(), newDemoCmd(), newDLQCmd(), newPluginsCmd(), newVersionCmd()} {
		c.GroupID = "built"
		root.AddCommand(c)
	}
	for _, c := range newPlannedCmds() {
		c.GroupID = "planned"
		root.AddCommand(c)
	}
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Example = "  ackproxy help run"
		}
	}
	return root
}
