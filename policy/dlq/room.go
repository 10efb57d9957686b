package dlq

import (
	"context"
	"sync"
)

// room bounds the bytes of all letters that are being worked on. Those that wait get room in the order they came.
type room struct {
	mu      sync.Mutex
	size    int64
	free    int64
	waiting []*claim
}

type claim struct {
	n     int64
	ready chan struct{}
}

func newRoom(size int64) *room { return &room{size: size, free: size} }

// take waits for n bytes, or for all there is where n is more, and returns what give is to get back. It fails when ctx ends first.
func (r *room) take(ctx context.Context, n int64) (int64, error) {
	n = min(n, r.size)
	r.mu.Lock()
	if len(r.waiting) == 0 && r.free >= n {
		r.free -= n
		r.mu.Unlock()
		return n, nil
	}
	c := &claim{n, make(chan struct{})}
	r.waiting = append(r.waiting, c)
	r.mu.Unlock()
	select {
	case <-c.ready:
		return n, nil
	case <-ctx.Done():
		return r.giveUp(ctx, c)
	}
}

func (r *room) giveUp(ctx context.Context, c *claim) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, other := range r.waiting {
		if other == c {
			r.waiting = append(r.waiting[:i], r.waiting[i+1:]...)
			r.grant() // those behind it may need less
			return 0, ctx.Err()
		}
	}
	return c.n, nil // granted meanwhile
}

// give returns what take gave.
func (r *room) give(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free += n
	r.grant()
}

func (r *room) grant() {
	for len(r.waiting) > 0 && r.waiting[0].n <= r.free {
		r.free -= r.waiting[0].n
		close(r.waiting[0].ready)
		r.waiting = r.waiting[1:]
	}
}

// used is how many bytes are taken.
func (r *room) used() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.size - r.free
}
