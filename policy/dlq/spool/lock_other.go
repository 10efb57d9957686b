//go:build !unix

package spool

import (
	"errors"
	"os"
)

// lockPath refuses: nothing here keeps two processes from one spool.
func lockPath(string) (*os.File, error) {
	return nil, errors.ErrUnsupported
}
