package audit

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// decided gives o a decision about partition 4 of orders.
func decided(o *policy.Outcome, pieces ...policy.Piece) *policy.Outcome {
	o.Decision = &policy.Decision{Partitions: []policy.Decided{{TopicID: ordersID, Index: 4, Pieces: pieces}}}
	return o
}

func kept(first, last int64, t int8) policy.Piece {
	return policy.Piece{First: first, Last: last, Asked: t, Forwarded: t}
}

func changed(first, last int64, from, to int8) policy.Piece {
	return policy.Piece{First: first, Last: last, Asked: from, Forwarded: to, Policy: "p", Reason: "why"}
}

func withheld(first, last int64, t int8) policy.Piece {
	return policy.Piece{First: first, Last: last, Asked: t, Forwarded: t, Withheld: true, ErrorCode: 121, Policy: "q"}
}

// part of a line from the acknowledgement to the anomalies, without the constant members.
func said(t *testing.T, line string) string {
	t.Helper()
	_, s, ok := strings.Cut(line, `"mode":"not_observable",`)
	if !ok {
		t.Fatal(line)
	}
	return strings.NewReplacer(`"lock_timeout_ms":30000`, "L", `"scope":"partition"`, "P", `,"error_message":null`, "").Replace(s)
}

func TestDecisionsInTheLog(t *testing.T) {
	ask := func() *policy.Outcome { return share(t, orders(4, batch(0, 9, policy.Reject))) }
	failing := decided(answered(ask(), row(ordersID, 4, 0)), kept(0, 9, 3))
	failing.Decision.Trail = []policy.Step{{Policy: "p"}, {Policy: "late", Err: errors.New("no answer"), Took: 2 * time.Millisecond}}
	closing := decided(ask(), kept(0, 9, 3))
	closing.Decision.Close, closing.Reply = policy.CloseBefore, policy.Reply{State: policy.Lost, Received: noon}
	gone := decided(ask(), kept(0, 9, 3))
	gone.Decision.Close, gone.Decision.Gone, gone.Reply = policy.CloseBefore, true, policy.Reply{State: policy.Lost, Received: noon}
	lost := decided(ask(), withheld(0, 9, 3))
	lost.Reply = policy.Reply{State: policy.Lost, Received: noon}
	told := decided(answered(ask(), row(ordersID, 4, 0)), kept(0, 9, 3))
	told.Decision.Replies, told.Decision.DelayReply = []policy.ReplyEdit{{TopicID: ordersID, Partition: 4, ErrorCode: 124}}, time.Second
	const whole = `"asked":[{"first":0,"last":9,"type":"reject"}],"forwarded":`
	for name, c := range map[string]struct {
		o    *policy.Outcome
		want []string
	}{
		"nothing": {decided(answered(ask(), row(ordersID, 4, 0)), kept(0, 9, 3)), []string{
			whole + `"same","records":10,L},"verdict":{"state":"accepted",P,"answered_by":"broker","error_code":0,"error_name":"NONE"},"anomalies":[]}`}},
		"changed": {decided(answered(ask(), row(ordersID, 4, 0)), kept(0, 4, 3), changed(5, 9, 3, 2)), []string{
			`"asked":[{"first":0,"last":4,"type":"reject"},{"first":5,"last":9,"type":"reject"}],` +
				`"forwarded":[{"first":0,"last":4,"type":"reject"},{"first":5,"last":9,"type":"release"}],"records":10,L},` +
				`"verdict":{"state":"accepted",P,"answered_by":"broker","error_code":0,"error_name":"NONE"},` +
				`"policy":[{"name":"p","action":"change","records":5,"reason":"why"}],"anomalies":[]}`}},
		"a part withheld": {decided(answered(ask(), row(ordersID, 4, 0)), kept(0, 4, 3), withheld(5, 9, 3)), []string{
			`"asked":[{"first":0,"last":4,"type":"reject"}],"forwarded":"same","records":5,L},"verdict":{"state":"accepted",P,"answered_by":"broker",` +
				`"error_code":0,"error_name":"NONE"},"policy":[{"name":"q","action":"withhold","records":5,"reason":null}],"anomalies":[]}`,
			`"asked":[{"first":5,"last":9,"type":"reject"}],"forwarded":[],"records":5,L},"verdict":{"state":"not_sent",P,"answered_by":"proxy",` +
				`"error_code":121,"error_name":"INVALID_RECORD_STATE"},"policy":[{"name":"q","action":"withhold","records":5,"reason":null}],"anomalies":[]}`}},
		"all withheld": {decided(answered(ask()), withheld(0, 9, 3)), []string{
			whole + `[],"records":10,L},"verdict":{"state":"not_sent",P,"answered_by":"proxy","error_code":121,"error_name":"INVALID_RECORD_STATE"},` +
				`"policy":[{"name":"q","action":"withhold","records":10,"reason":null}],"anomalies":[]}`}},
		"the broker's error wins": {decided(answered(ask(), row(ordersID, 4, 3)), withheld(0, 9, 3)), []string{
			whole + `[],"records":10,L},"verdict":{"state":"not_sent",P,"answered_by":"broker","error_code":3,"error_name":"UNKNOWN_TOPIC_OR_PARTITION"},` +
				`"policy":[{"name":"q","action":"withhold","records":10,"reason":null}],"anomalies":[]}`}},
		"the answer is lost": {lost, []string{
			whole + `[],"records":10},"verdict":{"state":"not_sent","scope":"request","answered_by":null,"error_code":null,"error_name":null,"reason":"reply_lost"},` +
				`"policy":[{"name":"q","action":"withhold","records":10,"reason":null}],"anomalies":[]}`}},
		"failed": {failing, []string{
			whole + `"same","records":10,L},"verdict":{"state":"accepted",P,"answered_by":"broker","error_code":0,"error_name":"NONE"},` +
				`"policy":[{"name":"late","action":"failed","error":"no answer","did":"forward","took_ms":2.000}],"anomalies":[]}`}},
		"closed": {closing, []string{
			whole + `[],"records":10},"verdict":{"state":"not_sent","scope":"request","answered_by":"proxy","error_code":null,"error_name":null,` +
				`"reason":"closed_by_policy"},"policy":[{"action":"close","at":"before"}],"anomalies":[]}`}},
		"gone": {gone, []string{
			whole + `[],"records":10},"verdict":{"state":"not_sent","scope":"request","answered_by":"proxy","error_code":null,"error_name":null,` +
				`"reason":"client_gone"},"policy":[{"action":"close","at":"before"}],"anomalies":[]}`}},
		"the client is told otherwise": {told, []string{
			whole + `"same","records":10,L},"verdict":{"state":"accepted",P,"answered_by":"broker","error_code":0,"error_name":"NONE"},` +
				`"policy":[{"action":"delay","forward_ms":0,"reply_ms":1000},{"action":"answer","error_code":124,"error_name":"FENCED_STATE_EPOCH"}],"anomalies":[]}`}},
	} {
		t.Run(name, func(t *testing.T) {
			lines, _ := audit(t, c.o)
			if typ, n := eventsOf(c.o); typ != shareAck || int(n) != len(c.want) {
				t.Errorf("counted as %d events of type %v, %d expected", n, typ, len(c.want))
			}
			var got []string
			for _, line := range lines {
				if strings.Contains(line, `"type":"share.ack"`) {
					got = append(got, strings.TrimSuffix(said(t, line), "\n"))
				}
			}
			if len(got) != len(c.want) {
				t.Fatalf("%d lines: %s", len(got), strings.Join(got, "\n"))
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("is   %s\nwant %s", got[i], c.want[i])
				}
			}
		})
	}
}

