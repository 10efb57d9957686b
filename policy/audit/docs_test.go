package audit

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/ackproxy/ackproxy/policy"
)

// document is the page that describes the log.
func document(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDocumentedLine: the example of the page is a line of the log, as far as it shows one.
func TestDocumentedLine(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(document(t), -1)
	if len(blocks) != 1 {
		t.Fatalf("%d examples, want 1", len(blocks))
	}
	var want, got map[string]any
	if err := json.Unmarshal([]byte(blocks[0][1]), &want); err != nil {
		t.Fatal(err)
	}
	lines, _ := audit(t, both(four(t, 0)))
	if err := json.Unmarshal([]byte(lines[1]), &got); err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{"type", "ack", "verdict", "policy"} {
		if want[member] == nil || !reflect.DeepEqual(got[member], want[member]) {
			t.Errorf("%s is %v, the page says %v", member, got[member], want[member])
		}
	}
	if len(want) != 4 {
		t.Errorf("the example has %d members, of which 4 are compared", len(want))
	}
}

// TestDocumentedWords: the page has every word that a verdict or an element of policy can consist of.
func TestDocumentedWords(t *testing.T) {
	text := document(t)
	words := append(stateNames[:], "answered_by", "answer", "delay", "close", "failed", "omitted", "closed_by_policy", "connection_ended",
		"reply_lost", "reply_unreadable", "reply_not_seen", "ackproxy_policy_edits_total")
	words = append(append(append(words, policy.FailForward.String(), policy.FailRespond.String(), policy.FailClose.String()), editNames[:]...), closeNames[1:]...)
	for _, w := range words {
		if !strings.Contains(text, "`"+w+"`") && !strings.Contains(text, "."+w+"`") {
			t.Errorf("the page does not name %q", w)
		}
	}
}
