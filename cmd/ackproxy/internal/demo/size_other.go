//go:build !unix

package demo

import "os"

// terminalSize is the usual size: this system has no simple way to ask.
func terminalSize(*os.File) (columns, rows int) { return 80, 24 }
