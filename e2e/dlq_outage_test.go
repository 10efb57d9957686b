package e2e

import (
	"os"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/e2e/deadletter/outage"
	"github.com/ackproxy/ackproxy/e2e/kafka"
)

// TestDeadLetterOutage: the broker of the dead-letter topics is killed while clients of three libraries, on both carriers, reject last
// deliveries. No record is lost, none is altered, and the source does not notice.
func TestDeadLetterOutage(t *testing.T) {
	away := 6 * time.Second
	if s := os.Getenv("E2E_DLQ_OUTAGE"); s != "" {
		var err error
		if away, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	source := cluster(t, kafka.Versions[0], 1)
	letters, err := kafka.Boot(t.Context(), kafka.Options{Version: kafka.Versions[0], Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := letters.Close(); err != nil {
			t.Error(err)
		}
	}()
	r, err := outage.Run(t.Context(), outage.Options{Source: source, Letters: letters, Name: t.Name(), Dir: dir(t), Before: time.Second,
		Away: away, Rejects: 30, Every: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	for group, gap := range r.Gaps {
		t.Logf("%s: at most %v between two Accepts before the outage, %v in it", group, r.GapsBefore[group].Round(time.Millisecond), gap.Round(time.Millisecond))
	}
	if !r.OK() {
		t.Error("not as it must be")
	}
}
