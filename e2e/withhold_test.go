package e2e

import (
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/e2e/kafka"
	"github.com/ackproxy/ackproxy/e2e/withhold"
)

// TestWithhold is a short run of make withhold: a policy withholds any part of any acknowledgement of three client libraries, whose members
// leave and come back.
func TestWithhold(t *testing.T) {
	r, err := withhold.Run(t.Context(), withhold.Options{
		Cluster: cluster(t, kafka.Versions[0], 1), Name: t.Name(), Dir: dir(t), Time: 15 * time.Second, Stay: 4 * time.Second, Seed: 7,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s; %s", r, r.Detail)
	for _, w := range r.Wrong {
		t.Error(w)
	}
	if !r.OK() {
		t.Error("not as it must be: ", r)
	}
}
