package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/policy/dlq"
	"github.com/ackproxy/ackproxy/policy/dlq/redrive"
)

func newInspectCmd() *cobra.Command {
	var flags dlqFlags
	var format outputFormat
	var topics, terms []string
	var letters bool
	var spool string
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "What is in dead-letter topics and in the spool: by source, group, reason and age",
		Long: `Read dead-letter topics from their beginning to their present end and count what is in them: by source topic, group, reason and
payload, with the age of the oldest and the newest. With --letters each is printed instead. Keys and values are never shown.

With -c the policy's spool is read as well, where it is on this machine: letters that could not be produced yet, and "refused" ones, which no topic
will take. They are shown also when no broker answers; the exit status is 1 then. --spool DIR reads that of another state directory, STATE/dlq-NAME,
and without -c and --bootstrap nothing else. A running proxy is not disturbed. Of what the configuration names only the credentials of the cluster
have to be on this machine.

Exit status: 0 all was read, also where there is no dead-letter topic yet; 1 something could not be read; 2 the call or the configuration is wrong.

Letters of other tools are counted as well, as far as their headers can be read: a broker's (KIP-1191), Spring Kafka's, Kafka Connect's.
` + filterHelp,
		Example: `  ackproxy dlq inspect -c ackproxy.yaml
  ackproxy dlq inspect --bootstrap localhost:9092 --topic dlq.orders --filter newer=1h --letters -o json
  ackproxy dlq inspect --spool /var/lib/ackproxy/dlq-dlq`,
		Args: cobra.NoArgs,
	}
	flags.add(cmd)
	format.flag(cmd)
	cmd.Flags().StringSliceVar(&topics, "topic", nil,
		"a dead-letter `TOPIC`; may be repeated (default all whose names begin with the policy's allowed_prefix, if it has one)")
	cmd.Flags().StringArrayVar(&terms, "filter", nil, "only letters with `KEY=VALUE`; may be repeated")
	cmd.Flags().StringVar(&spool, "spool", "", "the `DIR` of a spool")
	cmd.Flags().BoolVar(&letters, "letters", false, "print each letter")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f, err := redrive.ParseFilter(terms)
		if err != nil {
			return misused("%w", err)
		}
		i := &inspection{cmd: cmd, format: format, filter: f, letters: letters, topics: topics, cluster: flags.cluster}
		if spool != "" && len(flags.bootstrap) == 0 && *flags.file == "" {
			if flags.policy != "" || flags.cluster != "" {
				return misused("--policy and --cluster belong to a configuration")
			}
			return i.run(dlqPlace{}, spool)
		}
		at, err := flags.place(cmd)
		if err != nil {
			return err
		}
		if at.prefix == "" && len(topics) == 0 { // which would be to read all that the cluster has
			return misused("--topic is missing: the policy's allowed_prefix is empty, so that any topic might have dead letters")
		}
		return i.run(at, spool)
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
	topics  []string // those that are meant; none: all
	cluster string   // as well, of the letters in a spool
	none    string   // why there is no topic to read
	sums    redrive.Summary
	err     error // of writing
}

// run reads the spool and the topics: where one cannot be read, the other is what there is to see.
func (i *inspection) run(at dlqPlace, spool string) error {
	err := i.spooled(spool, at.spool)
	if at.opts != nil {
		err = errors.Join(err, i.produced(at))
	}
	if i.err == nil && !i.letters {
		i.err = i.print(err == nil)
	}
	if i.err != nil || err == nil {
		return i.err
	}
	return failed(err)
}

