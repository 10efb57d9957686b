package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/rs/zerolog"
)

// What is taken of a plugin's output.
const (
	maxLine    = 4 << 10 // bytes; the rest of a line is dropped
	burstLines = 100     // logged at once
	lineEvery  = 20 * time.Millisecond
	gulp       = 64 << 10 // bytes read while nothing is logged before the reader pauses
	pause      = 5 * time.Millisecond
)

// output logs what a plugin prints, line by line. A plugin that prints more than anybody can read has its lines counted instead, and finds
// its pipe full: it waits, and not we.
type output struct {
	log    zerolog.Logger
	now    func() time.Time
	sleep  func(time.Duration)
	mu     sync.Mutex
	line   []byte
	cut    bool // line is longer than maxLine
	budget int
	filled time.Time // when budget was last added to
	missed int       // lines not logged
	read   int       // bytes since the last pause
	last   string    // line, for whoever explains why the process ended
}

func newOutput(log zerolog.Logger) *output {
	return &output{log: log, now: time.Now, sleep: time.Sleep, budget: burstLines, filled: time.Now()}
}

// Write never fails: nothing that is printed is worth ending anything.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		piece := p
		if end >= 0 {
			piece = p[:end]
		}
		room := maxLine - len(o.line)
		o.cut = o.cut || len(piece) > room
		o.line = append(o.line, piece[:min(len(piece), room)]...)
		if end < 0 {
			break
		}
		o.emit()
		p = p[end+1:]
	}
	if o.read += n; o.read >= gulp {
		o.read = 0
		if o.missed > 0 || o.cut {
			o.sleep(pause)
		}
	}
	return n, nil
}

// flush logs an unfinished line, and how many lines were not logged.
func (o *output) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.line) > 0 {
		o.emit()
	}
	o.confess()
}

// lastLine is the last line that says anything.
func (o *output) lastLine() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

func (o *output) emit() {
	level, text := readLine(o.line)
	if o.cut {
		text += " …"
	}
	o.line, o.cut = o.line[:0], false
	if strings.TrimSpace(text) == "" {
		return
	}
	o.last = text
	now := o.now()
	if add := int(now.Sub(o.filled) / lineEvery); add > 0 {
		o.budget, o.filled = min(burstLines, o.budget+add), now
	}
	if o.budget == 0 {
		o.missed++
		return
	}
	o.budget--
	o.confess()
	o.log.WithLevel(level).Msg(text)
}

func (o *output) confess() {
	if o.missed > 0 {
		o.log.Warn().Int("lines", o.missed).Msg("the plugin printed more than is logged")
		o.missed = 0
	}
}

var levels = map[string]zerolog.Level{
	"trace": zerolog.TraceLevel, "debug": zerolog.DebugLevel, "warn": zerolog.WarnLevel, "error": zerolog.ErrorLevel,
}

// readLine takes a line of hclog's JSON apart; any other is text.
func readLine(line []byte) (zerolog.Level, string) {
	var entry map[string]any
	if json.Unmarshal(line, &entry) != nil {
		return zerolog.InfoLevel, printable(string(line))
	}
	message, ok := entry["@message"].(string)
	if !ok {
		return zerolog.InfoLevel, printable(string(line))
	}
	name, _ := entry["@level"].(string)
	level, ok := levels[strings.ToLower(name)]
	if !ok {
		level = zerolog.InfoLevel
	}
	for _, key := range slices.Sorted(maps.Keys(entry)) {
		if !strings.HasPrefix(key, "@") {
			message += fmt.Sprintf(" %s=%v", key, entry[key])
		}
	}
	return level, printable(message)
}

// printable keeps a plugin from steering the terminal that shows the log.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
