package endpoints_test

import (
	"errors"
	"testing"

	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/endpoints"
	"github.com/ackproxy/ackproxy/policy/policytest"
)

func TestPolicy(t *testing.T) {
	policytest.Endpoints(t, func(_ *testing.T, config string) (policy.EndpointPolicy, error) {
		return endpoints.New("in process", []byte(config))
	})
}

// Every mistake names its key, for whoever knows where that stands in a file.
func TestConfigErrors(t *testing.T) {
	_, err := endpoints.New("x", []byte(`{"rules": [{"advertise": "a b"}, {"match": {"client": "x"}}]}`))
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 2 {
		t.Fatalf("%v", err)
	}
	for i, key := range []string{"rules[0].advertise", "rules[1].match.client[0]"} {
		var one *policy.ConfigError
		if !errors.As(joined.Unwrap()[i], &one) || one.Key != key {
			t.Errorf("%v, want %s", joined.Unwrap()[i], key)
		}
	}
}
