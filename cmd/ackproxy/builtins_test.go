package main

import (
	"fmt"
	"strings"
	"testing"
)

// A time for decisions in which no letter can be written is a mistake, and not a Release of each Reject.
func TestTimeoutOfDeadLetters(t *testing.T) {
	for timeout, good := range map[string]bool{"100ms": false, "999ms": false, "1s": true, "0s": true} {
		file := configFile(t, fmt.Sprintf("policies:\n  - {name: dead, builtin: dlq, timeout: %s, config: {cluster: {bootstrap: [\"k:1\"]}, "+
			"on_failure: [withhold]}}\n", timeout))
		r := inProcess(t, "validate", "-c", file)
		want := file + ":2:41: policies[0].timeout: " + timeout + " is too short for a decision of dlq (write 1s or more, or leave it out)\n"
		if good {
			want = ""
		}
		if strings.Contains(r.out, "timeout") == good || !good && r.out != want {
			t.Errorf("%s: status %d\n%s%s\nwant\n%s", timeout, r.status, r.out, r.err, want)
		}
	}
}
