package chart

import (
	"fmt"
	"io"
	"slices"
)

// Trace is one line over time.
type Trace struct {
	Name string
	X, Y []float64
}

// Lines draws traces over one pair of axes, which begin at 0. The labels name the axes.
func Lines(w io.Writer, title, subtitle, labelX, labelY string, traces []Trace) error {
	const plotHeight = 300
	var c canvas
	var legend []Series
	var mostX, mostY float64
	for i, t := range traces {
		legend = append(legend, Series{Name: t.Name, Color: palette[2+i%(len(palette)-2)]})
		if len(t.X) > 0 {
			mostX, mostY = max(mostX, slices.Max(t.X)), max(mostY, slices.Max(t.Y))
		}
	}
	top := c.header(title, subtitle, legend)
	left, right, bottom := float64(margin+axisLeft), float64(width-margin), float64(top+plotHeight)
	stepX, _ := scale(mostX)
	stepY, topY := scale(mostY)
	atX := func(v float64) float64 { return left + (right-left)*v/max(mostX, stepX) }
	atY := func(v float64) float64 { return bottom - plotHeight*v/topY }
	for v := 0.0; v <= topY*1.0001; v += stepY {
		c.line(left, atY(v), right, atY(v), "#ddd")
		c.text(left-5, atY(v)+4, "end", "", short(v))
	}
	for v := 0.0; v <= mostX; v += stepX {
		c.line(atX(v), bottom, atX(v), bottom+4, "#333")
		c.text(atX(v), bottom+17, "middle", "", short(v))
	}
	c.text(left, float64(top-6), "start", ` fill="#666"`, labelY)
	c.text(right, bottom+32, "end", ` fill="#666"`, labelX)
	for i, t := range traces {
		c.trace(t, legend[i].Color, atX, atY)
	}
	return c.write(w, int(bottom)+44)
}

func (c *canvas) trace(t Trace, color string, atX, atY func(float64) float64) {
	if len(t.X) == 0 {
		return
	}
	fmt.Fprintf(c, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" d=\"", color)
	for i := range t.X {
		fmt.Fprintf(c, "%c%.1f %.1f", "ML"[min(i, 1)], atX(t.X[i]), atY(t.Y[i]))
	}
	fmt.Fprintf(c, "\"><title>%s</title></path>\n", escape(t.Name))
}
