package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ackproxy/ackproxy/bench/internal/stats"
)

// Table writes the report for people.
func (r *Report) Table(w io.Writer) {
	fmt.Fprintf(w, "commit %s, %s, %s\n", r.Commit, r.Go, r.Started.Format("2006-01-02 15:04"))
	fmt.Fprintf(w, "%d × %s, %d MiB, Linux %s; load averages before: %s\n", r.Machine.Processors, r.Machine.Processor, r.Machine.MemoryMiB,
		r.Machine.Kernel, r.Machine.LoadBefore)
	fmt.Fprintf(w, "medians of %d rounds; ± is half of the range\n", r.Rounds)
	for _, p := range r.Peers {
		fmt.Fprintf(w, "  %-14s %s\n", p.Name, joined(p.Title, p.Version, p.Note))
	}
	for _, m := range r.Missing {
		fmt.Fprintf(w, "  %-14s LEFT OUT: %s\n", m.Name, m.Why)
	}
	for _, load := range r.Workloads {
		fmt.Fprintf(w, "\n%s (%s)\n", load.Title, load.Name)
		r.workload(w, load)
	}
	if len(r.Findings) > 0 {
		fmt.Fprintln(w, "\nabout the measurement")
		for _, f := range r.Findings {
			fmt.Fprintln(w, "  "+f)
		}
	}
}

func (r *Report) workload(w io.Writer, load Workload) {
	rows := [][]string{{""}}
	for _, m := range load.Show {
		rows[0] = append(rows[0], m.Head(), "")
	}
	for _, p := range r.Peers {
		row := []string{p.Name}
		for _, m := range load.Show {
			xs := r.Figures(p.Name, load.Name, m)
			row = append(row, m.Text(stats.Median(xs)), spread(xs))
		}
		rows = append(rows, row)
	}
	write(w, rows)
	for _, p := range r.Peers {
		for _, c := range r.Cells {
			if c.Peer != p.Name || c.Workload != load.Name {
				continue
			}
			for _, e := range c.Errors {
				fmt.Fprintf(w, "  FAILED: %s: %s\n", p.Name, e)
			}
		}
	}
}

// write aligns: names to the left, the rest to the right.
func write(w io.Writer, rows [][]string) {
	var width []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, c := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			switch {
			case i == 0:
				b.WriteString("  " + c + pad)
			case strings.HasPrefix(c, "±"):
				b.WriteString(" " + c + pad)
			case c == "" && width[i] > 0:
				b.WriteString(" " + pad)
			case c != "":
				b.WriteString("  " + pad + c)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

func spread(xs []float64) string {
	s := stats.Spread(xs)
	if math.IsNaN(s) {
		return ""
	}
	return fmt.Sprintf("±%.0f%%", s)
}

// number writes v with thousands separated; "-" when there is none.
func number(v float64, digits int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	s := strconv.FormatFloat(math.Abs(v), 'f', digits, 64)
	whole, fraction, _ := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if v < 0 && strings.Trim(s, "0.") != "" {
		return "-" + whole
	}
	return whole
}

func joined(parts ...string) string {
	var all []string
	for _, p := range parts {
		if p != "" {
			all = append(all, p)
		}
	}
	return strings.Join(all, "; ")
}
