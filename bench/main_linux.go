// Command bench measures ackproxy beside other proxies, on one machine and in one run: docs/performance.md says what the figures mean.
//
//	go run ./bench                       all contenders, about 20 minutes
//	go run ./bench -short                the same in about two
//	go run ./bench install               fetch the contenders that Maven Central and PyPI have
//	go run ./bench compare A.json B.json two runs, and which differences mean something
//	go run ./bench kafka                 a real broker and real clients, direct and through ackproxy
//	go run ./bench dlq                   dead letters: throughput with and without, and memory under a flood
//	go run ./bench soak -minutes 30      resident memory under mixed load
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/ackproxy/ackproxy/bench/internal/peer"
)

// commands by their first argument. Those that begin with an underscore are the roles of child processes.
var commands = map[string]func(context.Context, []string) error{
	"compare":      compareCommand,
	"dlq":          dlqCommand,
	"install":      installCommand,
	"kafka":        kafkaCommand,
	"soak":         soakCommand,
	"_load":        loadRole,
	"_broker":      brokerRole,
	peer.RelayRole: relayRole,
}

// misuse is a wrong call: status 2.
type misuse struct{ error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	args, command := os.Args[1:], peersCommand
	if len(args) > 0 {
		if c, ok := commands[args[0]]; ok {
			command, args = c, args[1:]
		}
	}
	err := command(ctx, args)
	stop()
	var wrong misuse
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.As(err, &wrong):
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// newFlags is a set of flags whose -h shows usage, with an example.
func newFlags(usage string) *flag.FlagSet {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprint(os.Stderr, usage, "\n\n")
		f.PrintDefaults()
	}
	return f
}

// parse reads flags and refuses what they leave over, but for as many arguments as wanted.
func parse(f *flag.FlagSet, args []string, wanted int) error {
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		os.Exit(2) // the flag package has said why
	}
	if f.NArg() != wanted {
		return misuse{fmt.Errorf("%d arguments, not %d: see -h", f.NArg(), wanted)}
	}
	return nil
}
