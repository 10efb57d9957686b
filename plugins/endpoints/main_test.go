//go:build unix

package main

import (
	"testing"

	"github.com/ackproxy/ackproxy/plugins/internal/plugintest"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/policytest"
)

func TestPolicy(t *testing.T) {
	spec := plugintest.Build(t, "github.com/ackproxy/ackproxy/plugins/endpoints")
	policytest.Endpoints(t, func(t *testing.T, config string) (policy.EndpointPolicy, error) {
		p, err := plugintest.Start(t, spec, config)
		if err == nil && (!p.MapsEndpoints() || p.Decides() || p.Observes()) {
			t.Errorf("maps endpoints %v, decides %v, observes %v", p.MapsEndpoints(), p.Decides(), p.Observes())
		}
		return p, err
	})
}
