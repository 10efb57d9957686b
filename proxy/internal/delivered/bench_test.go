package delivered

import (
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/policy"
)

// BenchmarkRound is what one fetch and its acknowledgement cost beside what the proxy does anyway.
func BenchmarkRound(b *testing.B) {
	s := New(0)
	m := s.Member([]byte("group"), []byte("member"))
	m.Opened("a", "c-1")
	var found []policy.Acquisition
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i += 100 {
		now := time.Now()
		m.Deliver(&Answer{Broker: "a", At: now, Lock: time.Minute, Partitions: []Delivery{{Partition: at, Ranges: []Range{{i, i + 99, 1}}}}})
		found = m.Acquired(found[:0], at.Topic, at.Index, i, i+99)
		m.Settle(accepts(now, i, i+99), "a")
	}
}

// BenchmarkRecords is the same where records are kept, 100 KiB at a time.
func BenchmarkRecords(b *testing.B) {
	s := New(64 << 20)
	m := s.Member([]byte("group"), []byte("member"))
	m.Opened("a", "c-1")
	p := records(0, 99, 1<<10)
	b.ReportAllocs()
	for b.Loop() {
		now := time.Now()
		m.Deliver(&Answer{Broker: "a", At: now, Lock: time.Minute, Partitions: []Delivery{{Partition: at, Ranges: []Range{{0, 99, 1}}, Records: p}}})
		m.Settle(accepts(now, 0, 99), "a")
	}
}
