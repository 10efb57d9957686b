//go:build unix

package sdk

import (
	"os"
	"syscall"
	"testing"
)

// TestOutlivesSignals: systemd sends SIGTERM to all processes of a service, and ackproxy asks its plugins until it has drained.
func TestOutlivesSignals(t *testing.T) {
	for _, one := range []os.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(one.String(), func(t *testing.T) { endsWithTheHost(t, one) })
	}
}
