package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ackproxy/ackproxy/plugins/host"
	"github.com/ackproxy/ackproxy/policy"
)

// Builtin is a policy that ackproxy has itself.
type Builtin struct {
	// Check says what is wrong with the configuration of a policy, in JSON, that has its state in a directory (empty: in none), without
	// starting anything: *policy.ConfigError, joined. Nil: not built yet.
	Check func(p *Policy, state string) error
	// Warn says of a policy whose configuration is right what it will not be able to do as the rest of the configuration is: *policy.ConfigError,
	// joined. Nil: nothing.
	Warn func(p *Policy, c *Config) error
	// Decides says whether it is asked about requests, and so may fail at it.
	Decides bool
	// Timeout is the least that it can do with where the configuration says how long a decision may take.
	Timeout time.Duration
}

// Spec is how the plugin of p is run.
func (p Policy) Spec(version string) host.Spec {
	s := host.Spec{
		Name: p.Name, Path: p.Plugin.Path, SHA256: p.Plugin.SHA256, Args: p.Plugin.Args, Env: p.Plugin.Env,
		Config: p.Config, SocketDir: p.Plugin.SocketDir, HostVersion: version,
	}
	for _, f := range p.Plugin.Files {
		s.Files = append(s.Files, host.File(f))
	}
	return s
}

// policyPath is the path of a setting of a policy.
func policyPath(i int, field string) string { return join(fmt.Sprintf("policies[%d]", i), field) }

// checkPolicies looks for what a chain, a built-in policy or a plugin could not start with.
func (l *loader) checkPolicies() {
	first := map[string]int{}
	for i, p := range l.config.Policies {
		o := l.around(fmt.Sprintf("policies[%d]", i))
		l.report.Policies = append(l.report.Policies, fmt.Sprintf("%s:%d:%d: policies[%d]", o.file, o.line, o.column, i))
		add := func(field, problem, hint string) {
			path := policyPath(i, field)
			l.add(l.around(path), path, problem, hint)
		}
		if p.Name == "" {
			add("name", "the policy has no name", "write one, it stands in the audit log")
		} else if n, twice := first[p.Name]; twice {
			add("name", fmt.Sprintf("policies[%d] is called %s, too", n, p.Name), "give each a name of its own")
		}
		first[p.Name] = i
		_, plugin := l.origins[policyPath(i, "plugin")]
		switch {
		case p.Builtin != "" && plugin:
			add("plugin", "the policy is a built-in one and a plugin", "keep one of them")
		case p.Builtin != "":
			l.checkBuiltin(i, p, add, l.failed(policyPath(i, "config")))
		case l.failed(policyPath(i, "plugin")):
		case p.Plugin.Path == "":
			add("plugin", "the policy has neither a plugin nor a built-in one", "write plugin: {path: /opt/policy, sha256: …}")
		default:
			spec := p.Spec("")
			if spec.Name == "" {
				spec.Name = "-" // told of above
			}
			for _, m := range spec.Check() {
				add(join("plugin", m.Field), m.Err.Error(), "")
			}
		}
	}
}

func (l *loader) checkBuiltin(i int, p Policy, add func(field, problem, hint string), unread bool) {
	names := slices.Sorted(maps.Keys(l.builtins))
	b, ok := l.builtins[p.Builtin]
	switch {
	case !ok:
		hint := "write plugin: {path: …, sha256: …}"
		if best, far := closest(p.Builtin, names); far <= 2 {
			hint = "the nearest is " + best
		}
		add("builtin", "there is no built-in policy "+p.Builtin, hint)
		return
	case b.Check == nil:
		add("builtin", p.Builtin+" is not built yet", "write plugin: {path: …, sha256: …}")
		return
	case !b.Decides && p.OnFailure != "":
		add("on_failure", p.Builtin+" decides about no request", "remove the key")
	case !b.Decides && p.Timeout != 0:
		add("timeout", p.Builtin+" decides about no request", "remove the key")
	}
	if t := time.Duration(p.Timeout); b.Decides && t != 0 && t < b.Timeout {
		add("timeout", fmt.Sprintf("%v is too short for a decision of %s", p.Timeout, p.Builtin),
			fmt.Sprintf("write %v or more, or leave it out", Duration(b.Timeout)))
	}
	if unread {
		return
	}
	wrong := Mistakes(b.Check(&p, l.config.State.Dir))
	for _, err := range wrong {
		add(configKey(err.Key), err.Problem, err.Hint)
	}
	if b.Warn == nil || len(wrong) > 0 {
		return
	}
	for _, err := range Mistakes(b.Warn(&p, l.config)) {
		path := policyPath(i, configKey(err.Key))
		l.report.Warnings = append(l.report.Warnings, l.around(path).problem(path, err.Problem, err.Hint))
	}
}

// configKey is the path of a key of a policy's configuration, below the policy.
func configKey(key string) string {
	if key == "" {
		return "config"
	}
	return "config." + key
}

// Mistakes takes joined errors apart.
func Mistakes(err error) (all []*policy.ConfigError) {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			all = append(all, Mistakes(e)...)
		}
		return all
	}
	var one *policy.ConfigError
	if !errors.As(err, &one) {
		one = &policy.ConfigError{Problem: err.Error()}
	}
	return []*policy.ConfigError{one}
}

// tryPlugins starts each plugin.
func (l *loader) tryPlugins(try func(Policy) error) {
	for i, p := range l.config.Policies {
		if p.Builtin != "" {
			continue
		}
		if err := try(p); err != nil {
			path := policyPath(i, "plugin")
			l.add(l.around(path), path, err.Error(), "")
		}
	}
}

// around is where a path stands in the file, or the nearest one around it that does.
func (l *loader) around(path string) origin {
	for ; path != ""; path = path[:max(0, strings.LastIndexAny(path, ".["))] {
		if o, ok := l.origins[path]; ok {
			return o
		}
	}
	return origin{}
}
