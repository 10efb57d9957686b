package demo

import (
	"context"
	"io"
	"os"
	"strings"
	"time"
)

// drawEvery is how often the screen is drawn.
const drawEvery = 200 * time.Millisecond

// style is how a piece of text looks.
type style string

// Styles, as terminals know them.
const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
	alarm  style = "1;31"
)

// piece is text of one style, and a line is several beside each other.
type (
	piece struct {
		style style
		text  string
	}
	line []piece
)

func text(s string) piece { return piece{plain, s} }

// glyphs are what pictures are made of. All but the arrow are one column wide.
type glyphs struct {
	across, down, cross string
	full, empty         string
	levels              []string // of a chart, lowest first
	arrow, dash, dot    string
}

var (
	boxGlyphs = glyphs{across: "─", down: "│", cross: "┼", full: "█", empty: "░", levels: strings.Split("▁▂▃▄▅▆▇█", ""),
		arrow: "→", dash: "–", dot: "·"}
	asciiGlyphs = glyphs{across: "-", down: "|", cross: "+", full: "#", empty: ".", levels: strings.Split("_.-=*#", ""),
		arrow: "->", dash: "-", dot: "-"}
)

// look is what a writer can show.
type look struct {
	color bool
	glyphs
}

// Screen is a terminal on which the demo is drawn, over and over in the same place.
type Screen struct {
	w     io.Writer
	size  func() (columns, rows int)
	look  look
	drawn int // lines that the cursor is below the place
}

// NewScreen draws on a terminal. getenv is asked for NO_COLOR and for the locale: box characters are drawn where it is UTF-8.
func NewScreen(terminal *os.File, getenv func(string) string) *Screen {
	return &Screen{w: terminal, size: func() (int, int) { return terminalSize(terminal) }, look: lookOf(true, getenv)}
}

func lookOf(terminal bool, getenv func(string) string) look {
	l := look{color: terminal && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb", glyphs: asciiGlyphs}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToUpper(getenv(name)); v != "" {
			if strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8") {
				l.glyphs = boxGlyphs
			}
			break
		}
	}
	return l
}

// follow draws frames until ctx ends, then wipes the last one.
func (s *Screen) follow(ctx context.Context, frame func(columns, rows int, l look) []line) {
	io.WriteString(s.w, "\x1b[?25l")
	for {
		columns, rows := s.size()
		s.draw(frame(columns-1, rows-1, s.look), columns-1, rows-1)
		if !sleep(ctx, drawEvery) {
			break
		}
	}
	s.draw(nil, 0, 0)
	io.WriteString(s.w, "\x1b[?25h")
}

// draw replaces what was drawn last, with one write, so that it does not flicker.
func (s *Screen) draw(lines []line, columns, rows int) {
	var b strings.Builder
	if s.drawn > 0 {
		b.WriteString("\r\x1b[" + itoa(int64(s.drawn)) + "A")
	}
	lines = lines[:min(len(lines), max(rows, 0))]
	for _, l := range lines {
		b.WriteString(l.render(s.look.color, columns))
		b.WriteString("\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	s.drawn = len(lines)
	io.WriteString(s.w, b.String())
}

// render is the line with its styles, cut off at columns.
func (l line) render(color bool, columns int) string {
	var b strings.Builder
	for _, p := range l {
		t := []rune(p.text)
		t = t[:min(len(t), columns)]
		columns -= len(t)
		if len(t) == 0 {
			continue
		}
		if color && p.style != plain {
			b.WriteString("\x1b[" + string(p.style) + "m" + string(t) + "\x1b[0m")
		} else {
			b.WriteString(string(t))
		}
	}
	return b.String()
}
