package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ackproxy/ackproxy/cmd/ackproxy/internal/demo"
)

const (
	// demoRecords is how many records demo --once makes when nothing else is said.
	demoRecords = 5000
	// demoRate is how many records a second demo makes without --once.
	demoRate = 250
)

func newDemoCmd() *cobra.Command {
	var format outputFormat
	var o demo.Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it work without a Kafka cluster",
		Long: `Start brokers in this process, the proxy in front of them with its audit on, a producer, and members of a share group that accept, release
and reject, some on ShareFetch and some on ShareAcknowledge. Then compare what the members did with what the audit says, record by record.

In a terminal a table shows what goes by. Without --once it goes on until Ctrl-C, settles the records that are there, and prints the summary; a
second Ctrl-C ends it at once. With --once the same call makes the same acknowledgements. Nothing is written to disk, and nothing listens beyond
this machine.

Exit status: 0 the audit matches, 1 it does not, or the demo could not go to its end.`,
		Example: `  ackproxy demo
  ackproxy demo --once --records 20000 -o json
  ackproxy demo --members 5 --brokers 1 --seed 7`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().Int64Var(&o.Records, "records", 0, "produce `N` records (default 5000 with --once, no end without)")
	cmd.Flags().IntVar(&o.Members, "members", 3, "the share group has `N` members")
	cmd.Flags().IntVar(&o.Brokers, "brokers", 3, "start `N` brokers")
	cmd.Flags().BoolVar(&o.Once, "once", false, "end when every record is settled")
	cmd.Flags().Uint64Var(&o.Seed, "seed", 1, "`N` decides what members do with which record")
	format.flag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkDemo(cmd, &o); err != nil {
			return err
		}
		return runDemo(cmd, format, o)
	}
	return cmd
}

// checkDemo refuses what cannot be and fills in what was not said.
func checkDemo(cmd *cobra.Command, o *demo.Options) error {
	switch {
	case cmd.Flags().Changed("records") && o.Records < 1:
		return misused("--records: at least 1")
	case o.Members < 1 || o.Members > demo.MaxMembers:
		return misused("--members: 1 to %d", demo.MaxMembers)
	case o.Brokers < 1 || o.Brokers > demo.MaxBrokers:
		return misused("--brokers: 1 to %d", demo.MaxBrokers)
	}
	if o.Once && o.Records == 0 {
		o.Records = demoRecords
	}
	o.Rate, o.Version = demoRate, readVersion().Version
	return nil
}

// runDemo runs it, prints what it came to, and says with the status whether the audit matches.
func runDemo(cmd *cobra.Command, format outputFormat, o demo.Options) error {
	if terminal, ok := cmd.ErrOrStderr().(*os.File); ok && isTerminal(terminal) {
		o.Screen = demo.NewScreen(terminal, os.Getenv)
	}
	ctx, stop, done := interrupts(cmd.Context())
	defer done()
	result, report, err := demo.Run(ctx, stop, o)
	for _, note := range report.Notes {
		cmd.PrintErrln(note)
	}
	if report.Played {
		if format == formatJSON {
			err = firstError(err, writeJSON(cmd.OutOrStdout(), result))
		} else {
			err = firstError(err, result.WriteText(cmd.OutOrStdout(), report, isTerminal(cmd.OutOrStdout()), os.Getenv))
		}
	}
	return demoStatus(result, err)
}

// demoStatus is 1 where the demo did not go to its end, and where the audit does not match.
func demoStatus(result demo.Result, err error) error {
	switch {
	case err != nil:
		return failed(err)
	case !result.Match:
		return &exit{status: statusNo}
	}
	return nil
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// interrupts closes stop at the first signal that asks to end, and ends ctx at the second.
func interrupts(parent context.Context) (ctx context.Context, stop chan struct{}, done func()) {
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithCancel(parent)
	stop = make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for _, act := range []func(){func() { close(stop) }, cancel} {
			select {
			case <-signals:
				act()
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, stop, func() { signal.Stop(signals); cancel() }
}
