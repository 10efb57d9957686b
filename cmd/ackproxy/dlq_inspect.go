package main

import (
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/policy/dlq/redrive"
)

func newInspectCmd() *cobra.Command {
	var flags dlqFlags
	var format outputFormat
	var topics, terms []string
	var letters bool
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "What is in dead-letter topics: by source, group, reason and age",
		Long: `Read dead-letter topics from their beginning to their present end and count what is in them: by source topic, group, reason and
payload, with the age of the oldest and the newest. With --letters each is printed instead. Keys and values are never shown.

Letters of other tools are counted as well, as far as their headers can be read: a broker's (KIP-1191), Spring Kafka's, Kafka Connect's.
` + filterHelp,
		Example: `  ackproxy dlq inspect -c ackproxy.yaml
  ackproxy dlq inspect --bootstrap localhost:9092 --topic dlq.orders --filter newer=1h --letters -o json`,
		Args: cobra.NoArgs,
	}
	flags.add(cmd)
	format.flag(cmd)
	cmd.Flags().StringSliceVar(&topics, "topic", nil, "a dead-letter `TOPIC`; may be repeated (default all whose names begin with the policy's allowed_prefix)")
	cmd.Flags().StringArrayVar(&terms, "filter", nil, "only letters with `KEY=VALUE`; may be repeated")
	cmd.Flags().BoolVar(&letters, "letters", false, "print each letter")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f, err := redrive.ParseFilter(terms)
		if err != nil {
			return misused("%w", err)
		}
		at, err := flags.place(cmd)
		if err != nil {
			return err
		}
		i := &inspection{cmd: cmd, format: format, filter: f, letters: letters}
		return i.run(at, topics)
	}
	return cmd
}

const filterHelp = `
--filter takes id, topic, group, reason, message, member, client-id, principal and payload with a pattern (*, ?, [a-z]); partition, offset and
hops with a number; older and newer with a duration. A letter must meet all of them.`

// inspection is one call of dlq inspect.
type inspection struct {
	cmd     *cobra.Command
	format  outputFormat
	filter  redrive.Filter
	letters bool
	sums    redrive.Summary
	err     error // of writing
}

func (i *inspection) run(at dlqPlace, topics []string) error {
	ctx, stop := signal.NotifyContext(i.cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var err error
	if len(topics) == 0 {
		if topics, err = deadLetterTopics(ctx, at); err != nil {
			return interrupted(err, "")
		}
	}
	count := newCounter(i.cmd, "records read:")
	err = redrive.Read(ctx, at.opts, topics, i.record, count.progress)
	count.end()
	switch {
	case err != nil:
		return interrupted(err, "")
	case i.err != nil:
		return i.err
	case i.letters:
		return nil
	}
	return i.print(topics)
}

func (i *inspection) record(r *kgo.Record) {
	l, is, chosen := redrive.Inspect(r, i.filter, time.Now())
	if !chosen {
		return
	}
	i.sums.Add(l, is)
	if !i.letters || !is || i.err != nil {
		return
	}
	if i.format == formatJSON {
		i.err = writeJSON(i.cmd.OutOrStdout(), l)
		return
	}
	_, err := fmt.Fprintf(i.cmd.OutOrStdout(), "%s/%d/%d\t%s/%d/%d\t%s\t%s\t%s\t%s\n", l.DLQ, l.Partition, l.Offset, l.Topic, l.SourcePartition,
		l.SourceOffset, l.Group, l.Reason, l.Time.Format(time.RFC3339), l.Payload)
	if err != nil {
		i.err = failed(err)
	}
}

func (i *inspection) print(topics []string) error {
	out := i.cmd.OutOrStdout()
	rows := i.sums.Rows()
	if i.format == formatJSON {
		for _, r := range rows {
			if err := writeJSON(out, r); err != nil {
				return err
			}
		}
		return nil
	}
	if len(rows) == 0 {
		fmt.Fprintf(out, "no dead letters in %s\n", strings.Join(topics, ", "))
	} else {
		table(out, rows)
	}
	if n := i.sums.Others; n > 0 {
		fmt.Fprintf(out, "%d records are no dead letters\n", n)
	}
	return nil
}

func table(out io.Writer, rows []redrive.Row) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DEAD-LETTER TOPIC\tFROM\tGROUP\tREASON\tPAYLOAD\tLETTERS\tIDS\tBYTES\tHOPS\tOLDEST\tNEWEST")
	now := time.Now()
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\n", r.DLQ, dash(r.Topic), dash(r.Group), dash(r.Reason), dash(r.Payload), r.Letters, r.IDs,
			r.Bytes, r.MaxHops, age(now, r.Oldest), age(now, r.Newest))
	}
	w.Flush()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// age is how long ago it was, in the largest unit that says enough.
func age(now, then time.Time) string {
	d := now.Sub(then)
	switch {
	case then.IsZero():
		return "-"
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}
