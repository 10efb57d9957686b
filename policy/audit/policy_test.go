package audit_test

import (
	"io"
	"testing"

	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/audit"
	"github.com/ackproxy/ackproxy/policy/policytest"
)

func TestPolicy(t *testing.T) {
	policytest.Audit(t, func(_ *testing.T, config string) (policy.Observer, io.Closer, error) {
		f, err := audit.OpenFiles([]byte(config), audit.Config{TopicName: policytest.TopicName})
		return f, f, err
	})
}
