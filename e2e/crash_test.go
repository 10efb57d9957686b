package e2e

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/e2e/crash"
	"github.com/ackproxy/ackproxy/e2e/kafka"
)

// The program is killed while it writes dead letters. Whatever the moment, the broker gets no Reject whose dead letter is not durable, in the
// topic or in the spool. make crash does it more often, and on a real broker.
func TestKilledBetweenLetterAndReject(t *testing.T) {
	broker, err := crash.NewFake(0.1)
	if err != nil {
		t.Fatal(err)
	}
	o := crash.Options{Broker: broker, Dir: t.TempDir(), Runs: 15, Seed: 1}
	o.Program = filepath.Join(o.Dir, "ackproxy")
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	if err := kafka.Run(ctx, "go", "build", "-buildvcs=false", "-o", o.Program, "github.com/ackproxy/ackproxy/cmd/ackproxy"); err != nil {
		t.Fatal(err)
	}
	r, err := crash.Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("embedded broker: %s; %d unknown, spooled at %d kills", r, r.Unknown, r.Spooled)
	for _, w := range r.Wrong {
		t.Error(w)
	}
	if !r.OK() {
		t.Error(r)
	}
}
