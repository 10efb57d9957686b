package codec

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// cat joins bytes, strings of bytes and single bytes.
func cat(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, byte(p))
		case string:
			b = append(b, p...)
		case []byte:
			b = append(b, p...)
		default:
			panic(p)
		}
	}
	return b
}

func uvarint(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) }

const zeros = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// What the readers of 4.1 to 4.4 take and refuse, and where the problem is said to be. Bodies begin at byte 0 here.
func TestLimits(t *testing.T) {
	type limit struct {
		name    string
		body    []byte
		outcome Outcome
		at      int
		field   string
		reason  string
	}
	ackHead := cat(0, 0, zeros[:4])                                          // ShareAcknowledge v1: no group, no member, epoch 0
	toTypes := cat(ackHead, 2, zeros, 2, zeros[:4], 2, zeros[:8], zeros[:8]) // one topic, one partition, one batch
	const path = "Topics[0].Partitions[0].AcknowledgementBatches[0]"
	manyTags := func(n int) []byte {
		b := uvarint(n)
		for i := range n {
			b = cat(b, uvarint(i), 0)
		}
		return b
	}
	for _, c := range []limit{
		{"empty", nil, Anomalous, 0, "GroupId", "short read: 1 bytes wanted, 0 left"},
		{"no topics", cat(ackHead, 1, 0), Exact, 0, "", ""},
		{"null topics", cat(ackHead, 0, 0), Anomalous, 6, "Topics", "null for a non-nullable array"},
		{"null types", cat(toTypes, 0, zeros), Anomalous, len(toTypes), path + ".AcknowledgeTypes", "null for a non-nullable array"},
		{"no types", cat(toTypes, 1, 0, 0, 0, 0), Exact, 0, "", ""},
		{"1 000 000 types", cat(toTypes, uvarint(1_000_001), make([]byte, 1_000_000), zeros[:4]), Exact, 0, "", ""},
		{"1 000 001 types", cat(toTypes, uvarint(1_000_002), make([]byte, 1_000_001), zeros[:4]), Tolerated, len(toTypes),
			path + ".AcknowledgeTypes", "array of 1000001, more than 1000000"},
		{"1 000 001 topics", cat(ackHead, uvarint(1_000_002), bytes.Repeat(cat(zeros, 1, 0), 1_000_001), 0), Tolerated, 6, "Topics",
			"array of 1000001 elements, more than 1000000"},
		{"more topics than fit", cat(ackHead, 3, zeros, 1, 0, zeros, 1), Anomalous, 6, "Topics",
			"array count over the bytes left: 2 elements, 35 bytes"},
		{"cut in an offset", toTypes[:len(toTypes)-3], Anomalous, len(ackHead) + 1 + 16 + 1 + 4, strings.TrimSuffix(path, "[0]"),
			"array count over the bytes left: 1 elements, 13 bytes"},
		{"10 000 tags", cat(ackHead, 1, manyTags(10_000)), Exact, 0, "", ""},
		{"10 001 tags", cat(ackHead, 1, manyTags(10_001)), Tolerated, 7, "_tags", "10001 tagged fields, more than 10000"},
		{"more tags than fit", cat(ackHead, 1, 3, 1, 0, 2), Anomalous, 7, "_tags", "tag count over the bytes left: 3 fields, 3 bytes"},
		{"tag longer than the body", cat(ackHead, 1, 1, 9, 5, 1, 2), Anomalous, 10, "_tags", "short read: 5 bytes wanted, 2 left"},
		{"string of 32 767", cat(uvarint(32_768), make([]byte, 32_767), ackHead[1:], 1, 0), Exact, 0, "", ""},
		{"string of 32 768", cat(uvarint(32_769), make([]byte, 32_768), ackHead[1:], 1, 0), Anomalous, 0, "GroupId",
			"string of 32768, more than 32767"},
		{"string longer than the body", cat(9, "abc"), Anomalous, 1, "GroupId", "short read: 8 bytes wanted, 3 left"},
		{"uvarint of five bytes", cat("\x80\x80\x80\x80\x00", ackHead[1:], 1, 0), Tolerated, 0, "GroupId", "uvarint not minimal: 5 bytes"},
		{"uvarint over 32 bits", cat("\x81\x80\x80\x80\x10", ackHead[1:], 1, 0), Tolerated, 0, "GroupId", "uvarint over 32 bits: 1 too many"},
		{"uvarint of 35 bits", cat(0, 0, zeros[:4], "\x81\x80\x80\x80\x70", 0), Tolerated, 6, "Topics", "uvarint over 32 bits: 3 too many"},
		{"uvarint of six bytes", cat("\x81\x80\x80\x80\x80\x00", ackHead[1:], 1, 0), Anomalous, 0, "GroupId", "uvarint over 32 bits"},
		{"uvarint cut", cat(0, 0, zeros[:4], "\x81\x80"), Anomalous, 6, "Topics", "short read: 3 bytes wanted, 2 left"},
		{"largest uvarint", cat("\xff\xff\xff\xff\x0f", ackHead[1:], 1, 0), Tolerated, 0, "GroupId", "negative length -2 read as null"},
		{"least negative uvarint", cat("\x80\x80\x80\x80\x08", ackHead[1:], 1, 0), Anomalous, 0, "GroupId", "string of 2147483647, more than 32767"},
		{"negative number of topics", cat(0, 0, zeros[:4], "\xff\xff\xff\xff\x0f", 0), Anomalous, 6, "Topics",
			"array count over the bytes left: 4294967294 elements, 1 bytes"},
		{"negative number of types", cat(toTypes, "\xff\xff\xff\xff\x0f", zeros), Anomalous, len(toTypes), path + ".AcknowledgeTypes",
			"array of 4294967294, more than 1000000"},
		{"negative number of tags", cat(ackHead, 1, "\xff\xff\xff\xff\x0f"), Tolerated, 7, "_tags", "negative tag count -1 read as 0"},
		{"negative number of a batch's tags", cat(toTypes, 2, 1, "\x80\x80\x80\x80\x78", 0, 0, 0), Tolerated, len(toTypes) + 2, path + "._tags",
			"uvarint over 32 bits: 3 too many"},
		{"first of two problems", cat("\x80\x00", ackHead[1:], 1, 2, 5, 0, 3, 0), Tolerated, 0, "GroupId", "uvarint not minimal: 2 bytes"},
		{"the worse of two problems", cat("\x80\x00", ackHead[1:], 0, 0), Anomalous, 7, "Topics", "null for a non-nullable array"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m ShareAcknowledgeRequest
			o, p := m.Decode(c.body, 0, 1)
			want := Problem{Reason: c.reason, At: c.at, Field: c.field}
			if o != c.outcome || p != nil && *p != want || (p == nil) != (c.outcome == Exact) {
				t.Fatalf("%v %+v\nwant %v %+v", o, p, c.outcome, want)
			}
			if again := m.Append(nil, 1); o == Exact && !bytes.Equal(again, c.body) {
				t.Error("comes out otherwise")
			}
		})
	}
}

