package audit

import (
	"slices"
	"testing"

	"github.com/ackproxy/ackproxy/policy"
)

// TestVerdicts is the table of what a reply means for what was asked.
func TestVerdicts(t *testing.T) {
	ok, bad := row(ordersID, 4, 0), row(ordersID, 4, 121)
	for _, c := range []struct {
		name         string
		reply        func(*policy.Reply)
		state, scope string
		code         int16 // -1: null
		errorName    string
		reason       string
		anomaly      string
	}{
		{name: "not refused", reply: rows(ok), state: "accepted", scope: "partition", errorName: "NONE"},
		{name: "refused", reply: rows(bad), state: "refused", scope: "partition", code: 121, errorName: "INVALID_RECORD_STATE"},
		{name: "two rows, the later one not zero", reply: rows(ok, bad), state: "refused", scope: "partition", code: 121, errorName: "INVALID_RECORD_STATE"},
		{name: "two rows, the earlier one not zero", reply: rows(bad, ok), state: "refused", scope: "partition", code: 121, errorName: "INVALID_RECORD_STATE"},
		{name: "rows of others", reply: rows(row(otherID, 4, 121), row(ordersID, 5, 121), ok), state: "accepted", scope: "partition", errorName: "NONE"},
		{name: "no row", reply: rows(row(ordersID, 5, 0)), state: "unknown", scope: "partition", code: -1,
			reason: "partition_missing_in_reply", anomaly: "partition_missing_in_reply"},
		{name: "top level", reply: top(123), state: "refused", scope: "request", code: 123, errorName: "INVALID_SHARE_SESSION_EPOCH"},
		{name: "session limit", reply: top(133), state: "refused", scope: "request", code: 133, errorName: "SHARE_SESSION_LIMIT_REACHED"},
		{name: "top level beats rows", reply: func(r *policy.Reply) { rows(ok)(r); top(122)(r) },
			state: "refused", scope: "request", code: 122, errorName: "SHARE_SESSION_NOT_FOUND"},
		{name: "a code of no release", reply: top(999), state: "refused", scope: "request", code: 999},
		{name: "unknown server error", reply: rows(row(ordersID, 4, -1)), state: "refused", scope: "partition", code: -1, errorName: "UNKNOWN_SERVER_ERROR"},
		{name: "leader", reply: rows(row(ordersID, 4, 6)), state: "refused", scope: "partition", code: 6, errorName: "NOT_LEADER_OR_FOLLOWER"},
		{name: "lost", reply: func(r *policy.Reply) { rows(ok)(r); r.State = policy.Lost },
			state: "unknown", scope: "request", code: -1, reason: "reply_lost"},
		{name: "unreadable", reply: func(r *policy.Reply) { r.State = policy.Unreadable },
			state: "unknown", scope: "request", code: -1, reason: "reply_unreadable"},
		{name: "no reply given", reply: func(r *policy.Reply) { *r = policy.Reply{} },
			state: "unknown", scope: "request", code: -1, reason: "reply_not_seen"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := share(t, orders(4, batch(10, 12, 1)))
			c.reply(&o.Reply)
			_, events := audit(t, o)
			if len(events) != 1 {
				t.Fatalf("%d events, want 1", len(events))
			}
			e, v := events[0], events[0].Verdict
			if e.Type != "share.ack" || v.State != c.state || v.Scope != c.scope || v.ErrorName != c.errorName || v.Reason != c.reason {
				t.Errorf("%s %+v", e.Type, v)
			}
			known := c.state != "unknown"
			if known != (v.ErrorCode != nil) || known && *v.ErrorCode != c.code || known != (v.AnsweredBy == "broker") {
				t.Errorf("code %v, answered by %q", v.ErrorCode, v.AnsweredBy)
			}
			var want []string
			if c.anomaly != "" {
				want = []string{c.anomaly}
			}
			if !slices.Equal(e.Anomalies, want) {
				t.Errorf("anomalies %q, want %q", e.Anomalies, want)
			}
		})
	}
}

func rows(r ...policy.PartitionResult) func(*policy.Reply) {
	return func(reply *policy.Reply) { reply.Partitions = r }
}

func top(code int16) func(*policy.Reply) {
	return func(reply *policy.Reply) { reply.ErrorCode = code }
}

// TestOneEventAPartition: entries without batches only list a partition, and say nothing.
func TestOneEventAPartition(t *testing.T) {
	o := share(t, orders(0, batch(0, 1, 1)), orders(1), part{otherID, 0, orders(0, batch(5, 5, 2), batch(6, 9, 3)).batches})
	o.Request.Carrier, o.Request.APIKey = policy.ShareFetch, 78
	answered(o, row(otherID, 0, 0), row(ordersID, 0, 121), row(ordersID, 1, 0))
	_, events := audit(t, o)
	if len(events) != 2 {
		t.Fatalf("%d events, want 2", len(events))
	}
	first, second := events[0], events[1]
	if first.Verdict.State != "refused" || second.Verdict.State != "accepted" {
		t.Errorf("verdicts %s and %s", first.Verdict.State, second.Verdict.State)
	}
	if first.Target.Topic != "orders.v1" || first.Target.TopicNameFrom != "metadata-cache" || first.Target.TopicID != ordersID.String() {
		t.Errorf("target %+v", first.Target)
	}
	if second.Target.Topic != "" || second.Target.TopicNameFrom != "unknown" || second.Target.TopicID != otherID.String() {
		t.Errorf("target %+v", second.Target)
	}
	if len(second.Ack.Asked) != 2 || second.Ack.Records != 5 || second.Ack.Mode != "not_observable" {
		t.Errorf("ack %+v", second.Ack)
	}
	if first.Request.API != "ShareFetch" || first.Request.Carrier != "share_fetch" || first.ID == second.ID {
		t.Errorf("request %+v, ids %s %s", first.Request, first.ID, second.ID)
	}
}

