package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/ackproxy/ackproxy/cmd/ackproxy/internal/config"
	"github.com/ackproxy/ackproxy/plugins/host"
)

// validation is what validate -o json prints.
type validation struct {
	OK       bool             `json:"ok"`
	Problems []config.Problem `json:"problems"`
	Warnings []config.Problem `json:"warnings"`
	Online   []brokerReport   `json:"online,omitempty"`
	Policies []policyReport   `json:"policies,omitempty"` // those that have clusters of their own to ask
}

func newValidateCmd() *cobra.Command {
	var format outputFormat
	var online bool
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check the configuration as run would, and say all that is wrong at once",
		Long: `Check a configuration file and the environment as run would, and print all that is wrong at once:
file:line:column: key: what is wrong (what to write instead).

A plugin is started for a moment, once nothing else is wrong: only then it shows whether it is one, and what it thinks of its config.

With --online the brokers are asked as well: whether they can be reached, which versions of the share APIs they have, and whether share
groups are on; and, where a policy dlq is configured, whether its clusters let it in and its topics be written to. Exit status: 0 all is
well, 2 the configuration is wrong, 1 it is right but a broker's answer is not.`,
		Example: `  ackproxy validate -c ackproxy.yaml
  ackproxy validate -c ackproxy.yaml --online -o json`,
		Args: cobra.NoArgs,
	}
	file := addConfigFlag(cmd)
	cmd.Flags().BoolVar(&online, "online", false, "ask the brokers as well")
	format.flag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := sources(cmd, *file)
		if err != nil {
			return err
		}
		s.Try = tryPlugin
		c, report := config.Load(s)
		v := validation{
			OK:       len(report.Problems) == 0,
			Problems: append([]config.Problem{}, report.Problems...),
			Warnings: append([]config.Problem{}, report.Warnings...),
		}
		if v.OK {
			v.Warnings = append(v.Warnings, stranded(c, *file)...)
		}
		if v.OK && online {
			v.Online = askBrokers(cmd.Context(), c)
			for _, b := range v.Online {
				v.OK = v.OK && len(b.Problems) == 0
			}
			v.Policies = askPolicies(cmd.Context(), c)
			for _, p := range v.Policies {
				v.OK = v.OK && len(p.Problems) == 0
			}
		}
		return v.print(cmd, format, cmp.Or(*file, "defaults and environment"))
	}
	return cmd
}

// tryPlugin says whether a plugin starts. What it prints is nobody's business here.
func tryPlugin(p config.Policy) error {
	running, err := host.Start(context.Background(), p.Spec(readVersion().Version), zerolog.Nop())
	if err != nil {
		return err
	}
	return running.Close()
}

func (v validation) print(cmd *cobra.Command, format outputFormat, what string) error {
	out := cmd.OutOrStdout()
	if format == formatJSON {
		if err := writeJSON(out, v); err != nil {
			return err
		}
	} else {
		printWarnings(cmd.ErrOrStderr(), config.Report{Warnings: v.Warnings})
		for _, p := range v.Problems {
			fmt.Fprintln(out, p)
		}
		if len(v.Problems) == 0 {
			fmt.Fprintf(out, "%s: ok\n", what)
		}
		for _, b := range v.Online {
			b.print(out)
		}
		for _, p := range v.Policies {
			p.print(out)
		}
	}
	switch {
	case len(v.Problems) > 0:
		return &exit{status: statusUsage}
	case !v.OK:
		return &exit{status: statusNo}
	}
	return nil
}
