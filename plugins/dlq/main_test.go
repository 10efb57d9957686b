//go:build unix

package main

import (
	"io"
	"strings"
	"testing"

	"github.com/ackproxy/ackproxy/plugins/internal/plugintest"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/policytest"
)

func TestPolicy(t *testing.T) {
	spec := plugintest.Build(t, "github.com/ackproxy/ackproxy/plugins/dlq")
	policytest.DeadLetters(t, func(t *testing.T, config, state string) (policy.Policy, io.Closer, error) {
		spec := spec
		if state != "" {
			spec.Args = []string{"-state", state}
		}
		p, err := plugintest.Start(t, spec, config)
		if err == nil && (!p.Decides() || !p.Observes() || !p.Traits().Records || !p.Traits().Waits) {
			t.Errorf("decides %v, observes %v, traits %+v", p.Decides(), p.Observes(), p.Traits())
		}
		return p, p, err
	})
}

// The protocol of plugins has no call for the end of a transaction.
func TestTransactionsAreRefused(t *testing.T) {
	spec := plugintest.Build(t, "github.com/ackproxy/ackproxy/plugins/dlq")
	_, err := plugintest.Start(t, spec, `{"cluster": {"bootstrap": ["k:1"]}, "on_failure": ["withhold"], "transactions": "queue"}`)
	if err == nil || !strings.Contains(err.Error(), "transactions: the policy does not see here how a transaction ends") {
		t.Errorf("%v", err)
	}
}

// Nor has it one for deliveries, which are what is inferred from.
func TestInferIsRefused(t *testing.T) {
	spec := plugintest.Build(t, "github.com/ackproxy/ackproxy/plugins/dlq")
	_, err := plugintest.Start(t, spec, `{"cluster": {"bootstrap": ["k:1"]}, "source": {"bootstrap": ["k:1"]}, "on_failure": ["withhold"], "infer": true}`)
	if err == nil || !strings.Contains(err.Error(), "infer: the policy does not see deliveries here (leave it out, or run it as builtin: dlq and not as a plugin)") {
		t.Errorf("%v", err)
	}
}
