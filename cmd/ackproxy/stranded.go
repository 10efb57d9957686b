package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ackproxy/ackproxy/cmd/ackproxy/internal/config"
	"github.com/ackproxy/ackproxy/policy/dlq"
)

// stranded warns of dead letters that no policy delivers any more, and no metric tells of: those in the spool of a policy that has another name now,
// is gone, or wants no spool. Their Rejects have gone to the broker, so the spool may have the only copies.
func stranded(c config.Config, file string) (warnings []config.Problem) {
	if c.State.Dir == "" {
		return nil
	}
	delivered := map[string]bool{}
	for _, p := range c.Policies {
		if slices.ContainsFunc(p.Plugin.Args, func(arg string) bool { return strings.HasSuffix(arg, c.State.Dir) }) {
			return nil // the plugin dlq may have its spool there
		}
		if p.Builtin != "dlq" {
			continue
		}
		parsed, err := dlq.Parse(p.Config)
		delivered[p.Name] = err != nil || slices.Contains(parsed.OnFailure, dlq.Spool) // an error is told of
	}
	for _, name := range dlq.Spools(c.State.Dir) {
		if !delivered[name] {
			warnings = append(warnings, config.Problem{File: cmp.Or(file, "defaults and environment"), Key: "state.dir",
				Problem: fmt.Sprintf("dead letters wait in %s, and no policy delivers them", dlq.SpoolDir(c.State.Dir, name)),
				Hint:    fmt.Sprintf("have a policy %q of builtin dlq whose on_failure has spool, until that is empty; or remove it", name)})
		}
	}
	return warnings
}
