package dlq

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestReasons(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "reasons.sock")
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix",
			socket)
	}}}
	defer client.CloseIdleConnections()
	post := func(kind, body string, status int) {
		t.Helper()
		answer, err := client.Post("http://reasons/v1/reasons", kind, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != status {
			t.Errorf("%.80s: status %d", body, answer.StatusCode)
		}
	}
	r := newRig(t)
	r.start(map[string]any{"reasons": map[string]any{"listen": socket, "keep": 2}})
	r.keep(4)
	const kind = "application/json"
	post(kind, `{"group": "g1", "topic": "orders", "partition": 1, "offset": 0, "reason": "forgotten: two are kept"}`, 204)
	post(kind, `{"group": "g1", "topic": "orders", "partition": 1, "offset": 1, "reason": "no such customer"}`, 204)
	post(kind, `{"group": "g1", "topic": "`+r.topic.String()+`", "partition": 1, "offset": 2, "reason": "by id"}`, 204)
	post(kind, `{"group": "g1", "topic": "orders", "partition": 1, "reason": "no offset"}`, 400)
	post(kind, `{"group": "g1", "topic": "orders", "partition": 1, "offset": 1, "reason": "`+strings.Repeat("x", maxReason+1)+`"}`, 400)
	post(kind, `{"group": "`+strings.Repeat("x", maxReasonBody)+`"}`, 400)
	post(kind, `{"other": 1}`, 400)
	post("text/plain", `{"group": "g1", "topic": "orders", "partition": 1, "offset": 1, "reason": "from a web page"}`, 415)

	r.decide(r.request(1, reject(0, 2)))
	want := []string{"Offset rejected by client.", "no such customer", "by id"}
	for i, l := range r.letters("dlq.orders", 3) {
		if got := header(l, "__dlq.errors.message"); got != want[i] {
			t.Errorf("letter %d: %q instead of %q", i, got, want[i])
		}
	}
}

// TestReasonsOfOthers leaves alone a socket that somebody listens to, and takes over one that was left behind.
func TestReasonsOfOthers(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "reasons.sock")
	first, err := newReasons(&Reasons{Listen: socket, Keep: 1})
	if err != nil {
		t.Fatal(err)
	}
	if second, err := newReasons(&Reasons{Listen: socket, Keep: 1}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second one listens, too: %v", err)
		second.close()
	}
	if err := first.close(); err != nil {
		t.Error(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	third, err := newReasons(&Reasons{Listen: socket, Keep: 1})
	if err != nil {
		t.Fatal(err)
	}
	third.close()
}
