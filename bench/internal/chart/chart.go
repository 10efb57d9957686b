// Package chart draws the benchmark's figures as SVG: groups of bars with their spread, and a line over time. Nothing but text is needed
// to show them.
package chart

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/ackproxy/ackproxy/bench/internal/stats"
)

// Series is one contender's bars in a panel, or its colour in the legend.
type Series struct {
	Name   string
	Color  string      // empty: one of the palette
	Values [][]float64 // for each group the figures of all rounds; empty: no bar
}

// Panel is one diagram.
type Panel struct {
	Title, Note string
	Groups      []string
	Series      []Series
}

const (
	width, panelHeight     = 900, 250
	gap, margin            = 40, 20
	rowGap                 = 16
	panelWidth             = (width - 2*margin - gap) / 2
	axisLeft, axisBottom   = 52, 36
	titleHeight, legendRow = 34, 20
)

// palette can be told apart by people who do not see all colours.
var palette = []string{"#9aa0a6", "#56b4e9", "#0072b2", "#cc79a7", "#e69f00", "#d55e00", "#f0a070", "#009e73", "#7fc9b5"}

// Bars draws panels, two in a row, below a title and one legend for all.
func Bars(w io.Writer, title, subtitle string, panels []Panel) error {
	var c canvas
	legend := legendOf(panels)
	top := c.header(title, subtitle, legend)
	rows := (len(panels) + 1) / 2
	height := top + rows*(panelHeight+rowGap)
	for i, p := range panels {
		c.panel(p, legend, margin+i%2*(panelWidth+gap), top+i/2*(panelHeight+rowGap))
	}
	return c.write(w, height)
}

// legendOf is every series once, in the order of their first appearance, with its colour.
func legendOf(panels []Panel) (all []Series) {
	for _, p := range panels {
		for _, s := range p.Series {
			if !slices.ContainsFunc(all, func(o Series) bool { return o.Name == s.Name }) {
				if s.Color == "" {
					s.Color = palette[len(all)%len(palette)]
				}
				all = append(all, s)
			}
		}
	}
	return all
}

// canvas collects elements.
type canvas struct{ strings.Builder }

func (c *canvas) write(w io.Writer, height int) error {
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="Helvetica,Arial,sans-serif" font-size="11" fill="#333">
<rect width="100%%" height="100%%" fill="#fff"/>
%s</svg>
`, width, height, width, height, c.String())
	return err
}

func (c *canvas) text(x, y float64, anchor, attributes, s string) {
	fmt.Fprintf(c, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>%s</text>\n", x, y, anchor, attributes, escape(s))
}

func (c *canvas) line(x1, y1, x2, y2 float64, color string) {
	fmt.Fprintf(c, "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2, color)
}

// header draws title, subtitle and legend, and returns where the rest begins.
func (c *canvas) header(title, subtitle string, legend []Series) int {
	c.text(margin, 28, "start", ` font-size="17" font-weight="bold"`, title)
	y := 46
	for line := range strings.SplitSeq(subtitle, "\n") {
		c.text(margin, float64(y), "start", ` fill="#666"`, line)
		y += 15
	}
	y += 6
	x := margin
	for _, s := range legend {
		w := 24 + 7*len(s.Name)
		if x+w > width-margin {
			x, y = margin, y+legendRow
		}
		fmt.Fprintf(c, "<rect x=\"%d\" y=\"%d\" width=\"11\" height=\"11\" fill=\"%s\"/>\n", x, y, s.Color)
		c.text(float64(x+16), float64(y+10), "start", "", s.Name)
		x += w + 8
	}
	return y + legendRow + 16
}

func (c *canvas) panel(p Panel, legend []Series, x, y int) {
	c.text(float64(x), float64(y+12), "start", ` font-size="13" font-weight="bold"`, p.Title)
	c.text(float64(x), float64(y+27), "start", ` fill="#666"`, p.Note)
	left, right := float64(x+axisLeft), float64(x+panelWidth)
	top, bottom := float64(y+titleHeight), float64(y+panelHeight-axisBottom)
	step, most := scale(p.most())
	clip := func(v float64) float64 { return min(v, most) }
	at := func(v float64) float64 { return bottom - (bottom-top)*clip(v)/most }
	for v := 0.0; v <= most*1.0001; v += step {
		c.line(left, at(v), right, at(v), "#ddd")
		c.text(left-5, at(v)+4, "end", "", short(v))
	}
	slot := (right - left) / float64(max(len(p.Groups), 1))
	bar := slot * .86 / float64(max(len(p.Series), 1))
	for g, name := range p.Groups {
		start := left + slot*(float64(g)+.07)
		c.text(left+slot*(float64(g)+.5), bottom+15, "middle", "", name)
		for i, s := range p.Series {
			if g < len(s.Values) && len(s.Values[g]) > 0 {
				color := legend[slices.IndexFunc(legend, func(o Series) bool { return o.Name == s.Name })].Color
				c.bar(start+bar*float64(i), bar, s.Values[g], at, color, s.Name+", "+name)
			}
		}
	}
}

// bar is a median with a whisker from the least to the most, and a tooltip.
func (c *canvas) bar(x, w float64, values []float64, at func(float64) float64, color, name string) {
	m, low, high := stats.Median(values), slices.Min(values), slices.Max(values)
	fmt.Fprintf(c, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"><title>%s: %s (%s to %s)</title></rect>\n", x, at(m),
		max(w-1, 1), max(at(0)-at(m), .5), color, escape(name), short(m), short(low), short(high))
	if high > low {
		c.line(x+(w-1)/2, at(low), x+(w-1)/2, at(high), "#333")
	}
}

// most is what the axis must reach: the highest bar and a little more. A whisker that goes beyond is cut, so that one bad round does not
// flatten all bars.
func (p Panel) most() (most float64) {
	for _, s := range p.Series {
		for _, values := range s.Values {
			if len(values) > 0 {
				most = max(most, min(stats.Median(values)*1.15, slices.Max(values)))
			}
		}
	}
	return most
}

// scale chooses steps of 1, 2 or 5 times a power of ten, four to ten of them, that reach most.
func scale(most float64) (step, top float64) {
	if most <= 0 {
		return 1, 1
	}
	step = math.Pow(10, math.Floor(math.Log10(most)))
	for _, part := range []float64{1, .5, .2} {
		if s := step * part; most/s >= 3.2 || part == .2 {
			return s, math.Ceil(most/s) * s
		}
	}
	return step, most
}

// short writes a number in at most four characters or so: 1.2k, 34k, 5M.
func short(v float64) string {
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= unit.of {
			return digits(v/unit.of) + unit.name
		}
	}
	return digits(v)
}

// digits keeps three of them, and no more than are there.
func digits(v float64) string {
	d := 0
	for limit := 100.0; math.Abs(v) < limit && d < 4 && v != 0; limit /= 10 {
		d++
	}
	s := fmt.Sprintf("%.*f", d, v)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}