// Problem.At counts from the frame's first byte, wherever the body begins.
func TestProblemAtCountsFromTheFrame(t *testing.T) {
	var m ShareAcknowledgeRequest
	_, p := m.Decode(cat(0, 0, zeros[:4], 0), 31, 1)
	if p == nil || p.At != 37 || p.Error() != "null for a non-nullable array at byte 37 (Topics)" {
		t.Error(p)
	}
}

// A bool is true in any byte but 0.
func TestBool(t *testing.T) {
	for b, want := range map[int]Outcome{0: Exact, 1: Exact, 2: Tolerated, 255: Tolerated} {
		var m ShareAcknowledgeRequest
		if o, p := m.Decode(cat(0, 0, zeros[:4], b, 1, 0), 0, 2); o != want || m.IsRenewAck != (b != 0) {
			t.Errorf("byte %d is %v, %v: %v", b, m.IsRenewAck, o, p)
		}
	}
}

// The tags that we know in a TxnShareAcknowledge response: in any order and more than once they are read as a Java reader does, the
// last one counts. One whose size and contents disagree is refused, since readers go on at different bytes after it.
func TestKnownTags(t *testing.T) {
	leader := func(id int) []byte { return cat(0, 9, 0, 0, 0, id, zeros[:4], 0) }
	body := func(tags ...any) []byte {
		return cat(zeros[:6], 2, zeros, 2, zeros[:4], 0, 6, 0, cat(tags...), 0, 0)
	}
	for name, c := range map[string]struct {
		tags    []byte
		outcome Outcome
		leader  int32
		unknown int
		field   string
	}{
		"absent":              {cat(0), Exact, -1, 0, ""},
		"present":             {cat(1, leader(5)), Exact, 5, 0, ""},
		"before another":      {cat(2, leader(5), 7, 1, "x"), Exact, 5, 1, ""},
		"after another":       {cat(2, 7, 1, "x", leader(5)), Tolerated, 5, 1, "_tags"},
		"twice":               {cat(2, leader(5), leader(6)), Tolerated, 6, 0, "_tags"},
		"at its default":      {cat(1, 0, 9, "\xff\xff\xff\xff\xff\xff\xff\xff", 0), Tolerated, -1, 0, "CurrentLeader"},
		"with bytes left":     {cat(1, 0, 10, zeros[:8], 0, 0), Anomalous, 0, 0, "_tags"},
		"longer than it says": {cat(1, 0, 8, zeros[:8], 0), Anomalous, 0, 0, "CurrentLeader._tags"},
	} {
		t.Run(name, func(t *testing.T) {
			var m TxnShareAcknowledgeResponse
			o, p := m.Decode(body(c.tags), 0, 0)
			if o != c.outcome {
				t.Fatalf("%v, want %v: %v", o, c.outcome, p)
			}
			if p != nil && p.Field != "Responses[0].Partitions[0]."+c.field {
				t.Errorf("field %s", p.Field)
			}
			for topic := range m.Responses.All() {
				for r := range topic.Partitions.All() {
					if r.CurrentLeader.LeaderID != c.leader || r.Tags.Len() != c.unknown {
						t.Errorf("leader %d and %d tags, want %d and %d", r.CurrentLeader.LeaderID, r.Tags.Len(), c.leader, c.unknown)
					}
				}
			}
		})
	}
}

