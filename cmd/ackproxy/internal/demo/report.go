package demo

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// Report is what a Result does not hold: for people.
type Report struct {
	Played  bool // records were produced, and there is a Result
	Members int
	Took    time.Duration
	Notes   []string // what went wrong on the way
	rows    map[row]int64
}

func (d *demo) report() Report {
	s := d.tally.snapshot()
	d.notes.mu.Lock()
	defer d.notes.mu.Unlock()
	d.tally.mu.Lock()
	defer d.tally.mu.Unlock()
	return Report{Members: len(d.members), Took: time.Since(d.began), Notes: slices.Concat(d.notes.list, d.tally.problems), rows: s.rows}
}

// WriteText writes a summary that can be read. getenv is asked as in NewScreen.
func (r Result) WriteText(w io.Writer, rep Report, terminal bool, getenv func(string) string) error {
	l := lookOf(terminal, getenv)
	lines := []line{{text(fmt.Sprintf(" %s records, delivered %s times to %d members in %s", itoa(r.Records), itoa(r.Deliveries), rep.Members,
		rep.Took.Round(100*time.Millisecond)))}, {}}
	lines = append(lines, ackTable(rep.rows, nil, 0, l.glyphs)...)
	lines = append(lines, line{})
	lines = append(lines, table([]column{{}, {title: "accept", right: true}, {title: "release", right: true}, {title: "reject", right: true}},
		[]line{typesLine("members say", r.Client), typesLine("audit says", r.Acks)}, l.glyphs)...)
	lines = append(lines, line{},
		finding(r.Unaudited, "acknowledgements of members that the audit lacks"),
		finding(r.Invented, "acknowledgements in the audit that no member made"),
		finding(r.Escapes, "broker addresses that reached a client"),
		finding(r.Verdicts.Unknown, "acknowledgements without the broker's verdict"),
		line{text(fmt.Sprintf(" %6s refused by the broker", itoa(r.Verdicts.Refused)))}, line{})
	if r.Match {
		lines = append(lines, line{{green, " The audit matches what the members did, record by record."}})
	} else {
		lines = append(lines, line{{alarm, " The audit does not match what the members did."}})
	}
	for _, each := range lines {
		if _, err := fmt.Fprintln(w, each.render(l.color, 1<<20)); err != nil {
			return err
		}
	}
	return nil
}

func typesLine(who string, c Types) line {
	return line{text(who), count(c.Accept), count(c.Release), count(c.Reject)}
}

// finding is a number that ought to be 0.
func finding(n int64, of string) line {
	s := plain
	if n > 0 {
		s = alarm
	}
	return line{{s, fmt.Sprintf(" %6s %s", itoa(n), of)}}
}
