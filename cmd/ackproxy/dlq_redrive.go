package main

import (
	"fmt"
	"maps"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ackproxy/ackproxy/policy/dlq/redrive"
)

func newRedriveCmd() *cobra.Command {
	var flags dlqFlags
	var format outputFormat
	var o redrive.Options
	var terms []string
	cmd := &cobra.Command{
		Use:   "redrive",
		Short: "Produce dead letters back to where they came from",
		Long: `Produce the letters that a dead-letter topic has now back to the topics they came from, or to another, in their order: key, value and
headers as they were, without what the dead letter added but its id and its hops, which are counted on when the record is rejected again.

The records and the position in the dead-letter topic are written in one transaction. So each letter is back once, for consumers that read
committed records (a share group does with share.isolation.level=read_committed), and a redrive that was interrupted goes on where it ended: call it
again. The target is in the cluster of the dead letters: a transaction does not span two. Letters that are back stay in the dead-letter topic, where
dlq inspect counts them as before; --dry-run says what is left to bring back.

The position is the committed offset of a consumer group, which --topic, --filter, --to and --max-hops name: with another value of one of them the
redrive begins at the first letter again, and brings back once more what an earlier one brought back (but --filter hops=4 --max-hops 0, say, chooses
only what was left for its hops). Letters that the filter does not choose, without payload, of unknown or deleted topics, with more hops than
--max-hops, and records that are no letters are counted and left: the position is past them for good. --group NAME starts over, with a position of
its own. Only with --filter older=DURATION letters stay for a later run: it ends, in each partition, before the first that all else of the filter
chooses and that is not old enough yet.

Exit status: 0 all that the topic had at the beginning is brought back, left, or not old enough yet; 1 it could not go on, or was interrupted: call it
again; 2 the call or the configuration is wrong.
` + filterHelp,
		Example: `  ackproxy dlq redrive -c ackproxy.yaml --topic dlq.orders --dry-run
  ackproxy dlq redrive --bootstrap localhost:9092 --topic dlq.orders --filter reason=client_reject --rate 500`,
		Args: cobra.NoArgs,
	}
	flags.add(cmd)
	format.flag(cmd)
	cmd.Flags().StringVar(&o.Topic, "topic", "", "the dead-letter `TOPIC`")
	cmd.Flags().StringVar(&o.To, "to", "", "another target `TOPIC` than the letters' own")
	cmd.Flags().StringArrayVar(&terms, "filter", nil, "only letters with `KEY=VALUE`; may be repeated")
	cmd.Flags().IntVar(&o.Rate, "rate", 0, "records a second at most (default no limit)")
	cmd.Flags().IntVar(&o.MaxHops, "max-hops", redrive.DefaultMaxHops, "leave letters that were dead-lettered more often; 0 is no limit")
	cmd.Flags().StringVar(&o.Group, "group", "",
		"the consumer `GROUP` whose offsets are the position (default made of --topic, --filter, --to and --max-hops)")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "count what would be done, and do nothing")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var err error
		switch o.Filter, err = redrive.ParseFilter(terms); {
		case err != nil:
			return misused("%w", err)
		case o.Topic == "":
			return misused("--topic is missing (ackproxy dlq inspect shows what there is)")
		case o.To == o.Topic:
			return misused("--to: a topic cannot be redriven to itself")
		case o.Rate < 0 || o.MaxHops < 0:
			return misused("--rate and --max-hops are not negative")
		}
		at, err := flags.place(cmd)
		if err != nil {
			return err
		}
		o.Client = at.opts
		return runRedrive(cmd, format, o)
	}
	return cmd
}

func runRedrive(cmd *cobra.Command, format outputFormat, o redrive.Options) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	count := newCounter(cmd, "letters read:")
	o.Progress = count.progress
	r, err := redrive.Run(ctx, o)
	count.end()
	if format == formatJSON {
		err = firstError(err, writeJSON(cmd.OutOrStdout(), r))
	} else {
		printRedrive(cmd, r)
	}
	if err != nil {
		return interrupted(err, ": call it again to go on")
	}
	return nil
}

func printRedrive(cmd *cobra.Command, r redrive.Result) {
	out, verb := cmd.OutOrStdout(), "redriven"
	if r.DryRun {
		verb = "would be redriven"
	}
	var to []string
	for _, topic := range slices.Sorted(maps.Keys(r.To)) {
		to = append(to, fmt.Sprintf("%d to %s", r.To[topic], topic))
	}
	fmt.Fprintf(out, "%s: %d records read, %d %s", r.Topic, r.Read, r.Redriven, verb)
	if len(to) > 0 {
		fmt.Fprintf(out, " (%s)", strings.Join(to, ", "))
	}
	fmt.Fprintln(out)
	for _, left := range []struct {
		n   int64
		why string
	}{
		{r.Filtered, "not chosen by the filter"}, {r.Skipped.Hops, "left: more hops than --max-hops"}, {r.Skipped.NoPayload, "left: without payload"},
		{r.Skipped.NoTopic, "left: their topic is not known, or gone"}, {r.Skipped.NoLetter, "left: no dead letters"},
	} {
		if left.n > 0 {
			fmt.Fprintf(out, "  %d %s\n", left.n, left.why)
		}
	}
	if r.Younger > 0 {
		fmt.Fprintf(out, "  %d stay for a later run: they are not old enough yet, or behind one that is not\n", r.Younger)
	}
	if !r.Done {
		fmt.Fprintf(out, "  %d still to be read\n", r.Remaining)
	}
}
