package demo

import (
	"fmt"
	"strings"
	"testing"
)

// auditLine is a line of the audit about one range, as far as the comparison reads it.
func auditLine(member, topic string, partition int, first, last int64, kind, carrier, verdict string) string {
	return fmt.Sprintf(`{"v":1,"type":"share.ack","time":{"request":"2026-01-15T09:21:07.114392Z","took_ms":6.6},"actor":{"member_id":%q},`+
		`"target":{"group":"demo","topic":%q,"partition":%d},"request":{"carrier":%q},`+
		`"ack":{"asked":[{"first":%d,"last":%d,"type":%q}],"records":%d},"verdict":{"state":%q}}`+"\n",
		member, topic, partition, carrier, first, last, kind, last-first+1, verdict)
}

// played is a tally of two members and the audit's lines about what they did: 4 accepts, a release, a reject.
func played() (*tally, []string) {
	t := newTally()
	t.enrol(map[string]string{"id1": "member-1", "id2": "member-2"})
	for offset := range int64(4) {
		t.acknowledged(ack{"demo", "orders", 0, offset, "accept", "member-1"})
	}
	t.acknowledged(ack{"demo", "orders", 0, 4, "release", "member-1"})
	t.acknowledged(ack{"demo", "orders", 0, 4, "reject", "member-2"})
	t.delivered(6)
	return t, []string{
		auditLine("id1", "orders", 0, 0, 3, "accept", "share_fetch", "accepted"),
		auditLine("id1", "orders", 0, 4, 4, "release", "share_fetch", "accepted"),
		auditLine("id2", "orders", 0, 4, 4, "reject", "share_acknowledge", "refused"),
	}
}

func outcome(t *tally, lines []string) Result {
	t.Write([]byte(strings.Join(lines, "")))
	r := t.result()
	r.judge()
	return r
}

func TestTallyMatches(t *testing.T) {
	got := outcome(played())
	want := Result{Deliveries: 6, Acks: Types{4, 1, 1}, Carriers: Carriers{5, 1}, Verdicts: Verdicts{5, 1, 0}, Client: Types{4, 1, 1}, Match: true}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// The order in which the two sides speak does not matter.
func TestTallyAuditFirst(t *testing.T) {
	_, lines := played()
	late := newTally()
	late.enrol(map[string]string{"id1": "member-1", "id2": "member-2"})
	late.Write([]byte(strings.Join(lines, "")))
	if r := late.result(); r.Invented != 6 || r.Unaudited != 0 {
		t.Errorf("before the members spoke: %+v", r)
	}
	for offset := range int64(4) {
		late.acknowledged(ack{"demo", "orders", 0, offset, "accept", "member-1"})
	}
	late.acknowledged(ack{"demo", "orders", 0, 4, "release", "member-1"})
	late.acknowledged(ack{"demo", "orders", 0, 4, "reject", "member-2"})
	if r := outcome(late, nil); !r.Match || len(late.diff) != 0 {
		t.Errorf("%+v, %v left", r, late.diff)
	}
}

func TestTallyFaults(t *testing.T) {
	line := auditLine
	for _, c := range []struct {
		name                         string
		change                       func(lines []string) []string
		unaudited, invented, unknown int64
	}{
		{"a line is missing", func(l []string) []string { return l[:2] }, 1, 0, 0},
		{"a line of four records is missing", func(l []string) []string { return l[1:] }, 4, 0, 0},
		{"a line is made up", func(l []string) []string {
			return append(l, line("id1", "orders", 0, 9, 9, "accept", "share_fetch", "accepted"))
		}, 0, 1, 0},
		{"a line is there twice", func(l []string) []string { return append(l, l[1]) }, 0, 1, 0},
		{"another type", func(l []string) []string { l[1] = strings.Replace(l[1], `"release"`, `"accept"`, 1); return l }, 1, 1, 0},
		{"another member", func(l []string) []string { l[2] = strings.Replace(l[2], "id2", "id1", 1); return l }, 1, 1, 0},
		{"a member that nobody knows", func(l []string) []string { l[2] = strings.Replace(l[2], "id2", "id3", 1); return l }, 1, 1, 0},
		{"another topic", func(l []string) []string { l[2] = strings.Replace(l[2], "orders", "order", 1); return l }, 1, 1, 0},
		{"another group", func(l []string) []string { l[2] = strings.Replace(l[2], "demo", "other", 1); return l }, 1, 1, 0},
		{"another partition", func(l []string) []string { l[2] = strings.Replace(l[2], `"partition":0`, `"partition":1`, 1); return l }, 1, 1, 0},
		{"a range too long", func(l []string) []string { l[0] = strings.Replace(l[0], `"last":3`, `"last":4`, 1); return l }, 0, 1, 0},
		{"a range without end", func(l []string) []string {
			return append(l, line("id1", "orders", 0, 9, 1<<62, "accept", "share_fetch", "accepted"))
		}, 0, 1, 0},
		{"no JSON", func(l []string) []string { return append(l, "half a line\n") }, 0, 1, 0},
		{"no verdict", func(l []string) []string { l[0] = strings.Replace(l[0], `"accepted"`, `"unknown"`, 1); return l }, 0, 0, 4},
		{"a verdict that is none", func(l []string) []string { l[0] = strings.Replace(l[0], `"accepted"`, `""`, 1); return l }, 0, 0, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			tl, lines := played()
			r := outcome(tl, c.change(lines))
			if r.Match || r.Unaudited != c.unaudited || r.Invented != c.invented || r.Verdicts.Unknown != c.unknown {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestEscapeDoesNotMatch(t *testing.T) {
	r := outcome(played())
	r.Escapes = 1
	if r.judge(); r.Match {
		t.Error("matches")
	}
}

// Sums that agree do not hide records that differ.
func TestTallyNotOfSums(t *testing.T) {
	tl := newTally()
	tl.enrol(map[string]string{"id1": "member-1"})
	tl.acknowledged(ack{"demo", "orders", 0, 1, "accept", "member-1"})
	r := outcome(tl, []string{auditLine("id1", "orders", 0, 2, 2, "accept", "share_fetch", "accepted")})
	if r.Acks != r.Client || r.Unaudited != 1 || r.Invented != 1 || r.Match {
		t.Errorf("%+v", r)
	}
}

func TestTallyIsBounded(t *testing.T) {
	tl := newTally()
	for i := range int64(maxDifferences + 5) {
		tl.acknowledged(ack{"demo", "orders", 0, i, "accept", "member-1"})
	}
	if r := tl.result(); len(tl.diff) != maxDifferences || r.Unaudited != maxDifferences+5 {
		t.Errorf("%d remembered, %d unaudited", len(tl.diff), r.Unaudited)
	}
}
