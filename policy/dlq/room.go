package dlq

import (
	"context"
	"sync"
	"sync/atomic"
)

// room bounds bytes of memory. Those that wait get room in the order they came.
type room struct {
	mu      sync.Mutex
	size    int64
	free    int64 // below 0 after add
	waiting []*claim
}

type claim struct {
	n     int64
	ready chan struct{}
}

func newRoom(size int64) *room { return &room{size: size, free: size} }

// try takes n bytes, or all there is where n is more, unless it would have to wait. It returns what give is to get back.
func (r *room) try(n int64) (taken int64, ok bool) {
	n = min(n, r.size)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) > 0 || r.free < n {
		return 0, false
	}
	r.free -= n
	return n, true
}

// take is try, and waits. It fails when ctx ends first.
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

// add takes n bytes that are in use already, whether there is room or not. Others wait the longer for it.
func (r *room) add(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free -= n
}

// give returns what try, take and add took.
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

// hold is room for a letter, which its request, a client of Kafka and the spool may have in use at a time. It is given back when nobody has. The
// zero hold is no room.
type hold struct {
	room  *room
	n     int64
	users atomic.Int32
}

// try takes room for one user, unless that would have to wait.
func (h *hold) try(r *room, n int64) bool {
	n, ok := r.try(n)
	if ok {
		h.begin(r, n)
	}
	return ok
}

// take waits for room for one user.
func (h *hold) take(ctx context.Context, r *room, n int64) error {
	n, err := r.take(ctx, n)
	if err == nil {
		h.begin(r, n)
	}
	return err
}

func (h *hold) begin(r *room, n int64) {
	h.room, h.n = r, n
	h.users.Store(1)
}

// use adds a user. The caller is one.
func (h *hold) use() { h.users.Add(1) }

// end is a user's last call.
func (h *hold) end() {
	if h.users.Add(-1) == 0 && h.room != nil {
		h.room.give(h.n)
	}
}
