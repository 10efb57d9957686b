//go:build unix

package main

import (
	"io"
	"testing"

	"github.com/ackproxy/ackproxy/plugins/internal/plugintest"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/policytest"
)

func TestPolicy(t *testing.T) {
	spec := plugintest.Build(t, "github.com/ackproxy/ackproxy/plugins/audit")
	spec.TopicName = policytest.TopicName
	policytest.Audit(t, func(t *testing.T, config string) (policy.Observer, io.Closer, error) {
		p, err := plugintest.Start(t, spec, config)
		return p, p, err
	})
}
