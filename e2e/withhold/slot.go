package withhold

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/ackproxy/ackproxy/e2e/client"
)

// slot is a place in a group, which one member after the other takes.
type slot struct {
	*run
	kind   client.Kind
	number int
	group  string
	were   []*client.Client
}

// modes are taken in turn. Only in the first does a client that leaves have acknowledgements left, which ride on the request that closes
// its session.
var modes = []string{client.Explicit, client.ImplicitSync, client.Explicit, client.ExplicitSync, client.Explicit, client.Implicit}

// work has members come and leave until the time is over; the last one stays until all is settled.
func (s *slot) work(ctx context.Context, over, last <-chan struct{}) error {
	for i := 0; ; i++ {
		mode := modes[(i+2*s.number)%len(modes)]
		name := fmt.Sprintf("%s-%d", s.group, i)
		c, err := client.Start(ctx, client.Spec{Kind: s.kind, Bootstrap: s.proxy.Bootstrap, Topic: s.Name, Group: s.group, ID: name, Mode: mode, Seed: i, MaxPoll: 40,
			Renew: true, RecordLimit: i%3 == 2, Log: filepath.Join(s.Dir, name+".log")})
		if err != nil {
			return err
		}
		s.were = append(s.were, c)
		if !s.stays(ctx, c, over) {
			select {
			case <-last:
			case <-ctx.Done():
			}
			return c.Stop()
		}
		if err := c.Stop(); err != nil {
			return err
		}
	}
}

// stays returns true when a member has been there long enough, counted from the first record that it has settled, and false when the time is over.
func (s *slot) stays(ctx context.Context, c *client.Client, over <-chan struct{}) bool {
	tick := time.NewTicker(every)
	defer tick.Stop()
	leave := make(<-chan time.Time)
	for begun := false; ; {
		if !begun && c.Settled() > 0 {
			begun, leave = true, time.After(s.Stay)
		}
		select {
		case <-tick.C:
		case <-leave:
			return true
		case <-over:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
