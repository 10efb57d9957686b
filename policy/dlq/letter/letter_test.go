package letter

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// example is a letter with all there is to say.
func example() *Letter {
	return &Letter{
		Group: "orders/eu", Member: "m1", ClientID: "app", Principal: "User:alice",
		Topic: "orders", TopicID: codec.UUID{0: 1, 15: 255}, Partition: 3, Offset: 1 << 40, DeliveryCount: 2,
		Reason: ClientReject, Message: MessageRejected, API: "ShareFetch", AuditRef: "c-17/311",
		Time: time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC), Payload: Full,
		Source: &policy.Record{Offset: 1 << 40, Timestamp: 1_700_000_000_123, Key: nil, Value: []byte{},
			Headers: []policy.RecordHeader{{Key: "h", Value: []byte("orig")}, {Key: "h", Value: nil}, {Key: "", Value: []byte{0xff}}}},
	}
}

// show writes headers as lines.
func show(headers []policy.RecordHeader) string {
	var b strings.Builder
	for _, h := range headers {
		if h.Value == nil {
			fmt.Fprintf(&b, "%s nil\n", h.Key)
		} else {
			fmt.Fprintf(&b, "%s %q\n", h.Key, h.Value)
		}
	}
	return b.String()
}

const (
	originals = `h "orig"
h nil
 "\xff"
`
	ours = `ackproxy.dlq.id "orders/eu/AQAAAAAAAAAAAAAAAAAA_w/3/1099511627776"
ackproxy.dlq.reason "client_reject"
ackproxy.dlq.hops "1"
ackproxy.dlq.time "2026-01-02T03:04:05.678Z"
ackproxy.topic.id "AQAAAAAAAAAAAAAAAAAA_w"
ackproxy.timestamp "1700000000123"
ackproxy.timestamp.type "CreateTime"
ackproxy.member "m1"
ackproxy.client-id "app"
ackproxy.principal "User:alice"
ackproxy.payload "full"
ackproxy.api "ShareFetch"
ackproxy.audit.ref "c-17/311"
`
)

var golden = map[Profile]string{
	KIP1191: `__dlq.errors.topic "orders"
__dlq.errors.partition "3"
__dlq.errors.offset "1099511627776"
__dlq.errors.group "orders/eu"
__dlq.errors.delivery.count "2"
__dlq.errors.message "Offset rejected by client."
`,
	Spring: `kafka_dlt-original-topic "orders"
kafka_dlt-original-partition "\x00\x00\x00\x03"
kafka_dlt-original-offset "\x00\x00\x01\x00\x00\x00\x00\x00"
kafka_dlt-original-timestamp "\x00\x00\x01\x8b\xcf\xe5h{"
kafka_dlt-original-timestamp-type "CreateTime"
kafka_dlt-original-consumer-group "orders/eu"
kafka_dlt-exception-message "Offset rejected by client."
`,
	Connect: `__connect.errors.topic "orders"
__connect.errors.partition "3"
__connect.errors.offset "1099511627776"
__connect.errors.exception.message "Offset rejected by client."
`,
}

func TestHeaders(t *testing.T) {
	for p, want := range golden {
		if got := show(example().Headers(p)); got != originals+want+ours {
			t.Errorf("%v:\n%s", p, got)
		}
		if again, err := ParseProfile(p.String()); err != nil || again != p {
			t.Errorf("%v parses as %v, %v", p, again, err)
		}
	}
}

func TestRead(t *testing.T) {
	l := example()
	want := Info{ID: l.ID(), Group: l.Group, Topic: "orders", TopicID: l.TopicID, Partition: 3, Offset: 1 << 40, DeliveryCount: 2, Reason: ClientReject,
		Message: MessageRejected, Hops: 1, Time: l.Time, Timestamp: time.UnixMilli(1_700_000_000_123).UTC(), Member: "m1", ClientID: "app",
		Principal: "User:alice", API: "ShareFetch", AuditRef: "c-17/311", Payload: Full}
	for p := range golden {
		headers := l.Headers(p)
		got, is := Read(headers)
		expected := want
		if p != KIP1191 {
			expected.DeliveryCount = 0 // the others have no place for it
		}
		if !is || got != expected {
			t.Errorf("%v: read as %+v", p, got)
		}
		if rest := Original(headers); !reflect.DeepEqual(rest, l.Source.Headers) {
			t.Errorf("%v: the original headers are %s", p, show(rest))
		}
	}
	if _, is := Read(l.Source.Headers); is {
		t.Error("any record is a dead letter")
	}
}

// TestAgain dead-letters a dead letter: one set of ours, and a hop more.
func TestAgain(t *testing.T) {
	first := example()
	second := example()
	second.Topic, second.Source = "dlq.orders", &policy.Record{Headers: first.Headers(Spring)}
	headers := second.Headers(KIP1191)
	for i, h := range headers {
		if slices.ContainsFunc(headers[:i], func(o policy.RecordHeader) bool { return o.Key == h.Key && h.Key != "h" }) {
			t.Errorf("%s stands there twice", h.Key)
		}
	}
	info, _ := Read(headers)
	if info.Hops != 2 || info.Topic != "dlq.orders" || !strings.HasPrefix(show(headers), originals+"__dlq.errors.topic") {
		t.Errorf("%+v\n%s", info, show(headers))
	}
}