// TestRepeatedPartition: all of it is audited once, with one verdict, and what a later entry replaces is not counted.
func TestRepeatedPartition(t *testing.T) {
	for _, c := range []struct {
		name    string
		entries []part
		anomaly string
		records Offset
	}{
		{"the same again", []part{orders(4, batch(0, 4, 1)), orders(4, batch(0, 4, 1))}, "duplicate_ack", 5},
		{"another type", []part{orders(4, batch(0, 4, 1)), orders(4, batch(0, 4, 3))}, "conflicting_acks", 5},
		{"other offsets", []part{orders(4, batch(0, 4, 1)), orders(5, batch(9, 9, 1)), orders(4, batch(5, 5, 1))}, "conflicting_acks", 1},
		{"more batches", []part{orders(4, batch(0, 4, 1)), orders(4, batch(0, 4, 1), batch(5, 5, 1))}, "conflicting_acks", 6},
		{"three", []part{orders(4, batch(0, 4, 1)), orders(4, batch(7, 7, 2)), orders(4, batch(0, 4, 1))}, "conflicting_acks", 5},
		{"nothing", []part{orders(4, batch(0, 4, 1)), orders(4), orders(4)}, "conflicting_acks", 0},
		{"nothing in between", []part{orders(4), orders(4, batch(0, 4, 1)), orders(4), orders(4, batch(5, 5, 1))}, "conflicting_acks", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, events := audit(t, answered(share(t, c.entries...), row(ordersID, 4, 0), row(ordersID, 5, 0)))
			e := events[0]
			if !slices.Equal(e.Anomalies, []string{c.anomaly}) || e.Ack.Records != c.records || e.Verdict.State != "accepted" {
				t.Errorf("anomalies %q, records %d, %s", e.Anomalies, e.Ack.Records, e.Verdict.State)
			}
			n, superseded := 0, 0
			for _, p := range c.entries {
				if p.index == 4 {
					n += len(p.batches)
				}
			}
			for _, r := range e.Ack.Asked {
				if r.Superseded {
					superseded++
				}
			}
			if len(e.Ack.Asked) != n || superseded == 0 || (superseded == n) != (c.records == 0) {
				t.Errorf("%d ranges, want %d; %d superseded", len(e.Ack.Asked), n, superseded)
			}
		})
	}
}

// TestManyPartitions uses the map instead of the scan; the answer comes backwards and without one of them.
func TestManyPartitions(t *testing.T) {
	const n = 3 * smallRequest
	var entries []part
	var rows []policy.PartitionResult
	for i := range int32(n) {
		entries = append(entries, orders(i, batch(int64(i), int64(i), 1)))
		if i != 20 {
			rows = append(rows, row(ordersID, n-1-i, int16((n-1-i)%2)*121))
		}
	}
	entries = append(entries, orders(2, batch(2, 2, 3)))
	_, events := audit(t, answered(share(t, entries...), rows...))
	if len(events) != n {
		t.Fatalf("%d events, want %d", len(events), n)
	}
	for i, e := range events {
		want := [...]string{"accepted", "refused"}[i%2]
		if i == n-1-20 {
			want = "unknown"
		}
		if int(e.Target.Partition) != i || e.Verdict.State != want || (len(e.Ack.Asked) == 2) != (i == 2) {
			t.Errorf("event %d: partition %d %s, %d ranges", i, e.Target.Partition, e.Verdict.State, len(e.Ack.Asked))
		}
	}
}

// TestNoEvent: polls say nothing; a close does.
func TestNoEvent(t *testing.T) {
	poll := share(t, orders(0), orders(1))
	closing := share(t)
	closing.Request.SessionEpoch = -1
	closingListed := share(t, orders(0))
	closingListed.Request.SessionEpoch = -1
	closingListed.Reply.ErrorCode = 122
	closingAcks := answered(share(t, orders(4, batch(1, 2, 2))), row(ordersID, 4, 0))
	closingAcks.Request.SessionEpoch = -1
	txn := share(t)
	txn.Request.Carrier, txn.Request.SessionEpoch = policy.TxnShareAcknowledge, -1
	_, events := audit(t, poll, share(t), closing, closingListed, closingAcks, txn)
	if len(events) != 3 {
		t.Fatalf("%d events, want 3", len(events))
	}
	for i, want := range []struct{ typ, state string }{{"share.session", "accepted"}, {"share.session", "refused"}, {"share.ack", "accepted"}} {
		e := events[i]
		if e.Type != want.typ || e.Verdict.State != want.state || !e.Request.ClosesSession || *e.Request.SessionEpoch != -1 {
			t.Errorf("event %d: %s %s, closes_session %v", i, e.Type, e.Verdict.State, e.Request.ClosesSession)
		}
	}
	if s := events[1].Verdict.Scope; s != "request" {
		t.Errorf("scope %s", s)
	}
}
