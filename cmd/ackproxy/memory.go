package main

import (
	"errors"
	"math"
	"os"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/rs/zerolog"
)

const (
	memoryShare    = 0.9 // of the cgroup's limit; the rest is for what Go does not count
	memoryVariable = "GOMEMLIMIT"
)

// limitMemory has Go's garbage collector keep the process below the limit of its cgroup, which would kill it, and says so. What the user says in
// GOMEMLIMIT is stronger.
func limitMemory(cgroup memlimit.Provider, log zerolog.Logger) {
	from := "cgroup"
	if os.Getenv(memoryVariable) != "" {
		from = memoryVariable
	}
	limit, err := memlimit.Set(memlimit.WithProvider(cgroup), memlimit.WithRatio(memoryShare))
	switch {
	case errors.Is(err, memlimit.ErrCgroupsNotSupported), errors.Is(err, memlimit.ErrNoCgroup):
	case err != nil:
		log.Warn().Err(err).Msg("the memory limit of the cgroup cannot be read")
	case limit != math.MaxInt64:
		log.Info().Int64("bytes", limit).Str("from", from).Msg("Go's soft memory limit")
	}
}
