package demo

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// rateOver is the time that rates are taken over.
	rateOver = 2 * time.Second
	// chartLength is how many samples the chart shows.
	chartLength = 40
	// tableWidth is what the table needs beside its bars, in columns.
	tableWidth = 81
)

// sample is the table's counts at a moment.
type sample struct {
	at    time.Time
	rows  map[row]int64
	total int64
}

// history is what rates and the chart are made from: the samples of the last rateOver, and the acknowledgements of each frame.
type history struct {
	samples []sample
	chart   []int64
}

func (h *history) add(s sample) {
	if n := len(h.samples); n > 0 {
		h.chart = append(h.chart, s.total-h.samples[n-1].total)
		h.chart = h.chart[max(0, len(h.chart)-chartLength):]
	}
	h.samples = append(h.samples, s)
	for len(h.samples) > 2 && s.at.Sub(h.samples[1].at) >= rateOver {
		h.samples = h.samples[1:]
	}
}

// rate is records a second over the samples; of tells what to count in one.
func (h *history) rate(of func(sample) int64) float64 {
	first, last := h.samples[0], h.samples[len(h.samples)-1]
	if s := last.at.Sub(first.at).Seconds(); s > 0 {
		return float64(of(last)-of(first)) / s
	}
	return 0
}

// picture draws the chart.
func (h *history) picture(g glyphs) string {
	top := max(1, slices.Max(append(h.chart, 0)))
	var b strings.Builder
	for _, n := range h.chart {
		b.WriteString(g.levels[n*int64(len(g.levels)-1)/top])
	}
	return b.String()
}

// frame is what the screen shows now. The table comes first; what else there is has to make do with the rest of the rows.
func (d *demo) frame(columns, rows int, l look) []line {
	now, s := time.Now(), d.tally.snapshot()
	d.history.add(sample{now, s.rows, s.audited()})
	lines := d.heading(now, l)
	lines = append(lines, d.progress(&s, columns, l)...)
	lines = append(lines, line{})
	rate := func(r row) float64 { return d.history.rate(func(s sample) int64 { return s.rows[r] }) }
	lines = append(lines, ackTable(s.rows, rate, max(0, min(columns-tableWidth, 20)), l.glyphs)...)
	lines = append(lines, line{}, d.comparison(&s, l), memberLine(&s, l))
	if room := rows - len(lines) - 2; room > 0 && len(s.events) > 0 {
		lines = append(lines, line{}, line{piece{dim, " latest acknowledgements"}})
		for _, e := range s.events[max(0, len(s.events)-min(room, 8)):] {
			lines = append(lines, eventLine(e, l.glyphs))
		}
	}
	return lines
}

func (d *demo) heading(now time.Time, l look) []line {
	end := "Ctrl-C ends"
	if d.Once {
		end = "ends when all is settled"
	}
	dot := " " + l.dot + " "
	return []line{
		{text(" "), {bold, "ackproxy demo"}, {dim, dot + now.Sub(d.began).Truncate(time.Second).String() + dot + "seed " + fmt.Sprint(d.Seed) + dot + end}},
		{text(fmt.Sprintf(" %d members %s ", d.Members, l.arrow)), {bold, "ackproxy " + d.stage.server.Addr()},
			text(fmt.Sprintf(" %s %d embedded brokers", l.arrow, d.Brokers))},
	}
}

// progress says how far it is: a bar where there is an end, the chart otherwise.
func (d *demo) progress(s *snapshot, columns int, l look) []line {
	settled := int64(0)
	for _, c := range s.byMember {
		settled += c.Accept + c.Reject
	}
	produced := d.producer.produced.Load()
	numbers := line{text(fmt.Sprintf(" %s produced %s %s delivered %s %s settled", itoa(produced), l.dot, itoa(s.deliveries), l.dot, itoa(settled)))}
	rate := fmt.Sprintf(" %s acknowledgements/s ", itoa(int64(d.history.rate(func(s sample) int64 { return s.total }))))
	chart := line{{bold, rate}, {green, d.history.picture(l.glyphs)}}
	if d.Records == 0 {
		return []line{numbers, chart}
	}
	width := min(columns-8, 60)
	full := int(min(settled, d.Records) * int64(width) / d.Records)
	bar := line{text(" "), {green, strings.Repeat(l.full, max(0, full))}, {dim, strings.Repeat(l.empty, max(0, width-full))},
		text(fmt.Sprintf(" %d%%", settled*100/d.Records))}
	return []line{numbers, bar, chart}
}

// comparison says how the two sides stand.
func (d *demo) comparison(s *snapshot, l look) line {
	said := int64(0)
	for _, c := range s.byMember {
		said += c.sum()
	}
	dot := " " + l.dot + " "
	escapes := d.stage.lookout.escapes()
	leaked := piece{green, "no address leaked"}
	if escapes > 0 {
		leaked = piece{alarm, itoa(escapes) + " addresses leaked"}
	}
	return line{text(" members say "), {bold, itoa(said)}, text(dot + "audit says "), {bold, itoa(s.audited())},
		{dim, dot + itoa(s.waiting) + " on the way" + dot}, leaked}
}

func memberLine(s *snapshot, l look) line {
	out := line{}
	for i, name := range slices.Sorted(maps.Keys(s.byMember)) {
		c := s.byMember[name]
		if i > 0 {
			out = append(out, piece{dim, " " + l.dot})
		}
		out = append(out, text(" "+name+" "), piece{green, itoa(c.Accept)}, text("/"), piece{yellow, itoa(c.Release)}, text("/"),
			piece{red, itoa(c.Reject)})
	}
	return out
}

func eventLine(e event, g glyphs) line {
	where := fmt.Sprintf("%s/%d %d", e.topic, e.partition, e.first)
	if e.last > e.first {
		where += fmt.Sprintf("%s%d", g.dash, e.last)
	}
	return line{{dim, " " + e.at.Local().Format("15:04:05.000") + " "}, text(fmt.Sprintf("%-9s ", e.member)),
		{kindStyle(e.kind), fmt.Sprintf("%-7s ", e.kind)}, text(fmt.Sprintf("%-21s ", where)), {cyan, fmt.Sprintf("%-17s ", e.carrier)},
		{verdictStyle(e.verdict), e.verdict}, {dim, fmt.Sprintf(" %.2f ms", e.tookMs)}}
}
