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

func TestPatternsThatFitNothing(t *testing.T) {
	for text, key := range map[string]string{
		`"listener": "boostrap"`:         "listener[0]",
		`"listener": ["bootstrap", "b"]`: "listener[1]",
		`"listener": "node-*"`:           "listener[0]",
		`"principal": "alice"`:           "principal[0]",
		`"principal": "alice*"`:          "principal[0]",
		`"listener": ["bootstrap", "broker-7", "broker-*", "*", "b*", "broker-1*"], "principal": ["User:alice", "*", "U*", "User:edge-*", "*e", ""]`: "",
	} {
		_, err := endpoints.New("x", []byte(`{"rules": [{"match": {`+text+`}, "advertise": "a"}]}`))
		var one *policy.ConfigError
		switch {
		case key == "":
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
		case !errors.As(err, &one) || one.Key != "rules[0].match."+key:
			t.Errorf("%s: %v, want %s", text, err, key)
		}
	}
}