// spooled reads the spool that is named, else that of the configuration, if there is one.
func (i *inspection) spooled(named, configured string) error {
	dir := cmp.Or(named, configured)
	if dir == "" {
		return nil
	}
	unreadable, err := dlq.ReadSpool(dir, func(w *dlq.Waiting) {
		if i.cluster != "" && i.cluster != w.Cluster || len(i.topics) > 0 && !slices.Contains(i.topics, w.Topic) {
			return
		}
		r := &kgo.Record{Topic: w.Topic, Partition: -1, Offset: -1, Timestamp: w.Since, Key: w.Key, Value: w.Value}
		for _, h := range w.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader(h))
		}
		l, is, chosen := redrive.Inspect(r, i.filter, time.Now())
		l.Where, l.Cluster, l.Refused = redrive.InSpool, w.Cluster, w.Refused
		i.take(&l, is, chosen)
	})
	i.sums.Others += unreadable
	if errors.Is(err, fs.ErrNotExist) && named == "" { // it was never needed, or is on another machine
		if _, err := os.Stat(filepath.Dir(dir)); errors.Is(err, fs.ErrNotExist) { // where a proxy has run there is its state
			i.cmd.PrintErrf("no spool was looked into: there is no state.dir %s here (--spool names one)\n", filepath.Dir(dir))
		}
		return nil
	}
	if err != nil {
		return failed(err)
	}
	return nil
}

// produced reads the topics.
func (i *inspection) produced(at dlqPlace) (err error) {
	ctx, stop := signal.NotifyContext(i.cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if len(i.topics) == 0 {
		if i.topics, err = deadLetterTopics(ctx, at); err != nil {
			return interrupted(err, "")
		}
		if len(i.topics) == 0 {
			i.none = fmt.Sprintf("there is no topic yet whose name begins with %q, or none that may be seen", at.prefix)
			return nil
		}
	}
	count := newCounter(i.cmd, "records read:")
	err = redrive.Read(ctx, at.opts, i.topics, func(r *kgo.Record) {
		l, is, chosen := redrive.Inspect(r, i.filter, time.Now())
		i.take(&l, is, chosen)
	}, count.progress)
	count.end()
	if err != nil {
		return interrupted(err, "")
	}
	return nil
}

// take counts what is chosen, and prints it where that is wanted.
func (i *inspection) take(l *redrive.Letter, is, chosen bool) {
	if !chosen {
		return
	}
	i.sums.Add(*l, is)
	if !i.letters || !is || i.err != nil {
		return
	}
	if i.format == formatJSON {
		i.err = writeJSON(i.cmd.OutOrStdout(), l)
		return
	}
	at := fmt.Sprintf("%d/%d", l.Partition, l.Offset)
	if l.Where == redrive.InSpool {
		at = where(l.Where, l.Cluster, l.Refused)
	}
	_, err := fmt.Fprintf(i.cmd.OutOrStdout(), "%s/%s\t%s/%d/%d\t%s\t%s\t%s\t%s\n", l.DLQ, at, l.Topic, l.SourcePartition, l.SourceOffset, l.Group, l.Reason,
		l.Time.Format(time.RFC3339), l.Payload)
	if err != nil {
		i.err = failed(err)
	}
}

// where is a place in words: "topic", "spool", "spool (refused, for archive)".
func where(w redrive.Where, cluster string, refused bool) string {
	var more []string
	if refused {
		more = append(more, "refused")
	}
	if cluster != "" {
		more = append(more, "for "+cluster)
	}
	if len(more) == 0 {
		return string(w)
	}
	return fmt.Sprintf("%s (%s)", w, strings.Join(more, ", "))
}

// print says that there is nothing only where all was read.
func (i *inspection) print(all bool) error {
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
	switch {
	case len(rows) > 0:
		table(out, rows)
	case all && i.none != "":
		fmt.Fprintf(out, "no dead letters: %s\n", i.none)
	case all:
		fmt.Fprintf(out, "no dead letters in %s\n", cmp.Or(strings.Join(i.topics, ", "), "the spool"))
	}
	if n := i.sums.Others; n > 0 {
		fmt.Fprintf(out, "%d records are no dead letters\n", n)
	}
	return nil
}

func table(out io.Writer, rows []redrive.Row) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DEAD-LETTER TOPIC\tWHERE\tFROM\tGROUP\tREASON\tPAYLOAD\tLETTERS\tIDS\tBYTES\tHOPS\tOLDEST\tNEWEST")
	now := time.Now()
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\n", r.DLQ, where(r.Where, r.Cluster, r.Refused), dash(r.Topic), dash(r.Group),
			dash(r.Reason), dash(r.Payload), r.Letters, r.IDs, r.Bytes, r.MaxHops, age(now, r.Oldest), age(now, r.Newest))
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
