package delivered

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// records are uncompressed batches of one record each, whose value is its offset and padding. Their checksums are right.
func records(first, last int64, padding int) (p []byte) {
	for o := first; o <= last; o++ {
		r := kmsg.Record{Value: []byte(fmt.Sprint(o, strings.Repeat(" ", padding)))}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		b := kmsg.RecordBatch{FirstOffset: o, Magic: 2, NumRecords: 1, Records: r.AppendTo(nil)}
		b.Length = int32(len(b.AppendTo(nil)) - 12)
		p = append(p, seal(b.AppendTo(nil))...)
	}
	return p
}

// seal makes a batch's checksum right.
func seal(p []byte) []byte {
	binary.BigEndian.PutUint32(p[17:], crc32.Checksum(p[21:], crc32.MakeTable(crc32.Castagnoli)))
	return p
}

// clock is a store's clock that a test turns.
func clock(s *Store) *time.Time {
	now := time.Now()
	s.now = func() time.Time { return now }
	return &now
}

func answer(now time.Time, delivery ...Delivery) *Answer {
	return &Answer{Broker: "a", At: now, Lock: 30 * time.Second, Partitions: delivery}
}

func accepts(received time.Time, first, last int64) *policy.Outcome {
	return &policy.Outcome{
		Request: policy.Request{Carrier: policy.ShareAcknowledge, SessionEpoch: 1, Received: received},
		Reply:   policy.Reply{Partitions: []policy.PartitionResult{{TopicID: at.Topic, Partition: at.Index}}},
		Decision: &policy.Decision{Partitions: []policy.Decided{
			{TopicID: at.Topic, Index: at.Index, Pieces: []policy.Piece{{First: first, Last: last, Forwarded: policy.Accept}}},
		}},
	}
}

// finds checks which offsets have their records.
func finds(t *testing.T, m *Member, kept map[int64]bool) {
	t.Helper()
	for o, want := range kept {
		r, err := m.Record(at.Topic, at.Index, o)
		if want && (err != nil || strings.TrimSpace(string(r.Value)) != fmt.Sprint(o)) || !want && !errors.Is(err, policy.ErrNotKept) {
			t.Errorf("record %d: %q, %v; kept: %v", o, r.Value, err, want)
		}
	}
}

func TestRecordsLiveAsLongAsTheyMatter(t *testing.T) {
	s := New(1 << 20)
	now := clock(s)
	m := s.Member([]byte("g"), []byte("m"))
	m.Deliver(answer(*now, Delivery{at, []Range{{10, 19, 1}}, records(5, 24, 10)}))
	finds(t, m, map[int64]bool{9: false, 10: true, 15: true, 19: true, 20: false}) // what was sent and not acquired is not kept
	_, whole := s.Size()
	*now = now.Add(time.Second)
	m.Settle(accepts(*now, 12, 15), "a")
	finds(t, m, map[int64]bool{11: true, 12: false, 15: false, 16: true})
	if _, n := s.Size(); n < whole {
		t.Errorf("%d bytes, %d before: batches go together", n, whole)
	}
	m.Settle(accepts(*now, 0, math.MaxInt64), "a")
	finds(t, m, map[int64]bool{11: false, 16: false})
	if spans, n := s.Size(); spans != 0 || n != 0 {
		t.Errorf("%d spans, %d bytes", spans, n)
	}
	m = s.Member([]byte("g"), []byte("m"))
	m.Deliver(answer(*now, Delivery{at, []Range{{10, 19, 1}}, records(10, 19, 10)}))
	*now = now.Add(30*time.Second + slack)
	finds(t, m, map[int64]bool{10: true})
	*now = now.Add(time.Second)
	finds(t, m, map[int64]bool{10: false})
	if a := m.Acquired(nil, at.Topic, at.Index, 0, 100); len(a) != 0 {
		t.Errorf("a lock that ran out long ago: %v", a)
	}
	m.Deliver(answer(*now, Delivery{at, []Range{{30, 30, 1}}, nil}))
	if spans, n := s.Size(); spans != 1 || n != 0 {
		t.Errorf("%d spans, %d bytes: what is over goes with the next delivery", spans, n)
	}
}

