// Command audit is the stock policy of that name as a plugin: a further audit log. It writes to files only, since what a plugin prints is
// ackproxy's own log.
package main

import (
	"fmt"
	"os"

	"github.com/ackproxy/ackproxy/plugins/sdk"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/audit"
)

func main() { sdk.ServeObserver("audit", open) }

func open(config []byte) (policy.Observer, error) {
	return audit.OpenFiles(config, audit.Config{
		TopicName: sdk.TopicName,
		OnError:   func(err error) { fmt.Fprintln(os.Stderr, err) },
	})
}