// TestBrokersLetter keeps what a broker's own queue wrote: it is not ours.
func TestBrokersLetter(t *testing.T) {
	l := example()
	l.Source.Headers = []policy.RecordHeader{{Key: kipTopic, Value: []byte("other")}, {Key: kipOffset, Value: []byte("x")}}
	headers := l.Headers(KIP1191)
	info, _ := Read(headers)
	if string(headers[0].Value) != "other" || info.Topic != "orders" || info.Offset != 1<<40 || info.Hops != 1 {
		t.Errorf("%+v\n%s", info, show(headers))
	}
	info, is := Read(l.Source.Headers)
	if !is || info.ID != "" || info.Topic != "other" || info.Offset != -1 || info.Partition != -1 {
		t.Errorf("%+v", info)
	}
}

func TestUnavailable(t *testing.T) {
	l := example()
	l.DeliveryCount, l.Message = 0, ""
	l.Strip("nobody has it")
	text := show(l.Headers(KIP1191))
	for _, absent := range []string{"h ", kipCount, kipMessage, HeaderTimestamp} {
		if strings.HasPrefix(text, absent) || strings.Contains(text, "\n"+absent) {
			t.Errorf("%s is there:\n%s", absent, text)
		}
	}
	if !strings.Contains(text, "ackproxy.payload \"unavailable\"\nackproxy.payload.reason \"nobody has it\"\n") {
		t.Error(text)
	}
}

// records are what a spool may keep.
func spooledRecords() []Record {
	return []Record{
		{},
		{Cluster: "east", Topic: "dlq.orders", Partition: 7, Timestamp: 1_700_000_000_123, Key: []byte("k"), Value: []byte("v"),
			Headers: example().Headers(KIP1191)},
		{Topic: "t", Partition: -1, Timestamp: -1, Key: []byte{}, Headers: []policy.RecordHeader{{Key: "", Value: nil}, {Key: "a", Value: []byte{}}}},
		{Topic: "long", Key: bytes.Repeat([]byte("k"), short), Value: bytes.Repeat([]byte("v"), 10*short),
			Headers: slices.Repeat([]policy.RecordHeader{{Key: "h", Value: bytes.Repeat([]byte("x"), short-1)}}, 5)},
	}
}

func TestRecord(t *testing.T) {
	for i, r := range spooledRecords() {
		b := r.Append(nil)
		if len(b) > r.Size() {
			t.Errorf("%d: %d bytes, and no more than %d were said", i, len(b), r.Size())
		}
		var written bytes.Buffer
		if n, err := r.WriteTo(&written); err != nil || n != int64(len(b)) || !bytes.Equal(written.Bytes(), b) {
			t.Errorf("%d: written are %d bytes, %v, appended %d", i, n, err, len(b))
		}
		got, err := Decode(b)
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%d: %+v, %v", i, got, err)
		}
		for cut := range b {
			if _, err := Decode(b[:cut]); err == nil {
				t.Errorf("%d: decoded from %d of %d bytes", i, cut, len(b))
			}
		}
	}
}

func TestStripRecord(t *testing.T) {
	r := spooledRecords()[1]
	r.Strip("too large")
	info, _ := Read(r.Headers)
	if r.Key != nil || r.Value != nil || len(Original(r.Headers)) != 0 || info.Payload != Unavailable || info.Missing != "too large" ||
		info.Offset != 1<<40 {
		t.Errorf("%+v %+v", r, info)
	}
}

func FuzzDecode(f *testing.F) {
	seeds := spooledRecords()
	if len(seeds) == 0 {
		f.Fatal("no seeds")
	}
	for _, r := range seeds {
		f.Add(r.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(r.Append(nil))
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
	})
}

// FuzzRead reads headers that anybody may have written, and dead-letters a record that has them.
func FuzzRead(f *testing.F) {
	for name := range written {
		for _, v := range []string{"", "1", "-1", "99999999999999999999", "g/AQAAAAAAAAAAAAAAAAAA_w/3/4", "///", "\x00\x00\x00\x01", "\xff"} {
			f.Add(name, []byte(v), HeaderID, []byte("g/AQAAAAAAAAAAAAAAAAAA_w/3/4"))
		}
	}
	f.Fuzz(func(t *testing.T, key string, value []byte, other string, otherValue []byte) {
		headers := []policy.RecordHeader{{Key: key, Value: value}, {Key: other, Value: otherValue}}
		info, is := Read(headers)
		if is != (written[key] || written[other]) || info.Hops < 0 || info.Offset < -1 || info.Partition < -1 {
			t.Fatalf("%v %+v", is, info)
		}
		l := example()
		l.Source.Headers = headers
		got := l.Headers(KIP1191)
		now, _ := Read(got)
		if now.ID != l.ID() || now.Offset != l.Offset || now.Hops < 1 {
			t.Fatalf("%+v", now)
		}
		if info.ID == "" && !(bytes.Equal(got[0].Value, value) && got[0].Key == key) {
			t.Fatalf("the original header is %q %q", got[0].Key, got[0].Value)
		}
	})
}
