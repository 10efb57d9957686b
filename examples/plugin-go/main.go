// Command plugin-go is a plugin of ackproxy: rejected records of one topic are released instead, and so come again. Its configuration is
// {"topic": "orders"}.
package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/ackproxy/ackproxy/plugins/sdk"
	"github.com/ackproxy/ackproxy/policy"
)

type again struct {
	Topic string `json:"topic"`
}

func main() {
	sdk.Serve(func(config []byte) (policy.Policy, error) {
		p := &again{}
		if err := json.Unmarshal(config, p); err != nil {
			return nil, err
		}
		if p.Topic == "" {
			return nil, errors.New("topic is missing")
		}
		return p, nil
	})
}

// Name is what logs call it.
func (p *again) Name() string { return "plugin-go" }

// Traits say that it decides at once, and wants no records.
func (p *again) Traits() policy.Traits { return policy.Traits{} }

// Decide makes each Reject of the topic a Release.
func (p *again) Decide(_ context.Context, r *policy.Request) (v policy.Verdict, err error) {
	for _, partition := range r.Partitions {
		for _, x := range partition.Ranges {
			if partition.Topic == p.Topic && x.Type == policy.Reject {
				v.Edits = append(v.Edits, policy.Edit{
					TopicID: partition.TopicID, Partition: partition.Index, First: x.First, Last: x.Last,
					Type: policy.Release, Reason: "no record of " + p.Topic + " is given up",
				})
			}
		}
	}
	return v, nil
}
