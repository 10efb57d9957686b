//go:build unix

package demo

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalSize is the terminal's size in characters, or the usual one where it does not say.
func terminalSize(f *os.File) (columns, rows int) {
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || w.Col == 0 || w.Row == 0 {
		return 80, 24
	}
	return int(w.Col), int(w.Row)
}
