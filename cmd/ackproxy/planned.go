package main

import (
	"slices"

	"github.com/spf13/cobra"
)

// newPlannedCmds are the commands that have a name but do nothing yet. They take whatever follows, and refuse it.
func newPlannedCmds() []*cobra.Command {
	var cmds []*cobra.Command
	for _, p := range []struct{ name, short, example string }{
		{"tail", "Follow the audit log", "ackproxy tail --group orders --verdict refused"},
		{"explain", "The life of one record", "ackproxy explain --topic orders --partition 3 --offset 1048"},
		{"audit", "Verify and export audit logs", "ackproxy audit verify audit.jsonl"},
		{"chaos", "Inject faults", "ackproxy chaos list"},
	} {
		cmds = append(cmds, &cobra.Command{
			Use:                p.name,
			Short:              p.short,
			Long:               p.short + ".\n\nThis is not built yet: every call but this one is refused with status 2.",
			Example:            "  " + p.example,
			DisableFlagParsing: true,
			RunE: func(cmd *cobra.Command, args []string) error {
				if slices.Contains(args, "-h") || slices.Contains(args, "--help") {
					return cmd.Help()
				}
				return misused("%s is not built yet", cmd.Name())
			},
		})
	}
	return cmds
}
