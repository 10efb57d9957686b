package dlq

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/policy"
)

func TestCheck(t *testing.T) {
	r := newRig(t)
	dead := map[string]any{"bootstrap": []string{"127.0.0.1:1"}}
	for name, c := range map[string]struct {
		further map[string]any
		keys    string
	}{
		"good":           {map[string]any{"topic": "dlq.orders", "source": r.address()}, ""},
		"a template":     {map[string]any{"topic": "dlq.{topic}"}, ""},
		"no topic":       {map[string]any{"topic": "dlq.missing"}, "topic"},
		"made if needed": {map[string]any{"topic": "dlq.missing", "create": map[string]any{}}, ""},
		"down":           {map[string]any{"source": dead, "clusters": map[string]any{"east": dead}}, "clusters.east source"},
		"rules": {map[string]any{"rules": []any{map[string]any{"match": map[string]any{"group": "a"}, "topic": "dlq.missing"},
			map[string]any{"match": map[string]any{"group": "b"}, "topic": "dlq.orders"}}}, "rules[0].topic"},
	} {
		config := map[string]any{"cluster": r.address()}
		for k, v := range c.further {
			config[k] = v
		}
		text, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err = parsed.Check(ctx)
		cancel()
		var keys []string
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, one := range joined.Unwrap() {
				var mistake *policy.ConfigError
				if errors.As(one, &mistake) {
					keys = append(keys, mistake.Key)
				}
			}
		}
		slices.Sort(keys)
		if got := strings.Join(keys, " "); got != c.keys {
			t.Errorf("%s: %v", name, err)
		}
	}
}
