package main

import (
	"bytes"
	"errors"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/rs/zerolog"
)

func TestLimitMemory(t *testing.T) {
	failing := func(err error) memlimit.Provider { return func() (uint64, error) { return 0, err } }
	for name, c := range map[string]struct {
		cgroup memlimit.Provider
		user   string // GOMEMLIMIT; the runtime has read it
		want   int64
		says   string // in the log; empty: nothing
	}{
		"cgroup":          {memlimit.Limit(1000 << 20), "", 900 << 20, `"bytes":943718400,"from":"cgroup"`},
		"no limit":        {failing(memlimit.ErrNoLimit), "", math.MaxInt64, ""},
		"no cgroup":       {failing(memlimit.ErrNoCgroup), "", math.MaxInt64, ""},
		"no Linux":        {failing(memlimit.ErrCgroupsNotSupported), "", math.MaxInt64, ""},
		"cannot be read":  {failing(errors.New("a torn file")), "", math.MaxInt64, "a torn file"},
		"GOMEMLIMIT":      {memlimit.Limit(1000 << 20), "700MiB", 700 << 20, `"bytes":734003200,"from":"GOMEMLIMIT"`},
		"GOMEMLIMIT: off": {memlimit.Limit(1000 << 20), "off", math.MaxInt64, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(memoryVariable, c.user)
			before := c.want
			if c.user == "" {
				os.Unsetenv(memoryVariable)
				before = math.MaxInt64
			}
			defer debug.SetMemoryLimit(debug.SetMemoryLimit(before))
			var log bytes.Buffer
			limitMemory(c.cgroup, zerolog.New(&log))
			if got := debug.SetMemoryLimit(-1); got != c.want {
				t.Errorf("the limit is %d, want %d", got, c.want)
			}
			if !strings.Contains(log.String(), c.says) || (c.says == "") != (log.Len() == 0) {
				t.Errorf("logged: %s", log.String())
			}
		})
	}
}
