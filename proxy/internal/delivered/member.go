package delivered

import (
	"slices"
	"time"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// Member is what was delivered to one member of a share group.
type Member struct {
	store *Store
	name
	holdings map[Partition]*holding // the store's lock guards it, and sessions
	sessions []session
}

// name is how a member is found.
type name struct{ group, id string }

// Is says whether m is this member. It is cheaper than to look for it.
func (m *Member) Is(group, member []byte) bool {
	return m.group == string(group) && m.id == string(member) && group != nil && member != nil
}

// Names are the group's id and the member's.
func (m *Member) Names() (group, member string) { return m.group, m.id }

var _ policy.Deliveries = (*Member)(nil)

// session is the share session of a member with a broker.
type session struct {
	broker     string
	connection string // that opened it: the session ends with it
}

// Answer is what one ShareFetch answer delivers.
type Answer struct {
	Broker     string    // the address of who delivered it
	At         time.Time // when it came, with a monotonic reading
	Lock       time.Duration
	Partitions []Delivery
}

// Delivery is what an answer delivers of one partition.
type Delivery struct {
	Partition Partition
	Ranges    []Range // as they came; what is more than MaxRanges may be missing
	Records   []byte  // nil: they are not there to be kept. They are copied.
}

// Range is a run of offsets that was acquired, as an answer says it: First may be above Last.
type Range struct {
	First, Last int64
	Count       int16
}

// Deliver notes what an answer delivers.
func (m *Member) Deliver(a *Answer) {
	like := span{acquired: a.At, lock: a.Lock, broker: a.Broker}
	if a.Lock > 0 {
		like.until = a.At.Add(a.Lock)
	}
	made := make([][]span, len(a.Partitions))
	for i := range a.Partitions { // without the lock: it copies
		d := &a.Partitions[i]
		made[i] = spansOf(d.Ranges, like)
		keep(made[i], d.Records, m.store.maxBytes)
	}
	s := m.store
	s.mu.Lock()
	defer s.mu.Unlock()
	m = s.entered(m)
	for i := range made {
		if len(made[i]) > 0 {
			m.deliver(a.Partitions[i].Partition, made[i], a.At)
		}
	}
}

// deliver notes what is delivered of one partition. The caller holds the store's lock.
func (m *Member) deliver(at Partition, spans []span, now time.Time) {
	s := m.store
	h := m.holdings[at]
	if h == nil {
		h = &holding{member: m, partition: at}
		if m.holdings == nil {
			m.holdings = map[Partition]*holding{}
		}
		m.holdings[at] = h
		s.partitions.Add(h, struct{}{})
	}
	s.partitions.Get(h) // it is the newest now
	h.member = m
	old := slices.DeleteFunc(slices.Clone(h.spans), func(o span) bool { return o.over(now) })
	s.spare = overlay(s.spare[:0], old, spans)
	if n := len(s.spare) - MaxRanges; n > 0 { // those with the lowest offsets are the oldest, as a rule
		s.spare = append(s.spare[:0], s.spare[n:]...)
	}
	s.enter(s.spare)
	s.settle(h)
	for s.spans > maxSpans {
		s.partitions.RemoveOldest()
	}
	s.fit()
}

// Acquired is what policy.Deliveries says.
func (m *Member) Acquired(dst []policy.Acquisition, topic codec.UUID, partition int32, first, last int64) []policy.Acquisition {
	s := m.store
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.current(m).holdings[Partition{topic, partition}]
	if h == nil {
		return dst
	}
	now := s.now()
	for _, p := range h.spans[from(h.spans, first):] {
		if p.first > last {
			break
		}
		if !p.over(now) {
			dst = append(dst, policy.Acquisition{
				First: max(p.first, first), Last: min(p.last, last), DeliveryCount: p.count, Acquired: p.acquired, LockUntil: p.until,
			})
		}
	}
	return dst
}

// Opened notes that a connection opened the member's session with a broker, or opened it anew.
func (m *Member) Opened(broker, connection string) {
	s := m.store
	s.mu.Lock()
	defer s.mu.Unlock()
	m = s.entered(m)
	for i := range m.sessions {
		if m.sessions[i].broker == broker {
			m.sessions[i].connection = connection
			return
		}
	}
	m.sessions = append(m.sessions, session{broker, connection})
}

// Disconnected notes that a connection has ended. The broker ends the session that it opened, unless another one has opened it anew, and
// releases what the member holds.
func (m *Member) Disconnected(broker, connection string) {
	s := m.store
	s.mu.Lock()
	defer s.mu.Unlock()
	m = s.current(m)
	if slices.Contains(m.sessions, session{broker, connection}) {
		m.end(broker, s.now())
	}
}

// end ends the session with a broker: what it delivered up to then is released. The caller holds the store's lock.
func (m *Member) end(broker string, before time.Time) {
	m.sessions = slices.DeleteFunc(m.sessions, func(x session) bool { return x.broker == broker })
	all := []offsets{{first: 0, last: 1<<63 - 1}}
	for _, h := range m.holdings {
		m.store.change(h, all, func(p *span, _ offsets) bool { return p.broker != broker || p.acquired.After(before) })
	}
	if len(m.sessions) == 0 && len(m.holdings) == 0 {
		m.store.members.Remove(m.name)
	}
}
