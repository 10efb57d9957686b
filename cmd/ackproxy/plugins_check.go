package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/ackproxy/ackproxy/cmd/ackproxy/internal/config"
	"github.com/ackproxy/ackproxy/plugins/host"
)

func newPluginsCheckCmd() *cobra.Command {
	var format outputFormat
	f := checkFlags{}
	cmd := &cobra.Command{
		Use:   "check [NAME]...",
		Short: "Start plugins and try them with share requests",
		Long: `Start each plugin of the configuration, or those that are named, or the one of --path; shake hands with it, ask it about some share requests on
both carriers, and say what it decided and how long it took. No broker is needed, nothing is listened on. The plugin does with these requests what
it always does: one that writes dead letters writes some. What a plugin prints goes to standard error. Exit status: 0
all of them work, 1 one does not, 2 the call or the configuration is wrong.`,
		Example: `  ackproxy plugins check -c ackproxy.yaml mine
  ackproxy plugins check --path /opt/mine --sha256 $(sha256sum /opt/mine | cut -c-64) --settings '{"topic": "orders"}'`,
	}
	file := addConfigFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.path, "path", "", "the `PROGRAM` to start, absolute; without a configuration")
	flags.StringVar(&f.sha256, "sha256", "", "its checksum, 64 hexadecimal `DIGITS`")
	flags.StringArrayVar(&f.args, "arg", nil, "an `ARGUMENT` of it; may be repeated")
	flags.StringArrayVar(&f.files, "file", nil, "`PATH=SHA256` of what else is code; may be repeated")
	flags.StringArrayVar(&f.env, "env", nil, "the `NAME` of a variable to pass on; may be repeated")
	flags.StringVar(&f.sockets, "socket-dir", "", "where its socket is made, a `FOLDER`; that for temporary files where left out")
	flags.StringVar(&f.settings, "settings", "", "its configuration, `JSON`")
	flags.DurationVar(&f.timeout, "timeout", 0, "for a decision; what the plugin declares where left out")
	flags.StringVar(&f.topic, "topic", "orders", "what the topics of the requests are called, `NAME`")
	flags.IntVar(&f.rounds, "rounds", 100, "how often it is asked about each request")
	format.flag(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		trials, err := f.trials(cmd, *file, names)
		if err != nil {
			return err
		}
		log := newLogger(cmd.ErrOrStderr(), config.Log{Level: "warn", Format: config.FormatAuto})
		ok := true
		for _, t := range trials {
			r := t.run(cmd.Context(), log)
			ok = ok && r.OK
			if err := r.print(cmd.OutOrStdout(), format); err != nil {
				return err
			}
		}
		if !ok {
			return &exit{status: statusNo}
		}
		return nil
	}
	return cmd
}

// trials are the plugins to try.
func (f *checkFlags) trials(cmd *cobra.Command, file string, names []string) ([]trial, error) {
	if f.rounds < 1 || f.rounds > 1_000_000 {
		return nil, misused("--rounds: write 1 to 1000000")
	}
	if f.path != "" {
		if file != "" || len(names) > 0 {
			return nil, misused("--path and the plugins of a configuration exclude each other")
		}
		if f.settings != "" && !json.Valid([]byte(f.settings)) {
			return nil, misused("--settings is not JSON")
		}
		spec, err := f.spec()
		return []trial{{spec: spec, timeout: f.timeout, topic: f.topic, rounds: f.rounds}}, err
	}
	for _, flag := range []string{"sha256", "arg", "file", "env", "socket-dir", "settings", "timeout"} {
		if cmd.Flags().Changed(flag) {
			return nil, misused("--%s belongs to --path", flag)
		}
	}
	c, err := loadPolicies(cmd, file, false)
	if err != nil {
		return nil, err
	}
	var trials []trial
	var found, plugins []string
	for _, p := range c.Policies {
		if p.Builtin == "" {
			plugins = append(plugins, p.Name)
		}
		if len(names) > 0 && !slices.Contains(names, p.Name) {
			continue
		}
		found = append(found, p.Name)
		if p.Builtin == "" {
			trials = append(trials, trial{spec: p.Spec(readVersion().Version), timeout: time.Duration(p.Timeout), topic: f.topic, rounds: f.rounds})
		} else if len(names) > 0 {
			return nil, misused("%s is built in: there is nothing to start", p.Name)
		}
	}
	for _, name := range names {
		if !slices.Contains(found, name) {
			return nil, misused("there is no policy %s; the plugins are %s", name, orNone(plugins))
		}
	}
	if len(trials) == 0 {
		return nil, misused("no plugin is configured: give a configuration with -c, or --path")
	}
	return trials, nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// trial is one plugin to be tried.
type trial struct {
	spec    host.Spec
	timeout time.Duration // 0: the plugin's budget
	topic   string
	rounds  int
}

// run starts the plugin, tries all that it says it does, and ends it.
func (t *trial) run(ctx context.Context, log zerolog.Logger) *trialReport {
	r := &trialReport{Name: t.spec.Name, Path: t.spec.Path, Requests: []tried{}, Problems: []string{}}
	t.spec.TopicName = t.topicName
	began := time.Now()
	p, err := host.Start(ctx, t.spec, log)
	r.StartMs = milliseconds(time.Since(began))
	if err != nil {
		r.problem("it does not start: %s", strings.TrimPrefix(err.Error(), "plugin "+t.spec.Name+": "))
		return r
	}
	r.declared(p)
	if p.Decides() {
		t.decisions(ctx, r, p)
	}
	if p.Observes() {
		t.outcomes(ctx, r, p)
	}
	if p.MapsEndpoints() {
		t.endpoints(ctx, r, p)
	}
	if s := p.Stats(); s.Starts > 1 {
		r.problem("its process ended while it was tried, %d times", s.Starts-1)
	}
	if err := p.Close(); err != nil {
		r.problem("it does not end: %v", err)
	}
	r.OK = len(r.Problems) == 0
	return r
}
