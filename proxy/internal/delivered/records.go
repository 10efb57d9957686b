package delivered

import (
	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/internal/batch"
	"github.com/ackproxy/ackproxy/policy"
)

// blob is the record batches of one partition in one answer. It lives as long as a span refers to it, unless its bytes are needed for newer
// ones. The store's lock guards it; the set may be read without.
type blob struct {
	set   *batch.Set // nil once it was let go of
	size  int64
	spans int // that refer to it, in the store
}

const blobOverhead = 256 // bytes

// keep makes spans refer to a copy of the batches that hold them. Where these are too many there is none.
func keep(spans []span, records []byte, most int64) {
	if most <= 0 || len(records) == 0 || len(spans) == 0 {
		return
	}
	if int64(len(records)) > most {
		return
	}
	kept := batch.Keep(records, func(first, last int64) bool {
		i := from(spans, first)
		return i < len(spans) && spans[i].first <= last
	})
	if len(kept) == 0 {
		return
	}
	b := &blob{set: batch.Open(kept), size: int64(len(kept)) + blobOverhead}
	if b.size > most {
		return
	}
	for i := range spans {
		spans[i].records = b
	}
}

// enter enters the records of spans that are new.
func (s *Store) enter(spans []span) {
	for i := range spans {
		if b := spans[i].records; b != nil && b.spans == 0 && b.set != nil && !s.blobs.Contains(b) {
			s.blobs.Add(b, struct{}{})
			s.bytes += b.size
		}
	}
}

// fit lets go of the records that nobody asked for longest, until the others fit.
func (s *Store) fit() {
	for s.bytes > s.maxBytes {
		s.blobs.RemoveOldest()
	}
}

// Record is what policy.Records says.
func (m *Member) Record(topic codec.UUID, partition int32, offset int64) (policy.Record, error) {
	b, set := m.recordsAt(Partition{topic, partition}, offset)
	if set == nil {
		return policy.Record{}, policy.ErrNotKept
	}
	return set.Record(offset, func(bytes int) bool { return m.store.grow(b, int64(bytes)) })
}

// recordsAt finds the batches that hold an offset.
func (m *Member) recordsAt(at Partition, offset int64) (*blob, *batch.Set) {
	s := m.store
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.current(m).holdings[at]
	if h == nil {
		return nil, nil
	}
	i := from(h.spans, offset)
	if i == len(h.spans) || h.spans[i].first > offset || h.spans[i].over(s.now()) || h.spans[i].records == nil {
		return nil, nil
	}
	b := h.spans[i].records
	s.blobs.Get(b) // it is the newest now
	return b, b.set
}

// grow makes room for what a blob has decompressed, unless that is so much that others would have to go for it.
func (s *Store) grow(b *blob, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.set == nil || n > s.maxBytes/4 {
		return false
	}
	b.size, s.bytes = b.size+n, s.bytes+n
	s.fit()
	return b.set != nil
}
