package demo

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// column is one column of a table.
type column struct {
	title string
	right bool // numbers
	width int  // at least
}

// table builds lines from cells: a head, a rule, and the rows. Columns are as wide as they need to be.
func table(columns []column, rows []line, g glyphs) []line {
	widths := make([]int, len(columns))
	head := make(line, len(columns))
	for i, c := range columns {
		head[i] = piece{dim, c.title}
		widths[i] = max(c.width, utf8.RuneCountInString(c.title))
		for _, r := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i].text))
		}
	}
	rules := make([]string, len(widths))
	for i, w := range widths {
		rules[i] = strings.Repeat(g.across, w)
	}
	lines := []line{tableRow(columns, widths, head, g), {piece{dim, " " + strings.Join(rules, g.across+g.cross+g.across)}}}
	for _, r := range rows {
		lines = append(lines, tableRow(columns, widths, r, g))
	}
	return lines
}

func tableRow(columns []column, widths []int, cells line, g glyphs) line {
	l := line{text(" ")}
	for i, c := range cells {
		if i > 0 {
			l = append(l, piece{dim, " " + g.down + " "})
		}
		gap := text(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)))
		if columns[i].right {
			l = append(l, gap, c)
		} else {
			l = append(l, c, gap)
		}
	}
	return l
}

var (
	carriers = []string{"share_fetch", "share_acknowledge"}
	kinds    = []string{"accept", "release", "reject"}
)

// ackTable is the table of acknowledgements, by group, topic, carrier, type and verdict. rate adds a column; nil leaves it out. bars is how
// long the bars of another one may be; 0 leaves it out.
func ackTable(counts map[row]int64, rate func(row) float64, bars int, g glyphs) []line {
	columns := []column{{title: "group"}, {title: "topic"}, {title: "carrier"}, {title: "type"}, {title: "verdict"},
		{title: "records", right: true, width: 9}}
	if rate != nil {
		columns = append(columns, column{title: "/s", right: true, width: 6})
	}
	top := int64(1)
	if bars > 0 {
		columns = append(columns, column{width: bars})
		top = max(top, slices.Max(append(slices.Collect(maps.Values(counts)), 0)))
	}
	var lines []line
	var last row
	for _, r := range tableRows(counts) {
		l := line{text(r.group), {bold, r.topic}, {cyan, r.carrier}, {kindStyle(r.kind), r.kind}, {verdictStyle(r.verdict), r.verdict},
			count(counts[r])}
		same := []bool{r.group == last.group, r.topic == last.topic, r.carrier == last.carrier}
		for i := 0; i < len(same) && same[i]; i++ {
			l[i].text = "" // as above
		}
		if rate != nil {
			l = append(l, count(int64(rate(r)+0.5)))
		}
		if bars > 0 {
			l = append(l, piece{kindStyle(r.kind), strings.Repeat(g.full, int((counts[r]*int64(bars)+top-1)/top))})
		}
		lines = append(lines, l)
		last = r
	}
	return table(columns, lines, g)
}

// tableRows is what is shown: the usual rows from the beginning, so that the table keeps its shape, and whatever else there is.
func tableRows(counts map[row]int64) []row {
	all := map[row]bool{}
	for _, topic := range topicNames {
		for _, carrier := range carriers {
			for _, kind := range kinds {
				all[row{group, topic, carrier, kind, "accepted"}] = true
			}
		}
	}
	for r := range counts {
		all[r] = true
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b row) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.topic, b.topic), order(carriers, a.carrier, b.carrier), order(kinds, a.kind, b.kind),
			cmp.Compare(a.verdict, b.verdict))
	})
}

// order compares by place in list; what is not in it comes last.
func order(list []string, a, b string) int {
	return cmp.Or(cmp.Compare(uint(slices.Index(list, a)), uint(slices.Index(list, b))), cmp.Compare(a, b))
}

func kindStyle(kind string) style {
	switch kind {
	case "accept":
		return green
	case "release":
		return yellow
	case "reject":
		return red
	}
	return alarm
}

func verdictStyle(verdict string) style {
	if verdict == "accepted" {
		return plain
	}
	return alarm
}

// count is a number in a table; nothing is shown as such.
func count(n int64) piece {
	if n == 0 {
		return piece{dim, "-"}
	}
	return text(itoa(n))
}

// itoa writes a number with commas between thousands.
func itoa(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
