package main

import (
	"cmp"
	"fmt"
	"regexp"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ackproxy/ackproxy/cmd/ackproxy/internal/config"
	"github.com/ackproxy/ackproxy/plugins/host"
)

func newPluginsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugins",
		Short: "List the policies, and try plugins",
		Long:  "List the configured policies, and start plugins to see whether they work. docs/plugins.md shows how to write one.",
		Example: `  ackproxy plugins list -c ackproxy.yaml
  ackproxy plugins check --path /opt/mine --sha256 $(sha256sum /opt/mine | cut -c-64)`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPluginsListCmd(), newPluginsCheckCmd())
	return cmd
}

// listed is one line of plugins list.
type listed struct {
	Name       string   `json:"name"`
	Kind       string   `json:"kind"` // builtin or plugin
	Builtin    string   `json:"builtin,omitempty"`
	Path       string   `json:"path,omitempty"`
	SHA256     string   `json:"sha256,omitempty"`
	ChecksumOK bool     `json:"checksum_ok"` // of the program and its files, and that nobody else may write to them
	OnFailure  string   `json:"on_failure"`
	Timeout    string   `json:"timeout"` // empty: what the policy declares
	Problems   []string `json:"problems"`
}

func newPluginsListCmd() *cobra.Command {
	var format outputFormat
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the configured policies in the order in which they are asked",
		Long: `List the configured policies in the order in which they are asked, and check what the file system says of plugins. Nothing is started.
Exit status: 0 all is well, 1 a plugin is not what the configuration says, 2 the configuration is wrong.`,
		Example: "  ackproxy plugins list -c ackproxy.yaml -o json",
		Args:    cobra.NoArgs,
	}
	file := addConfigFlag(cmd)
	format.flag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loadPolicies(cmd, *file, true)
		if err != nil {
			return err
		}
		all, ok := listPolicies(c)
		if err := printList(cmd, format, all); err != nil {
			return err
		}
		if !ok {
			return &exit{status: statusNo}
		}
		return nil
	}
	return cmd
}

// ofPlugin is a problem that the file system has with a plugin.
var ofPlugin = regexp.MustCompile(`^policies\[[0-9]+\]\.plugin\.(files\[[0-9]+\]\.)?(path|sha256)$`)

// loadPolicies reads the configuration and refuses it as run does. What is wrong with the files of plugins passes if it is looked at later.
func loadPolicies(cmd *cobra.Command, file string, later bool) (config.Config, error) {
	s, err := sources(cmd, file)
	if err != nil {
		return config.Config{}, err
	}
	c, report := config.Load(s)
	refused := false
	for _, p := range report.Problems {
		if later && ofPlugin.MatchString(p.Key) {
			continue
		}
		refused = true
		fmt.Fprintln(cmd.ErrOrStderr(), p)
	}
	if refused {
		return c, &exit{status: statusUsage}
	}
	return c, nil
}

func listPolicies(c config.Config) (all []listed, ok bool) {
	ok = true
	for _, p := range c.Policies {
		l := listed{Name: p.Name, Kind: "plugin", Builtin: p.Builtin, Path: p.Plugin.Path, SHA256: p.Plugin.SHA256, ChecksumOK: true, Problems: []string{}}
		decides := true
		if p.Builtin != "" {
			l.Kind, decides = "builtin", builtins[p.Builtin].decides
		} else {
			spec := p.Spec("")
			for _, m := range spec.Check() {
				l.Problems = append(l.Problems, m.Error())
			}
			l.ChecksumOK = len(l.Problems) == 0
			ok = ok && l.ChecksumOK
		}
		if decides {
			l.OnFailure = string(onFailure(p))
		}
		if p.Timeout != 0 {
			l.Timeout = p.Timeout.String()
		}
		all = append(all, l)
	}
	return all, ok
}

func printList(cmd *cobra.Command, format outputFormat, all []listed) error {
	out := cmd.OutOrStdout()
	if format == formatJSON {
		for _, l := range all {
			if err := writeJSON(out, l); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "no policy is configured")
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tKIND\tPROGRAM\tCHECKSUM\tON FAILURE\tTIMEOUT")
	for _, l := range all {
		checksum := "ok"
		switch {
		case l.Kind == "builtin":
			checksum = "-"
		case !l.ChecksumOK:
			checksum = "no"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, l.Kind, cmp.Or(l.Path, l.Builtin), checksum, cmp.Or(l.OnFailure, "-"), cmp.Or(l.Timeout, "-"))
	}
	if err := w.Flush(); err != nil {
		return failed(err)
	}
	for _, l := range all {
		for _, p := range l.Problems {
			fmt.Fprintf(out, "%s: %s\n", l.Name, p)
		}
	}
	return nil
}

// checkFlags say which plugin plugins check starts, where it is not one of the configuration.
type checkFlags struct {
	path, sha256, settings, topic, sockets string
	args, files, env                       []string
	rounds                                 int
	timeout                                time.Duration
}

// spec is the plugin of the flags.
func (f *checkFlags) spec() (host.Spec, error) {
	s := host.Spec{Name: "check", Path: f.path, SHA256: f.sha256, Args: f.args, Env: f.env, Config: []byte(f.settings),
		SocketDir: f.sockets, HostVersion: readVersion().Version}
	for _, file := range f.files {
		i := len(file) - 65 // PATH=SHA256
		if i < 1 || file[i] != '=' {
			return s, misused("--file %s: write PATH=SHA256", file)
		}
		s.Files = append(s.Files, host.File{Path: file[:i], SHA256: file[i+1:]})
	}
	if f.sha256 == "" {
		return s, misused("--sha256 is missing: write what sha256sum %s prints", f.path)
	}
	return s, nil
}
