package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/ackproxy/ackproxy/cmd/ackproxy/internal/config"
)

func newRunCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve clients until SIGTERM",
		Long: `Listen for Kafka clients, carry each connection to its broker, and write the audit log. Works without a file. Flags are stronger than
the environment, that than the file, that than the defaults.

SIGTERM or SIGINT drains: no connection is accepted any more, and those that are open go on until they close or drain.timeout is over.
A second signal ends at once, and so does the first while plugins are started. SIGHUP has audit files opened anew, for whoever moved them away.
Exit status: 0 after a drain, or a start that a signal has ended; 1 when it could not start or go on; 2 when the configuration is wrong.

` + environmentHelp(),
		Example: `  ackproxy run --listen 127.0.0.1:19092 --upstream localhost:9092
  ackproxy run -c ackproxy.yaml --audit file:/var/log/ackproxy/audit.jsonl --admin none`,
		Args: cobra.NoArgs,
	}
	file := addConfigFlag(cmd)
	addSettingFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := sources(cmd, *file)
		if err != nil {
			return err
		}
		c, report := config.Load(s)
		if len(report.Problems) > 0 {
			printWarnings(cmd.ErrOrStderr(), report)
			for _, p := range report.Problems {
				fmt.Fprintln(cmd.ErrOrStderr(), p)
			}
			return &exit{status: statusUsage}
		}
		log := newLogger(cmd.ErrOrStderr(), c.Log)
		for _, w := range append(report.Warnings, stranded(c, *file)...) {
			log.Warn().Msg(w.String())
		}
		limitMemory(memlimit.FromCgroup, log)
		err = serve(cmd.Context(), c, log)
		var policy *notStarted
		if errors.As(err, &policy) {
			return failed(fmt.Errorf("%s: %w", report.Policies[policy.policy], policy))
		}
		return err
	}
	return cmd
}

// startUnlessSignalled makes an app. A signal ends the wait for plugins that do not come up: then there is neither app nor error. One that comes when
// the app is there stays for whoever serves it.
func startUnlessSignalled(ctx context.Context, signals chan os.Signal, c config.Config, log zerolog.Logger) (*app, error) {
	starting, cancel := context.WithCancel(ctx)
	looked := make(chan os.Signal, 1)
	go func() {
		defer close(looked)
		select {
		case s := <-signals:
			looked <- s
			cancel()
		case <-starting.Done():
		}
	}()
	a, err := newApp(starting, c, log)
	cancel()
	s, signalled := <-looked
	switch {
	case err == nil && signalled:
		select {
		case signals <- s:
		default: // there are more
		}
	case err != nil && signalled:
		log.Warn().Stringer("signal", s).Err(err).Msg("ended before it served")
		return nil, nil
	case err != nil:
		return nil, failed(err)
	}
	return a, nil
}

// serve runs the proxy from the first listener to the end of the drain.
func serve(ctx context.Context, c config.Config, log zerolog.Logger) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	// A reader of standard output that goes away must not cut every connection: app.lost drains instead.
	signal.Ignore(syscall.SIGPIPE)
	moved := make(chan os.Signal, 1)
	signal.Notify(moved, syscall.SIGHUP)
	defer signal.Stop(moved)
	a, err := startUnlessSignalled(ctx, signals, c, log)
	if a == nil || err != nil {
		return err
	}
	a.announce()
	ended := a.start()
	for serving := true; serving; {
		serving = false
		select {
		case s := <-moved:
			a.reopenFiles(s)
			serving = true
		case s := <-signals:
			log.Info().Stringer("signal", s).Dur("timeout_ms", c.DrainTimeout()).Msg("draining: a second signal ends at once")
		case <-a.lost:
			log.Warn().Msg("the reader of standard output, an audit sink, is gone: draining")
		case <-ctx.Done():
		case err = <-ended:
			log.Error().Err(err).Msg("serving ended")
		}
	}
	atOnce := a.drain(signals)
	switch {
	case err != nil:
		return failed(err)
	case atOnce:
		return failed(fmt.Errorf("ended by a second signal"))
	}
	return nil
}
