package proxy

import (
	"encoding/binary"
	"time"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/proxy/internal/delivered"
)

// newDeliveries makes the store of what is delivered; nil where no policy will look at it.
func newDeliveries(cfg *Config) *delivered.Store {
	switch {
	case cfg.Policies == nil:
		return nil
	case !cfg.Policies.Records():
		return delivered.New(0)
	}
	return delivered.New(max(0, cfg.KeepRecords))
}

// member notes in x whose request it is, so that its answer is noted for that member.
func (r *requests) member(x *exchange, req *policy.Request) {
	s := r.c.srv.delivered
	if s == nil {
		return
	}
	if r.last == nil || !r.last.Is(req.GroupID, req.MemberID) {
		r.last = s.Member(req.GroupID, req.MemberID)
	}
	x.member, x.opens = r.last, req.Carrier == policy.ShareFetch && req.SessionEpoch == 0
}

// delivers says whether x is a ShareFetch whose answer is noted.
func (x *exchange) delivers() bool { return x.member != nil && x.key == codec.KeyShareFetch }

// keeps says whether an answer of frame bytes is held for its records, and has room for it then. Where it is too large to keep, or there is no room
// to hold it in, it streams, and its records are not kept.
func (r *responses) keeps(x *exchange, frame int) bool {
	s := r.c.srv
	return x.delivers() && s.delivered.KeepsRecords() && int64(frame) <= s.cfg.KeepRecords && r.h.reserve(frame)
}

// newAnswer begins the walk over an answer.
func (r *responses) newAnswer() *answer {
	a := &answer{collect: r.x.outcome != nil}
	if r.x.delivers() {
		a.delivers = &delivered.Answer{Broker: r.c.broker.addr, At: r.came}
	}
	return a
}

// delivered notes what an answer delivers, and the session that it opens. It comes after the answer's verdict, which is about earlier
// deliveries, and before the answer's end goes to the client.
func (r *responses) delivered(a *answer) {
	if a.delivers == nil || a.reply.ErrorCode != 0 {
		return
	}
	m := r.x.member
	if r.x.opens {
		m.Opened(r.c.broker.addr, r.c.info.ID)
		r.session = m
	}
	if len(a.delivers.Partitions) > 0 {
		a.delivers.Lock = time.Duration(max(0, a.reply.LockTimeoutMs)) * time.Millisecond
		m.Deliver(a.delivers)
		r.tell(a.delivers)
	}
}

// tell hands what was delivered to the observers that want to know.
func (r *responses) tell(all *delivered.Answer) {
	for _, o := range r.c.srv.watchers {
		d := policy.Delivery{Records: r.x.member}
		d.Group, d.Member = r.x.member.Names()
		for i := range all.Partitions {
			p := &all.Partitions[i]
			d.TopicID, d.Partition, d.Acquired = p.Partition.Topic, p.Partition.Index, d.Acquired[:0]
			d.Topic, _ = r.c.srv.TopicName(d.TopicID)
			for _, at := range p.Ranges {
				a := policy.Acquisition{First: at.First, Last: at.Last, DeliveryCount: at.Count, Acquired: all.At}
				if all.Lock > 0 {
					a.LockUntil = all.At.Add(all.Lock)
				}
				d.Acquired = append(d.Acquired, a)
			}
			o.Delivered(&d)
		}
	}
}

// ended notes that the connection is over, and with it the session that it opened. Brokers forget all but the last one.
func (r *responses) ended() {
	if r.session != nil {
		r.session.Disconnected(r.c.broker.addr, r.c.info.ID)
		r.session = nil
	}
}

// acquired walks the acquired ranges of a partition.
func (a *answer) acquired(s *scanner, at delivered.Partition, records []byte) {
	if a.delivers == nil {
		s.each(func() { s.skip(8 + 8 + 2) })
		return
	}
	d := delivered.Delivery{Partition: at, Records: records}
	s.each(func() {
		r := delivered.Range{First: s.int64(), Last: s.int64(), Count: s.int16()}
		if len(d.Ranges) < delivered.MaxRanges && a.ranges < maxAnswerRanges {
			d.Ranges = append(d.Ranges, r)
			a.ranges++
		}
	})
	if len(d.Ranges) > 0 {
		a.delivers.Partitions = append(a.delivers.Partitions, d)
	}
}

// maxAnswerRanges is how many acquired ranges of one answer are noted. Brokers stay far below.
const maxAnswerRanges = 1 << 16

func (s *scanner) int64() int64 {
	if p := s.take(8); p != nil {
		return int64(binary.BigEndian.Uint64(p))
	}
	return 0
}

// view is skip for bytes that are looked at where they are there: nil in a frame that streams.
func (s *scanner) view(n int) []byte {
	start := s.at
	if s.skip(n); s.err != nil || s.fill != nil {
		return nil
	}
	return s.p[start:s.at]
}