// TestRecordsStayWithinTheirBound: the ones that nobody asked for longest go first, what is too large is not kept at all, and acquisitions stay.
func TestRecordsStayWithinTheirBound(t *testing.T) {
	s := New(4200)
	now := clock(s)
	m := s.Member([]byte("g"), []byte("m"))
	for i := range int64(4) {
		m.Deliver(answer(*now, Delivery{at, []Range{{i, i, 1}}, records(i, i, 1000)}))
		if i > 0 {
			finds(t, m, map[int64]bool{0: true})
		}
	}
	finds(t, m, map[int64]bool{0: true, 1: false, 2: true, 3: true})
	m.Deliver(answer(*now, Delivery{at, []Range{{9, 9, 1}}, records(9, 9, 4000)}))
	finds(t, m, map[int64]bool{0: true, 9: false})
	if spans, n := s.Size(); spans != 5 || n > 4200 {
		t.Errorf("%d spans, %d bytes", spans, n)
	}
	if New(0).KeepsRecords() || !s.KeepsRecords() {
		t.Error("who keeps records?")
	}
}

// TestBounds: members, partitions and ranges without end are forgotten, and all that is counted stays right.
func TestBounds(t *testing.T) {
	s := New(0)
	now := clock(s)
	many := make([]Range, MaxRanges)
	for i := range many {
		many[i] = Range{int64(2 * i), int64(2 * i), 1}
	}
	m := s.Member([]byte("g"), []byte("m"))
	for i := range int32(maxSpans/MaxRanges + 2) {
		m.Deliver(answer(*now, Delivery{Partition{Index: i}, many, nil}))
	}
	if spans, _ := s.Size(); spans != maxSpans {
		t.Errorf("%d spans", spans)
	}
	if a := m.Acquired(nil, codec.UUID{}, 1, 0, 100); len(a) != 0 {
		t.Errorf("the oldest partition is still known: %v", a)
	}
	last := Partition{Index: maxSpans/MaxRanges + 1}
	m.Deliver(answer(*now, Delivery{last, []Range{{1 << 40, 1 << 40, 1}}, nil}))
	if a := m.Acquired(nil, last.Topic, last.Index, 0, math.MaxInt64); len(a) != MaxRanges || a[0].First != 2 {
		t.Errorf("%d ranges from %d on", len(a), a[0].First)
	}
	for i := range maxMembers + 10 {
		s.Member([]byte("others"), fmt.Append(nil, i)).Deliver(answer(*now, Delivery{at, []Range{{0, 9, 1}}, nil}))
	}
	if spans, _ := s.Size(); spans != maxMembers || s.members.Len() != maxMembers || s.partitions.Len() != maxMembers {
		t.Errorf("%d spans, %d members, %d partitions", spans, s.members.Len(), s.partitions.Len())
	}
	for _, names := range [][2][]byte{{nil, []byte("m")}, {[]byte("g"), nil}, {make([]byte, maxKey), []byte("m")}} {
		if s.Member(names[0], names[1]) != nil {
			t.Errorf("a member of %d and %d bytes", len(names[0]), len(names[1]))
		}
	}
}

// TestSessions: a session that was opened anew on another connection does not end with the first one, and one broker's end is not another's.
func TestSessions(t *testing.T) {
	s := New(0)
	now := clock(s)
	m := s.Member([]byte("g"), []byte("m"))
	m.Opened("a", "c-1")
	m.Opened("b", "c-3")
	m.Deliver(answer(*now, Delivery{at, []Range{{0, 9, 1}}, nil}))
	m.Deliver(&Answer{Broker: "b", At: *now, Partitions: []Delivery{{Partition{Index: 8}, []Range{{0, 9, 1}}, nil}}})
	m.Opened("a", "c-2")
	m.Disconnected("a", "c-1")
	if spans, _ := s.Size(); spans != 2 {
		t.Errorf("%d spans after a connection that has been superseded", spans)
	}
	m.Disconnected("a", "c-2")
	if a := m.Acquired(nil, at.Topic, at.Index, 0, 9); len(a) != 0 {
		t.Errorf("released with its session: %v", a)
	}
	if a := m.Acquired(nil, codec.UUID{}, 8, 3, 4); len(a) != 1 || a[0].First != 3 || a[0].Last != 4 || !a[0].LockUntil.IsZero() {
		t.Errorf("from another broker: %v", a)
	}
	m.Disconnected("b", "c-3")
	if s.members.Len() != 0 || s.partitions.Len() != 0 {
		t.Errorf("%d members, %d partitions are left", s.members.Len(), s.partitions.Len())
	}
}

// TestGroupsAndMembersDoNotMix: names that read the same when they are put together are not the same.
func TestGroupsAndMembersDoNotMix(t *testing.T) {
	s := New(0)
	s.Member([]byte("ab"), []byte("c")).Deliver(answer(time.Now(), Delivery{at, []Range{{0, 9, 1}}, nil}))
	if a := s.Member([]byte("a"), []byte("bc")).Acquired(nil, at.Topic, at.Index, 0, 9); len(a) != 0 {
		t.Errorf("another group's: %v", a)
	}
}