// Header fields that brokers take although no writer sends them so.
func TestRequestHeaders(t *testing.T) {
	head := func(key, version, client int) []byte {
		b := cat(zeros[:4], 0, key, 0, version, 0, 0, 0, 9, client>>8, client)
		SetSize(b)
		return b
	}
	grown := func(frame []byte, more ...any) []byte {
		b := cat(frame, cat(more...))
		SetSize(b)
		return b
	}
	for name, c := range map[string]struct {
		frame   []byte
		outcome Outcome
		version int8
		body    int
	}{
		"v1, null client id":     {head(3, 8, -1), Exact, 1, 14},
		"v1, empty client id":    {head(3, 8, 0), Exact, 1, 14},
		"v2, null client id":     {grown(head(79, 2, -1), 0), Exact, 2, 15},
		"v2, client id -2":       {grown(head(79, 2, -2), 0), Tolerated, 2, 15},
		"v2, tags descending":    {grown(head(79, 2, -1), 2, 5, 0, 3, 0), Tolerated, 2, 19},
		"v2, tags missing":       {head(79, 2, -1), Anomalous, 2, 0},
		"client id past the end": {head(3, 8, 5), Anomalous, 1, 0},
		"more than its size":     {cat(head(79, 2, -1), 0), Anomalous, 2, 0},
		"too short for a key":    {grown(cat(zeros[:4], 0, 3, 0)), Anomalous, 1, 0},
		"no size":                {cat(0, 0), Anomalous, 1, 0},
		"negative size":          {cat("\xff\xff\xff\xff", head(3, 8, -1)[4:]), Anomalous, 1, 0},
		"key 96":                 {head(96, 0, -1), Opaque, -1, 12},
		"key 95, the txn key":    {grown(head(95, 0, -1), 0), Exact, 2, 15},
		"negative version":       {grown(cat(zeros[:4], 0, 79, "\xff\xff", zeros[:4])), Opaque, -1, 12},
		"ControlledShutdown v0":  {grown(cat(zeros[:4], 0, 7, 0, 0, zeros[:4])), Exact, 0, 12},
	} {
		t.Run(name, func(t *testing.T) {
			h, body, o, p := DecodeRequestHeader(c.frame, 95)
			if o != c.outcome || o != Anomalous && (h.Version != c.version || body != c.body || len(h.ClientID) > 0) {
				t.Errorf("%v %v, header %+v, body at %d", o, p, h, body)
			}
		})
	}
}

func TestResponseHeaders(t *testing.T) {
	plain := cat(zeros[:4], 0, 0, 0, 9)
	SetSize(plain)
	if h, body, o, p := DecodeResponseHeader(plain, 0); o != Exact || h.CorrelationID != 9 || body != 8 {
		t.Error(h, body, o, p)
	}
	if _, _, o, p := DecodeResponseHeader(plain, 1); o != Anomalous || p.Field != "_tags" || p.At != 8 {
		t.Error(o, p)
	}
	tagged := ResponseHeader{CorrelationID: 9, Version: 1}
	tagged.Tags.Append(2, []byte("b"))
	tagged.Tags.Append(1, []byte("a"))
	frame := tagged.Append(make([]byte, 4))
	SetSize(frame)
	h, body, o, p := DecodeResponseHeader(frame, 1)
	if o != Exact || body != len(frame) || h.Tags.Len() != 2 {
		t.Error(h, body, o, p)
	}
}
