package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ackproxy/ackproxy/cmd/ackproxy/internal/config"
)

// settingFlags are the flags of run that give a setting a value.
var settingFlags = []struct{ name, path, value, usage string }{
	{"listen", "listen.bootstrap", "ADDR", "where clients connect first, host:port; broker ports are bound on the same host"},
	{"upstream", "upstream.bootstrap", "ADDR,ADDR", "the brokers, host:port, separated by commas"},
	{"advertise", "listen.advertise", "HOST", "the host that clients are told"},
	{"broker-ports", "listen.broker_ports.base", "BASE", "node n is served on port BASE + n"},
	{"admin", "admin.listen", "ADDR|none", "where /livez, /readyz and /metrics are served"},
	{"state", "state.dir", "DIR", "where learnt broker addresses are kept"},
	{"log-level", "log.level", "LEVEL", "trace, debug, info, warn or error"},
}

// textValue is a flag that is checked later, with all other settings. It implements pflag.Value.
type textValue struct{ text, kind string }

// String is the text.
func (t *textValue) String() string { return t.text }

// Type is what -h shows in place of a value.
func (t *textValue) Type() string { return t.kind }

// Set takes any text.
func (t *textValue) Set(s string) error { t.text = s; return nil }

func addSettingFlags(cmd *cobra.Command) {
	defaults := map[string]string{}
	for _, s := range config.Settings() {
		defaults[s.Path] = s.Default
	}
	for _, f := range settingFlags {
		cmd.Flags().Var(&textValue{kind: f.value}, f.name, f.usage+" (default "+defaults[f.path]+")")
	}
	cmd.Flags().StringArray("audit", nil, "a `SINK` of audit lines: stdout, file:PATH or none; may be repeated (default stdout)")
}

func addConfigFlag(cmd *cobra.Command) *string {
	return cmd.Flags().StringP("config", "c", "", "`FILE` with settings, YAML")
}

// sources gathers what a command's flags, and the environment, say.
func sources(cmd *cobra.Command, file string) (config.Sources, error) {
	s := config.Sources{File: file, Environ: os.Environ(), Builtins: checks()}
	if file == "" && cmd.Flags().Changed("config") {
		return s, misused("-c: the name of the file is empty")
	}
	for _, f := range settingFlags {
		if flag := cmd.Flags().Lookup(f.name); flag != nil && flag.Changed {
			s.Flags = append(s.Flags, config.Flag{Name: "--" + f.name, Path: f.path, Value: flag.Value.String()})
		}
	}
	if cmd.Flags().Lookup("audit") != nil && cmd.Flags().Changed("audit") {
		s.Audit, _ = cmd.Flags().GetStringArray("audit")
	}
	return s, nil
}

// environmentHelp lists the variables for run -h.
func environmentHelp() string {
	var b strings.Builder
	b.WriteString("Environment (stronger than the file, weaker than flags; an empty variable counts as not set):\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, s := range config.Settings() {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", s.Env, s.Path, s.Default)
	}
	w.Flush()
	return b.String()
}

func printWarnings(w io.Writer, r config.Report) {
	for _, p := range r.Warnings {
		fmt.Fprintln(w, "warning: "+p.String())
	}
}
