package withhold

import (
	"fmt"
	"time"
)

// spread is the least and the most of some times.
type spread struct {
	n           int
	least, most time.Duration
}

func (s *spread) add(d time.Duration) {
	if s.n++; s.n == 1 || d < s.least {
		s.least = d
	}
	s.most = max(s.most, d)
}

// String shows both.
func (s *spread) String() string {
	return fmt.Sprintf("%d after %v to %v", s.n, s.least.Round(time.Millisecond), s.most.Round(time.Millisecond))
}
