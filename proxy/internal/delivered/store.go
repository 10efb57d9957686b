// Package delivered keeps what brokers delivered to members of share groups, as it was seen passing by: which offsets, how often, until
// when their locks last, and, where that is asked for, the records. Policies look there.
//
// It is a cache. What it does not know it never knew, or has let go of to stay within its bounds; what it knows may be behind the broker's
// state, as when a lock ran out. A member is known on all connections: clients may fetch on one and acknowledge on another (KIP-932 ties
// sessions to the connection that opened them, acknowledgements to none).
package delivered

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/ackproxy/ackproxy/codec"
)

// The bounds of a store. Brokers let a member hold a few thousand offsets of a partition.
const (
	maxMembers    = 1 << 16
	maxPartitions = 1 << 16 // of all members together
	maxSpans      = 1 << 19 // of all partitions together
	MaxRanges     = 1 << 13 // of one partition
	maxKey        = 1 << 10 // bytes of a group id and a member id together
)

// slack is how long after the end of a lock a delivery is forgotten. Until then an acknowledgement may be under way.
const slack = time.Minute

// Partition names a partition.
type Partition struct {
	Topic codec.UUID
	Index int32
}

// Store is what was delivered to all members. Many goroutines may use it at once.
type Store struct {
	mu         sync.Mutex
	members    *simplelru.LRU[name, *Member]
	partitions *simplelru.LRU[*holding, struct{}]
	spans      int
	blobs      *simplelru.LRU[*blob, struct{}]
	bytes      int64 // of blobs
	maxBytes   int64
	spare      []span // what the last change of a partition worked in
	now        func() time.Time
}

// holding is what is known of one partition of a member. The store's lock guards it.
type holding struct {
	member    *Member
	partition Partition
	spans     []span // ascending and disjoint
}

// span is a run of offsets that was delivered in one answer and has had one fate since.
type span struct {
	first, last int64
	count       int16
	acquired    time.Time
	until       time.Time     // zero: unknown
	lock        time.Duration // how long a lock lasts; 0: unknown
	broker      string
	records     *blob // nil: not kept
}

// over says whether the lock has run out for so long that the delivery is of no interest.
func (s *span) over(now time.Time) bool { return !s.until.IsZero() && now.Sub(s.until) > slack }

// New returns a store that keeps records of at most so many bytes, and with 0 none.
func New(keepRecords int64) *Store {
	s := &Store{maxBytes: keepRecords, now: time.Now}
	s.members, _ = simplelru.NewLRU(maxMembers, func(_ name, m *Member) {
		for _, h := range m.holdings {
			s.partitions.Remove(h)
		}
		m.sessions = nil
	})
	s.partitions, _ = simplelru.NewLRU(maxPartitions, func(h *holding, _ struct{}) {
		delete(h.member.holdings, h.partition)
		s.replace(h, nil)
	})
	const many = 1 << 30 // it is their bytes that are bounded
	s.blobs, _ = simplelru.NewLRU(many, func(b *blob, _ struct{}) { s.drop(b) })
	return s
}

// KeepsRecords says whether the store keeps records.
func (s *Store) KeepsRecords() bool { return s.maxBytes > 0 }

// Member returns what is known of a member, to ask it and to tell it more. It is nil where its name is null, or too long to keep.
func (s *Store) Member(group, member []byte) *Member {
	if group == nil || member == nil || len(group)+len(member) > maxKey {
		return nil
	}
	n := name{string(group), string(member)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.members.Get(n); ok {
		return m
	}
	return &Member{store: s, name: n} // it is entered once there is something to know
}

// current is what the store has under m's name: another one where m was never entered, or has been pushed out meanwhile. The caller holds s.mu.
func (s *Store) current(m *Member) *Member {
	if now, ok := s.members.Get(m.name); ok {
		return now
	}
	return m
}

// entered is current, and enters m where there is none.
func (s *Store) entered(m *Member) *Member {
	now := s.current(m)
	if !s.members.Contains(m.name) {
		s.members.Add(m.name, now)
	}
	return now
}

// replace gives a partition other spans, and counts them and what they refer to. spans stay the caller's.
func (s *Store) replace(h *holding, spans []span) {
	for i := range spans {
		if b := spans[i].records; b != nil {
			b.spans++
		}
	}
	for i := range h.spans {
		b := h.spans[i].records
		if b == nil {
			continue
		}
		if b.spans--; b.spans == 0 {
			s.blobs.Remove(b)
		}
	}
	s.spans += len(spans) - len(h.spans)
	old := h.spans
	h.spans = append(h.spans[:0], spans...)
	if len(spans) < len(old) {
		clear(old[len(spans):]) // they refer to records
	}
}

// change lets edit say what becomes of each span, cut to the offsets of pieces, which are ascending and disjoint; others stay. A partition of
// which nothing is left leaves. The caller holds s.mu.
func (s *Store) change(h *holding, pieces []offsets, edit func(*span, offsets) (stays bool)) {
	s.spare = carve(s.spare[:0], h.spans, pieces, edit)
	s.settle(h)
}

// settle takes over what is in s.spare.
func (s *Store) settle(h *holding) {
	s.replace(h, s.spare)
	clear(s.spare)
	if len(h.spans) == 0 {
		s.partitions.Remove(h)
	}
}

// Size is how many runs of offsets are known, and how many bytes of records are kept.
func (s *Store) Size() (spans int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spans, s.bytes
}
