package dlq

import "github.com/ackproxy/ackproxy/policy"

type lastDeliveries struct{}

func newLastDeliveries(*Policy) *lastDeliveries { return &lastDeliveries{} }

func (*lastDeliveries) acknowledged(*policy.Outcome, *policy.Decided, *policy.Piece, string) {}
