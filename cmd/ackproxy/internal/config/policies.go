package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ackproxy/ackproxy/plugins/host"
)

// Raw is JSON that belongs to someone else.
type Raw json.RawMessage

// builtins are the policies that ackproxy is to have itself.
var builtins = []string{"audit", "chaos", "dlq", "endpoints"}

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

// checkPolicies looks for what a chain or a plugin could not start with.
func (l *loader) checkPolicies() {
	first := map[string]int{}
	for i, p := range l.config.Policies {
		path := fmt.Sprintf("policies[%d]", i)
		add := func(field, problem, hint string) {
			full := join(path, field)
			around := path
			if strings.HasPrefix(field, "plugin") {
				around = join(path, "plugin")
			}
			o, _ := l.at(full, around, path)
			l.add(o, full, problem, hint)
		}
		if p.Name == "" {
			add("name", "the policy has no name", "write one, it stands in the audit log")
		} else if n, twice := first[p.Name]; twice {
			add("name", fmt.Sprintf("policies[%d] is called %s, too", n, p.Name), "give each a name of its own")
		}
		first[p.Name] = i
		if l.failed(join(path, "plugin")) {
			continue
		}
		switch {
		case p.Builtin != "" && !slices.Contains(builtins, p.Builtin):
			best, _ := closest(p.Builtin, builtins)
			add("builtin", fmt.Sprintf("there is no built-in policy %s", p.Builtin), "the nearest is "+best)
		case p.Builtin != "":
			add("builtin", p.Builtin+" is not built yet", "write plugin: {path: …, sha256: …}")
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
