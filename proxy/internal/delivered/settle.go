package delivered

import (
	"time"

	"github.com/ackproxy/ackproxy/policy"
)

// Settle notes what a broker's answer says of acknowledgements, and of the end of a session. What was delivered after the request had
// passed is not what the request is about.
//
// What a TxnShareAcknowledge asks takes effect when its transaction ends, if at all, so that it settles nothing.
func (m *Member) Settle(o *policy.Outcome, broker string) {
	r := &o.Request
	if o.Kind != policy.Acknowledgement || o.Reply.State != policy.Answered || o.Reply.ErrorCode != 0 || r.Carrier == policy.TxnShareAcknowledge {
		return
	}
	s := m.store
	s.mu.Lock()
	defer s.mu.Unlock()
	m = s.current(m)
	if r.ClosesSession() {
		m.end(broker, r.Received)
		return
	}
	if len(m.holdings) == 0 || o.Decision == nil {
		return
	}
	applied := make(map[Partition]struct{}, len(o.Reply.Partitions))
	for i := range o.Reply.Partitions {
		if p := &o.Reply.Partitions[i]; p.ErrorCode == 0 {
			applied[Partition{p.TopicID, p.Partition}] = struct{}{}
		}
	}
	lock := time.Duration(o.Reply.LockTimeoutMs) * time.Millisecond
	for i := range o.Decision.Partitions {
		d := &o.Decision.Partitions[i]
		at := Partition{d.TopicID, d.Index}
		if _, ok := applied[at]; !ok || m.holdings[at] == nil {
			continue
		}
		s.change(m.holdings[at], forwarded(d.Pieces), func(p *span, by offsets) bool {
			if p.acquired.After(r.Received) {
				return true
			}
			if by.kind == policy.Renew {
				p.renew(r.Received, lock)
				return true
			}
			return false
		})
	}
}

// forwarded is what reached the broker.
func forwarded(pieces []policy.Piece) []offsets {
	all := make([]offsets, 0, len(pieces))
	for i := range pieces {
		if p := &pieces[i]; !p.Withheld {
			all = append(all, offsets{p.First, p.Last, p.Forwarded})
		}
	}
	return all
}

// renew notes that the lock began anew, at the earliest when the request was there.
func (s *span) renew(at time.Time, lock time.Duration) {
	if lock > 0 {
		s.lock = lock
	}
	if until := at.Add(s.lock); s.lock > 0 && until.After(s.until) {
		s.until = until
	}
}
