package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// progress tells a person at a terminal what goes on, and everybody what went wrong.
type progress struct{ terminal, dirty bool }

func newProgress() *progress {
	_, err := unix.IoctlGetTermios(int(os.Stderr.Fd()), unix.TCGETS)
	return &progress{terminal: err == nil}
}

// now replaces the line that says what goes on. Nothing is shown where there is no terminal.
func (p *progress) now(format string, args ...any) {
	if p.terminal {
		fmt.Fprintf(os.Stderr, "\r\x1b[K"+format, args...)
		p.dirty = true
	}
}

// loud prints a line that stays.
func (p *progress) loud(format string, args ...any) {
	p.done()
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}

// done removes the line that says what goes on.
func (p *progress) done() {
	if p.dirty {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
		p.dirty = false
	}
}
