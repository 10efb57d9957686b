package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
)

// elements reads an SVG and counts its elements; every number in an x, y, width or height attribute must lie within the drawing.
func elements(t *testing.T, svg []byte) map[string]int {
	t.Helper()
	n := map[string]int{}
	d := xml.NewDecoder(bytes.NewReader(svg))
	height := 0.0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		n[e.Name.Local]++
		for _, a := range e.Attr {
			v, err := strconv.ParseFloat(a.Value, 64)
			if err != nil {
				continue
			}
			if e.Name.Local == "svg" && a.Name.Local == "height" {
				height = v
			}
			limit := map[string]float64{"x": width, "width": width, "y": height, "height": height}[a.Name.Local]
			if limit > 0 && (v < 0 || v > limit) {
				t.Errorf("%s: %s is %v, outside of the drawing", e.Name.Local, a.Name.Local, v)
			}
		}
	}
}

func TestBars(t *testing.T) {
	panels := []Panel{
		{Title: "requests <a> second", Groups: []string{"1", "16"}, Series: []Series{
			{Name: "direct", Values: [][]float64{{100, 120, 90}, {5000}}},
			{Name: "haproxy & co", Values: [][]float64{{}, {2500, 2400}}}}},
		{Title: "MB/s", Groups: []string{"fetch"}, Series: []Series{{Name: "haproxy & co", Values: [][]float64{{7.5}}}}},
		{Title: "nothing was measured", Groups: []string{"a"}},
	}
	var b bytes.Buffer
	if err := Bars(&b, "title", "one\ntwo", panels); err != nil {
		t.Fatal(err)
	}
	n := elements(t, b.Bytes())
	const background, legend, bars = 1, 2, 4
	if n["svg"] != 1 || n["rect"] != background+legend+bars || n["title"] != bars {
		t.Errorf("%v", n)
	}
	for _, want := range []string{"requests &lt;a&gt; second", "haproxy &amp; co, 16: 2.45k (2.4k to 2.5k)", "direct, 1: 100 (90 to 120)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in it", want)
		}
	}
}

func TestLines(t *testing.T) {
	var b bytes.Buffer
	traces := []Trace{{Name: "resident", X: []float64{0, 10, 20}, Y: []float64{12, 15, 14.5}}, {Name: "empty"}}
	if err := Lines(&b, "soak", "", "minutes", "MiB", traces); err != nil {
		t.Fatal(err)
	}
	if n := elements(t, b.Bytes()); n["title"] != 1 || n["svg"] != 1 {
		t.Errorf("%v", n)
	}
	if strings.Count(b.String(), "stroke-width") != 1 {
		t.Error("not one line")
	}
}

func TestScaleAndNumbers(t *testing.T) {
	for _, c := range []struct{ most, step, top float64 }{{100, 20, 100}, {130_000, 20_000, 140_000}, {7.5, 1, 8}, {41, 10, 50}, {0, 1, 1}, {.3, .05, .3}} {
		step, top := scale(c.most)
		if diff := step/c.step + top/c.top - 2; diff > 1e-9 || diff < -1e-9 {
			t.Errorf("scale of %v: %v, %v; want %v, %v", c.most, step, top, c.step, c.top)
		}
	}
	for v, want := range map[float64]string{0: "0", 5: "5", 12.34: "12.3", 123.4: "123", 1234: "1.23k", 120_000: "120k", 2.5e6: "2.5M", .0301: "0.0301"} {
		if got := short(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}
