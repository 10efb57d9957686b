package proxy

import (
	"fmt"
	"sync/atomic"
	"time"
)

// limits bounds what peers can make us hold.
type limits struct {
	maxFrame      int
	headerTimeout time.Duration
	maxBuffered   int64
	buffered      atomic.Int64 // bytes of frames held whole, and of what unanswered requests keep, all connections together
}

// take reserves n bytes; give returns them.
func (l *limits) take(n int) error {
	if now := l.buffered.Add(int64(n)); now > l.maxBuffered {
		l.buffered.Add(int64(-n))
		return fmt.Errorf("%w: %d bytes wanted, %d of %d in use", errBuffered, n, now-int64(n), l.maxBuffered)
	}
	return nil
}

// try is take for what can do without. It leaves half to those who cannot.
func (l *limits) try(n int) bool {
	for {
		now := l.buffered.Load()
		if now+int64(n) > l.maxBuffered/2 {
			return false
		}
		if l.buffered.CompareAndSwap(now, now+int64(n)) {
			return true
		}
	}
}

// crowded says whether those who can wait should.
func (l *limits) crowded() bool { return l.buffered.Load() > l.maxBuffered/2 }

func (l *limits) give(n int) { l.buffered.Add(int64(-n)) }

// frame checks a size prefix against least and the limit.
func (l *limits) frame(size int32, least int) error {
	switch {
	case int(size) < least:
		return fmt.Errorf("%w: size %d, at least %d expected", errBadFrame, size, least)
	case int(size) > l.maxFrame:
		return fmt.Errorf("%w: size %d, limit %d", errTooLarge, size, l.maxFrame)
	}
	return nil
}
