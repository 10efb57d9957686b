package audit

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ackproxy/ackproxy/policy"
)

func TestAppendText(t *testing.T) {
	for in, want := range map[string]string{
		"":                           `""`,
		"orders-1":                   `"orders-1"`,
		"<a&b>'/":                    `"<a&b>'/"`, // no HTML escaping
		"say \"hi\"\\":               `"say \"hi\"\\"`,
		"a\nb\rc\td\x00e\x1bf":       `"a\nb\rc\td\u0000e\u001bf"`,
		"grüße \U0001F600":           "\"grüße \U0001F600\"",
		"a\xffb\xc3":                 "\"a\uFFFDb\uFFFD\"",
		"\xed\xa0\x80":               "\"\uFFFD\uFFFD\uFFFD\"", // a surrogate
		"x\u2028y\u2029z\u0085":      `"x\u2028y\u2029z\u0085"`,
		strings.Repeat("a", maxText): `"` + strings.Repeat("a", maxText) + `"`,
		strings.Repeat("a", 500):     `"` + strings.Repeat("a", maxText) + `…(+116 bytes)"`,
		strings.Repeat("é", 200):     `"` + strings.Repeat("é", 192) + `…(+16 bytes)"`,
		strings.Repeat("\x01", 100):  `"` + strings.Repeat(`\u0001`, 64) + `…(+36 bytes)"`,
	} {
		if got := string(appendText(nil, in)); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
		if got := string(appendText(nil, []byte(in))); got != want {
			t.Errorf("%q as bytes: %s, want %s", in, got, want)
		}
	}
}

func TestAppendMillis(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.000", 6624 * time.Microsecond: "6.624", 999: "0.000", -time.Second: "0.000", time.Minute + 50*time.Microsecond: "60000.050",
	} {
		if got := string(appendMillis(nil, d)); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestStamper(t *testing.T) {
	var s stamper
	zone := time.FixedZone("east", 3*3600)
	for _, at := range []time.Time{noon, noon.Add(time.Microsecond), noon.Add(-time.Hour), noon.Add(time.Second).In(zone), time.Unix(0, 0), time.Unix(-5, 999)} {
		want := at.UTC().Format(`"2006-01-02T15:04:05.000000Z"`)
		if got := string(s.append(nil, at)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := string(s.append(nil, time.Time{})); got != "null" {
		t.Errorf("the zero time is %s", got)
	}
}

// TestIDs: unique, in order, also when the clock steps back and when the lower word runs over.
func TestIDs(t *testing.T) {
	g := newIDs([10]byte{0, 7, 255, 255, 255, 255, 255, 255, 255, 250})
	last := ""
	for i := range 1000 {
		g.next(noon.Add(time.Duration(i%7-i%3) * time.Millisecond))
		id := string(g.append(nil))
		if len(id) != 26 || id <= last || id[0] > '7' {
			t.Fatalf("%q after %q", id, last)
		}
		last = id
	}
	if want := newIDs([10]byte{}); string(want.append(nil)) != strings.Repeat("0", 26) {
		t.Error("the id of nothing is not all zeros")
	}
	g = ids{ms: 1<<48 - 1, hi: 1<<16 - 1, lo: math.MaxUint64}
	if got := string(g.append(nil)); got != "7"+strings.Repeat("Z", 25) {
		t.Errorf("the highest id is %s", got)
	}
}

func TestErrorNames(t *testing.T) {
	for code, want := range map[int16]string{
		-1: "UNKNOWN_SERVER_ERROR", 0: "NONE", 6: "NOT_LEADER_OR_FOLLOWER", 42: "INVALID_REQUEST", 100: "UNKNOWN_TOPIC_ID",
		121: "INVALID_RECORD_STATE", 133: "SHARE_SESSION_LIMIT_REACHED", 254: "", 255: "", 30000: "", -2: "", math.MinInt16: "",
	} {
		if got := ErrorName(code); got != want {
			t.Errorf("%d: %q, want %q", code, got, want)
		}
	}
}

// FuzzLine: whatever bytes peers put where text is expected, every line is one line of valid JSON in UTF-8, below the bound, and says
// what was sent.
func FuzzLine(f *testing.F) {
	f.Add([]byte("orders"), []byte("orders-1"), []byte("m1"), "message", "reason", int64(0), int64(9), []byte{1})
	f.Add([]byte("\xff\x00\""), []byte("\\\n"), []byte("\u2028"), "\xc3", "\x1b[2J", int64(math.MinInt64), int64(math.MaxInt64), []byte{1})
	f.Add([]byte{}, []byte(nil), bytes.Repeat([]byte{1}, 9000), strings.Repeat("\"", 9000), "", int64(1<<53+1), int64(0), bytes.Repeat([]byte{200}, 300))
	f.Fuzz(func(t *testing.T, group, client, member []byte, message, reason string, first, last int64, types []byte) {
		o := share(t, orders(4))
		b := batch(first, last)
		b.Types = types
		o.Request.Topics = topics(t, orders(4, b), part{otherID, 0, orders(0, b, b).batches})
		o.Request.GroupID, o.Request.ClientID, o.Request.MemberID = group, client, member
		o.Request.Software, o.Note = string(client), reason
		answered(o, row(ordersID, 4, 121))
		o.Reply.Partitions[0].ErrorMessage = message
		bad := *o
		bad.Kind = policy.CoverageGap

		lines, events := audit(t, o, &bad)
		for _, l := range lines {
			if !json.Valid([]byte(l)) || !utf8.ValidString(l) || strings.ContainsAny(l, "\n\r\u2028") {
				t.Fatalf("not a line of JSON: %q", l)
			}
		}
		if len(events) < 3 {
			t.Fatalf("%d events", len(events))
		}
		if want := strings.ToValidUTF8(string(group), ""); len(group) < 50 && want == string(group) && events[0].Target.Group != want {
			t.Errorf("group %q, want %q", events[0].Target.Group, want)
		}
		if r := events[0].Ack.Asked[0]; first > last && (int64(r.First) != first || int64(r.Last) != last) {
			t.Errorf("asked %d to %d, said %d to %d", first, last, r.First, r.Last)
		}
	})
}
