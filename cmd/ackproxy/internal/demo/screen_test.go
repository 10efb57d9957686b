package demo

import (
	"strings"
	"testing"
	"time"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for _, p := range pairs {
			if v, ok := strings.CutPrefix(p, name+"="); ok {
				return v
			}
		}
		return ""
	}
}

func TestLook(t *testing.T) {
	for _, c := range []struct {
		terminal, color, box bool
		env                  []string
	}{
		{true, true, true, []string{"LANG=en_US.UTF-8"}},
		{true, true, false, []string{"LANG=en_US.UTF-8", "LC_ALL=C"}},
		{true, true, true, []string{"LC_ALL=C.utf8"}},
		{true, false, true, []string{"LANG=C.UTF-8", "NO_COLOR=1"}},
		{true, false, false, []string{"TERM=dumb"}},
		{false, false, true, []string{"LANG=C.UTF-8"}},
	} {
		l := lookOf(c.terminal, env(c.env...))
		if l.color != c.color || (l.across == boxGlyphs.across) != c.box {
			t.Errorf("%v: color %v, %q", c.env, l.color, l.across)
		}
	}
}

func TestScreenStaysInPlace(t *testing.T) {
	var b strings.Builder
	s := &Screen{w: &b}
	s.draw([]line{{text("one")}, {text("two and more")}, {text("three")}}, 7, 2)
	if want := "one\x1b[K\ntwo and\x1b[K\n\x1b[J"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	b.Reset()
	s.draw(nil, 0, 0)
	if want := "\r\x1b[2A\x1b[J"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestColorTakesNoRoom(t *testing.T) {
	l := line{{green, "abc"}, text("def"), {red, "ghi"}}
	if got, want := l.render(true, 5), "\x1b[32mabc\x1b[0mde"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := l.render(false, 100); got != "abcdefghi" {
		t.Errorf("%q", got)
	}
}

// The table keeps its shape while it fills, fits in 80 columns, and shows rows that were not foreseen.
func TestTable(t *testing.T) {
	none := ackTable(nil, func(row) float64 { return 0 }, 0, boxGlyphs)
	some := ackTable(map[row]int64{
		{group, "orders", "share_fetch", "accept", "accepted"}: 1234567,
		{group, "orders", "share_fetch", "accept", "refused"}:  2,
	}, func(row) float64 { return 12345 }, 0, boxGlyphs)
	if len(some) != len(none)+1 {
		t.Errorf("%d and %d lines", len(none), len(some))
	}
	width := len([]rune(none[0].render(false, 1000)))
	for _, l := range append(none, some...) {
		if n := len([]rune(l.render(false, 1000))); n > 79 || n != width {
			t.Errorf("%d columns, not %d: %s", n, width, l.render(false, 1000))
		}
	}
	first := some[2].render(false, 100) + some[3].render(false, 100)
	for _, want := range []string{"1,234,567", "refused", "12,345"} {
		if !strings.Contains(first, want) {
			t.Errorf("no %s in %s", want, first)
		}
	}
}

func TestRates(t *testing.T) {
	var h history
	at := time.Unix(0, 0)
	for i := range int64(100) {
		h.add(sample{at: at.Add(time.Duration(i) * drawEvery), total: i * 20})
	}
	if r := h.rate(func(s sample) int64 { return s.total }); r < 99 || r > 101 {
		t.Errorf("%v a second, 100 wanted", r)
	}
	if len(h.samples) > 12 || len(h.chart) != chartLength {
		t.Errorf("%d samples and %d columns kept", len(h.samples), len(h.chart))
	}
	if p := h.picture(asciiGlyphs); p != strings.Repeat("#", chartLength) {
		t.Errorf("%q", p)
	}
}

// The screen shows a run: what is drawn last before it is wiped holds the comparison.
func TestScreenShowsARun(t *testing.T) {
	var b strings.Builder
	s := &Screen{w: &b, size: func() (int, int) { return 120, 40 }, look: look{glyphs: boxGlyphs}}
	perform(t, Options{Records: 300, Members: 2, Brokers: 1, Once: true, Screen: s})
	for _, want := range []string{"\x1b[?25l", "ackproxy demo", "share_acknowledge", "members say", "\x1b[?25h"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("never drawn: %q", want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := itoa(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