// TestDecisionsAddUp: whatever was decided, the events' records add up to what was asked, lines stay short, and parts cover each other.
func TestDecisionsAddUp(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		n, per := 1+rnd.IntN(900), int64(1+rnd.IntN(3))
		var b []codec.AckBatch
		var pieces []policy.Piece
		for i := range int64(n) {
			first, last := i*per*2, i*per*2+per-1
			b = append(b, batch(first, last, policy.Reject))
			pieces = append(pieces, []policy.Piece{kept(first, last, 3), changed(first, last, 3, 2), withheld(first, last, 3)}[rnd.IntN(3)])
		}
		for i := range pieces {
			pieces[i].Policy = strings.Repeat("p", rnd.IntN(300))
		}
		o := decided(answered(share(t, orders(4, b...)), row(ordersID, 4, 0)), pieces...)
		var total Offset
		ids := map[string]bool{}
		lines, events := audit(t, o)
		for i, e := range events {
			if e.Type != "share.ack" {
				continue
			}
			total += e.Ack.Records
			ids[e.ID] = true
			if len(lines[i]) > maxLine {
				t.Fatalf("a line of %d bytes", len(lines[i]))
			}
		}
		if _, want := eventsOf(o); int64(total) != int64(n)*per || uint64(len(ids)) != want {
			t.Fatalf("%d records in %d events, want %d in %d", total, len(ids), int64(n)*per, want)
		}
	}
}
