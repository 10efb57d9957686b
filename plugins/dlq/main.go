// Command dlq is the stock policy of that name as a plugin. Its spool is in the directory of the flag -state, which no other process may have;
// without one the policy's on_failure must not want a spool.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/ackproxy/ackproxy/plugins/sdk"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/dlq"
)

func main() {
	state := flag.String("state", "", "the `DIRECTORY` of the spool")
	flag.Parse()
	sdk.Serve(func(config []byte) (policy.Policy, error) {
		return dlq.New(context.Background(), "dlq", config, dlq.Deps{StateDir: *state, Notify: func(text string) { fmt.Fprintln(os.Stderr, text) }})
	})
}
