package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/cmd/ackproxy/internal/config"
	"github.com/ackproxy/ackproxy/policy/dlq"
)

func newDLQCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Inspect and redrive dead letters",
		Long:  `Look into dead-letter topics, and into the spool of letters that could not be produced yet; produce letters back to where they came from.`,
		Example: `  ackproxy dlq inspect -c ackproxy.yaml
  ackproxy dlq redrive -c ackproxy.yaml --topic dlq.orders --dry-run`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newInspectCmd(), newRedriveCmd())
	return cmd
}

// dlqFlags say which cluster is meant: that of a policy in the configuration, or one that is named.
type dlqFlags struct {
	file      *string
	policy    string
	cluster   string
	bootstrap []string
}

func (f *dlqFlags) add(cmd *cobra.Command) {
	f.file = addConfigFlag(cmd)
	cmd.Flags().StringVar(&f.policy, "policy", "", "the `NAME` of the policy, where several write dead letters")
	cmd.Flags().StringVar(&f.cluster, "cluster", "", "the `NAME` of a further cluster of the policy (default its own cluster)")
	cmd.Flags().StringSliceVar(&f.bootstrap, "bootstrap", nil, "brokers `ADDR,ADDR`, instead of a configuration; without TLS and SASL")
}

// dlqPlace is what the flags lead to.
type dlqPlace struct {
	opts   []kgo.Opt
	prefix string // of dead-letter topics
	spool  string // the policy's directory; empty: it has none
}

func (f *dlqFlags) place(cmd *cobra.Command) (dlqPlace, error) {
	if len(f.bootstrap) > 0 {
		if *f.file != "" || f.policy != "" || f.cluster != "" {
			return dlqPlace{}, misused("--bootstrap and a configuration exclude each other")
		}
		c := dlq.Cluster{Bootstrap: f.bootstrap}
		opts, err := c.Options()
		return dlqPlace{opts: opts, prefix: "dlq."}, err
	}
	c, err := f.load(cmd)
	if err != nil {
		return dlqPlace{}, err
	}
	p, err := f.find(c.Policies)
	if err != nil {
		return dlqPlace{}, err
	}
	parsed, err := dlq.Parse(p.Config)
	if err != nil {
		return dlqPlace{}, misused("policy %s: %w", p.Name, err)
	}
	cluster, key := parsed.Cluster, "cluster"
	if f.cluster != "" {
		key = "clusters." + f.cluster
		var known bool
		if cluster, known = parsed.Clusters[f.cluster]; !known {
			return dlqPlace{}, misused("--cluster: policy %s has no cluster %q", p.Name, f.cluster)
		}
	}
	opts, err := cluster.Options()
	if err != nil {
		return dlqPlace{}, failed(fmt.Errorf("policy %s: %s.%w", p.Name, key, err))
	}
	at := dlqPlace{opts: opts, prefix: parsed.AllowedPrefix}
	if c.State.Dir != "" { // whatever on_failure says: it may have said spool before
		at.spool = dlq.SpoolDir(c.State.Dir, p.Name)
	}
	return at, nil
}

// ofFile is a problem with a file of credentials that the proxy has, and maybe nobody else.
var ofFile = regexp.MustCompile(`^policies\[[0-9]+\]\.config\.(cluster|clusters\..+|source)\.(tls\.(ca|cert|key)|sasl\.password_file)$`)

// load reads the configuration and refuses it as run does, but for files that are not on this machine: plugins are not started here, and what the
// chosen cluster needs is looked at later.
func (f *dlqFlags) load(cmd *cobra.Command) (c config.Config, err error) {
	s, err := sources(cmd, *f.file)
	if err != nil {
		return c, err
	}
	c, report := config.Load(s)
	for _, p := range report.Problems {
		if !ofPlugin.MatchString(p.Key) && !ofFile.MatchString(p.Key) {
			cmd.PrintErrln(p)
			err = &exit{status: statusUsage}
		}
	}
	return c, err
}

// find is the policy that is meant.
func (f *dlqFlags) find(all []config.Policy) (*config.Policy, error) {
	var found []*config.Policy
	var names []string
	for i := range all {
		if p := &all[i]; p.Builtin == "dlq" {
			names = append(names, p.Name)
			if f.policy == "" || f.policy == p.Name {
				found = append(found, p)
			}
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(names) == 0:
		return nil, misused("the configuration has no policy of builtin dlq (write one, or --bootstrap ADDR)")
	case len(found) == 0:
		return nil, misused("--policy: there is no %q (there is %s)", f.policy, strings.Join(names, ", "))
	}
	return nil, misused("several policies write dead letters (write --policy with one of %s)", strings.Join(names, ", "))
}

// deadLetterTopics are the topics of the cluster that have the prefix; none, where nothing was dead-lettered yet.
func deadLetterTopics(ctx context.Context, p dlqPlace) ([]string, error) {
	cl, err := kgo.NewClient(p.opts...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	all, err := kadm.NewClient(cl).ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	var topics []string
	for _, t := range all.Names() {
		if strings.HasPrefix(t, p.prefix) {
			topics = append(topics, t)
		}
	}
	slices.Sort(topics)
	return topics, nil
}

// counter shows how far a long work is, on a terminal only.
type counter struct {
	w     io.Writer
	what  string
	begun time.Time
	shown time.Time
}

func newCounter(cmd *cobra.Command, what string) *counter {
	c := &counter{what: what, begun: time.Now()}
	if w := cmd.ErrOrStderr(); isTerminal(w) {
		c.w = w
	}
	return c
}

func (c *counter) progress(done, total int64) {
	if now := time.Now(); c.w != nil && (now.Sub(c.shown) > 200*time.Millisecond || done == total) {
		c.shown = now
		fmt.Fprintf(c.w, "\r%s %d of %d (%.0f/s) ", c.what, done, total, float64(done)/max(now.Sub(c.begun).Seconds(), 0.001))
	}
}

// end leaves the line.
func (c *counter) end() {
	if c.w != nil && !c.shown.IsZero() {
		fmt.Fprintln(c.w)
	}
}

// interrupted says that a work was ended by a signal, and how it goes on.
func interrupted(err error, how string) error {
	if errors.Is(err, context.Canceled) {
		return failed(errors.New("interrupted" + how))
	}
	return failed(err)
}
