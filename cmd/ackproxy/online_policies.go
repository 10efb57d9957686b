package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/ackproxy/ackproxy/cmd/ackproxy/internal/config"
	"github.com/ackproxy/ackproxy/policy/dlq"
)

// policyReport is what the clusters of one policy say about its configuration.
type policyReport struct {
	Policy   string   `json:"policy"`
	Problems []string `json:"problems"`
	Notes    []string `json:"notes,omitempty"` // what could not be checked
}

// policyTime bounds how long the clusters of one policy are asked.
const policyTime = 30 * time.Second

// askPolicies asks the clusters of each dead-letter policy what it needs of them.
func askPolicies(ctx context.Context, c config.Config) (all []policyReport) {
	for i, p := range c.Policies {
		if p.Builtin != "dlq" {
			continue
		}
		r := policyReport{Policy: p.Name, Problems: []string{}}
		parsed, err := dlq.Parse(p.Config)
		var notes []error
		if err == nil {
			limited, cancel := context.WithTimeout(ctx, policyTime)
			notes, err = parsed.Check(limited)
			cancel()
		}
		for _, m := range config.Mistakes(err) {
			r.Problems = append(r.Problems, fmt.Sprintf("policies[%d].config.%v", i, m))
		}
		for _, n := range notes {
			r.Notes = append(r.Notes, fmt.Sprintf("policies[%d].config.%v", i, n))
		}
		slices.Sort(r.Problems)
		all = append(all, r)
	}
	return all
}

func (r *policyReport) print(w io.Writer) {
	if len(r.Problems) == 0 {
		fmt.Fprintf(w, "policy %s: its clusters can be reached\n", r.Policy)
	} else {
		fmt.Fprintf(w, "policy %s:\n", r.Policy)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "  note: %s\n", n)
	}
	for _, p := range r.Problems {
		fmt.Fprintf(w, "  problem: %s\n", p)
	}
}
