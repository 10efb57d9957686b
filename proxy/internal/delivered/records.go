package delivered

import (
	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/internal/batch"
	"github.com/ackproxy/ackproxy/policy"
)

// blob is the record batches of one partition in one answer. It lives as long as a span refers to it, unless its bytes are needed for newer
// ones. The store's lock guards it; the set may be read without.
type blob struct {
	set     *batch.Set // nil once it was let go of
	raw     []byte     // what set reads; used again when nobody does
	size    int64
	spans   int // that refer to it, in the store
	readers int
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
	}, block)
	if len(kept) == 0 {
		return
	}
	b := &blob{set: batch.Open(kept), raw: kept, size: int64(cap(kept)) + blobOverhead}
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
	b, set := m.read(Partition{topic, partition}, offset)
	if set == nil {
		return policy.Record{}, policy.ErrNotKept
	}
	defer m.store.done(b)
	r, err := set.Record(offset, func(bytes int) bool { return m.store.grow(b, int64(bytes)) })
	own(&r)
	return r, err
}

// read finds the batches that hold an offset. They stay as they are until done.
func (m *Member) read(at Partition, offset int64) (*blob, *batch.Set) {
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
	if b.set != nil {
		b.readers++
		s.blobs.Get(b) // it is the newest now
	}
	return b, b.set
}

// done is for one who has read.
func (s *Store) done(b *blob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.readers--
	b.reuse()
}

// drop lets go of a blob. The caller holds s.mu.
func (s *Store) drop(b *blob) {
	s.bytes -= b.size
	b.set = nil
	b.reuse()
}

// reuse gives the bytes back once nobody reads them.
func (b *blob) reuse() {
	if b.set == nil && b.readers == 0 {
		giveBlock(b.raw)
		b.raw = nil
	}
}

// own makes a record independent of its batch.
func own(r *policy.Record) {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Value)
	}
	all := make([]byte, 0, n)
	move := func(p *[]byte) {
		if *p != nil {
			at := len(all)
			all = append(all, *p...)
			*p = all[at:len(all):len(all)]
		}
	}
	move(&r.Key)
	move(&r.Value)
	for i := range r.Headers {
		move(&r.Headers[i].Value)
	}
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
