package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/policy"
)

// piece is asked and forwarded with one type.
func piece(first, last int64, typ int8) policy.Piece {
	return policy.Piece{First: first, Last: last, Asked: typ, Forwarded: typ}
}

func changedPiece(first, last int64, from, to int8, who, why string) policy.Piece {
	return policy.Piece{First: first, Last: last, Asked: from, Forwarded: to, Policy: who, Reason: why}
}

func withheldPiece(first, last int64, typ int8, code int16, who, why string) policy.Piece {
	return policy.Piece{First: first, Last: last, Asked: typ, Forwarded: typ, Withheld: true, ErrorCode: code, Policy: who, Reason: why}
}

// decided gives an outcome a decision about partition 4 of orders.
func decided(o *policy.Outcome, pieces ...policy.Piece) *policy.Outcome {
	o.Decision = &policy.Decision{Partitions: []policy.Decided{{TopicID: ordersID, Topic: "orders.v1", Index: 4, Pieces: pieces}}}
	return o
}

func lost(o *policy.Outcome) *policy.Outcome {
	o.Reply = policy.Reply{State: policy.Lost, Received: noon.Add(time.Second)}
	return o
}

// four acknowledges 10 to 19 as accepted and 20 to 24 as rejected; the broker answers with code.
func four(t testing.TB, code int16) *policy.Outcome {
	return answered(share(t, orders(4, batch(10, 19, 1), batch(20, 24, 3))), row(ordersID, 4, code))
}

// both changes 20 to 22 and withholds 23 to 24 of four.
func both(o *policy.Outcome) *policy.Outcome {
	return decided(o, piece(10, 19, 1), changedPiece(20, 22, 3, 2, "retry", "not poison"),
		withheldPiece(23, 24, 3, 121, "dlq", "the dead letter is not durable"))
}

// failing is a chain of which one step failed.
func failing(mode policy.FailureMode) []policy.Step {
	return []policy.Step{{Policy: "quiet", Took: time.Millisecond},
		{Policy: "retry", Took: 50 * time.Millisecond, Err: errors.New("no answer within 50ms"), Failed: mode}}
}

// TestGoldenEdits compares the lines about what policies did, byte by byte.
func TestGoldenEdits(t *testing.T) {
	changed := decided(four(t, 0), piece(10, 19, 1), changedPiece(20, 24, 3, 2, "retry", ""))
	refused := both(four(t, 42))
	session := both(four(t, 0))
	session.Reply.ErrorCode, session.Reply.Partitions = 122, nil
	all := decided(four(t, 0), withheldPiece(10, 19, 1, 56, "retry", "the policy failed"), withheldPiece(20, 24, 3, 56, "retry", "the policy failed"))
	all.Reply.Partitions, all.Decision.Trail = nil, failing(policy.FailRespond)
	repeated := answered(share(t, orders(4, batch(0, 9, 3)), orders(4, batch(10, 19, 1), batch(20, 24, 3))), row(ordersID, 4, 0))
	effects := decided(four(t, 0), piece(10, 19, 1), piece(20, 24, 3))
	effects.Decision.DelayForward, effects.Decision.DelayReply = 5*time.Millisecond, 1500*time.Microsecond
	effects.Decision.Close, effects.Decision.Trail = policy.CloseReplied, failing(policy.FailForward)
	effects.Decision.Replies = []policy.ReplyEdit{{TopicID: ordersID, Partition: 4, ErrorCode: 6}, {TopLevel: true, ErrorCode: 41}}
	closed := lost(both(four(t, 0)))
	closed.Decision.Close, closed.Decision.Trail = policy.CloseBefore, failing(policy.FailClose)
	gone := lost(decided(four(t, 0), piece(10, 19, 1), piece(20, 24, 3)))
	gone.Decision.Close, gone.Decision.Gone = policy.CloseBefore, true
	gone.Decision.Trail = []policy.Step{{Policy: "slow", Err: errors.New("the request was given up"), Failed: policy.FailClose}}
	session2 := lost(share(t))
	session2.Request.SessionEpoch, session2.Decision = -1, &policy.Decision{Close: policy.CloseBefore}
	golden(t, "edits.jsonl", changed, both(four(t, 0)), refused, session, lost(both(four(t, 0))), all, both(repeated), effects, closed, gone, session2)
}

// TestUnedited: where policies let everything pass and nothing else happened, the lines are those without policies.
func TestUnedited(t *testing.T) {
	outcomes := func(d *policy.Decision) (all []*policy.Outcome) {
		for _, o := range goldenOutcomes(t) {
			o.Decision = d
			all = append(all, o)
		}
		return all
	}
	want, _ := audit(t, outcomes(nil)...)
	asIs := decided(four(t, 0), piece(1040, 1047, 1), changedPiece(1048, 1048, 3, 3, "undone", "changed there and back"))
	asIs.Decision.Partitions = append(asIs.Decision.Partitions, policy.Decided{TopicID: otherID, Malformed: true})
	asIs.Decision.Trail = []policy.Step{{Policy: "quiet", Took: time.Second, Reason: "all is well"}}
	for name, d := range map[string]*policy.Decision{"nothing": {}, "as it was": asIs.Decision} {
		if got, _ := audit(t, outcomes(d)...); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestWithheldVerdict is the table of what a client was told about what was withheld.
func TestWithheldVerdict(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*policy.Outcome)
		want string // state scope answered_by code reason
	}{
		{"the policy's code", func(*policy.Outcome) {}, "not_sent partition proxy 121 "},
		{"no row", func(o *policy.Outcome) { o.Reply.Partitions = nil }, "not_sent partition proxy 121 "},
		{"one retriable code for a part", func(o *policy.Outcome) { o.Decision.Partitions[0].Pieces[2].ErrorCode = 56 }, "not_sent partition proxy 121 "},
		{"the broker's row", func(o *policy.Outcome) { o.Reply.Partitions[0].ErrorCode = 6 }, "not_sent partition broker 6 "},
		{"the broker's top level", func(o *policy.Outcome) { o.Reply.ErrorCode = 123 }, "not_sent request broker 123 "},
		{"lost", func(o *policy.Outcome) { lost(o) }, "not_sent partition  null reply_lost"},
		{"unreadable", func(o *policy.Outcome) { o.Reply.State = policy.Unreadable }, "not_sent partition  null reply_unreadable"},
		{"not seen", func(o *policy.Outcome) { o.Reply = policy.Reply{} }, "not_sent partition  null reply_not_seen"},
		{"cut", func(o *policy.Outcome) { o.Decision.Close = policy.CloseAfter }, "not_sent partition  null closed_by_policy"},
		{"cut inside", func(o *policy.Outcome) { o.Decision.Close = policy.CloseTruncated }, "not_sent partition  null closed_by_policy"},
		{"cut behind", func(o *policy.Outcome) { o.Decision.Close = policy.CloseReplied }, "not_sent partition proxy 121 "},
		{"another answer", func(o *policy.Outcome) {
			o.Decision.Replies = []policy.ReplyEdit{{TopicID: ordersID, Partition: 4, ErrorCode: 6}}
		}, "not_sent partition proxy 121 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := both(four(t, 0))
			c.set(o)
			_, events := audit(t, o)
			if len(events) != 2 {
				t.Fatalf("%d events, want 2", len(events))
			}
			v, code := events[1].Verdict, "null"
			if v.ErrorCode != nil {
				code = fmt.Sprint(*v.ErrorCode)
				if v.ErrorName != ErrorName(*v.ErrorCode) {
					t.Errorf("error name %s", v.ErrorName)
				}
			}
			if got := fmt.Sprint(v.State, " ", v.Scope, " ", v.AnsweredBy, " ", code, " ", v.Reason); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestAnswers: an error that a policy put into the answer is shown where the client got it, and the verdict stays the broker's.
func TestAnswers(t *testing.T) {
	one, whole := policy.ReplyEdit{TopicID: ordersID, Partition: 4, ErrorCode: 6}, policy.ReplyEdit{TopLevel: true, ErrorCode: 41}
	for _, c := range []struct {
		name    string
		replies []policy.ReplyEdit
		set     func(*policy.Outcome)
		want    string
	}{
		{"partition", []policy.ReplyEdit{one}, nil, "partition 6 NOT_LEADER_OR_FOLLOWER"},
		{"top level", []policy.ReplyEdit{whole}, nil, "request 41 NOT_CONTROLLER"},
		{"another partition", []policy.ReplyEdit{{TopicID: otherID, Partition: 4, ErrorCode: 6}}, nil, ""},
		{"a row that is missing", []policy.ReplyEdit{one}, func(o *policy.Outcome) { o.Reply.Partitions = nil }, "partition 6 NOT_LEADER_OR_FOLLOWER"},
		{"the broker's row wins", []policy.ReplyEdit{one}, func(o *policy.Outcome) { o.Reply.Partitions[0].ErrorCode = 121 }, ""},
		{"the broker's row, our top level", []policy.ReplyEdit{one, whole}, func(o *policy.Outcome) { o.Reply.Partitions[0].ErrorCode = 121 },
			"request 41 NOT_CONTROLLER"},
		{"the broker's top level wins", []policy.ReplyEdit{one, whole}, func(o *policy.Outcome) { o.Reply.ErrorCode = 122 }, ""},
		{"a part is changed", []policy.ReplyEdit{one}, func(o *policy.Outcome) {
			o.Decision.Partitions[0].Pieces = []policy.Piece{piece(10, 19, 1), changedPiece(20, 24, 3, 2, "p", "")}
		}, "partition 6 NOT_LEADER_OR_FOLLOWER"},
		{"the code of what is withheld wins", []policy.ReplyEdit{one}, func(o *policy.Outcome) {
			o.Decision.Partitions[0].Pieces = []policy.Piece{piece(10, 19, 1), withheldPiece(20, 24, 3, 121, "p", "")}
		}, ""},
		{"lost", []policy.ReplyEdit{one, whole}, func(o *policy.Outcome) { lost(o) }, ""},
		{"cut", []policy.ReplyEdit{one, whole}, func(o *policy.Outcome) { o.Decision.Close = policy.CloseAfter }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, plain := decided(four(t, 0), piece(10, 19, 1), piece(20, 24, 3)), decided(four(t, 0), piece(10, 24, 1))
			o.Decision.Replies = c.replies
			if c.set != nil {
				c.set(o)
				c.set(plain)
			}
			plain.Decision = nil
			_, events := audit(t, o, plain)
			got := ""
			for _, a := range events[0].Policy {
				if a.Action == "answer" {
					got += fmt.Sprintf("%s %d %s", a.Scope, a.ErrorCode, a.ErrorName)
				}
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if v, want := events[0].Verdict, events[len(events)-1].Verdict; v.State != want.State || v.AnsweredBy != want.AnsweredBy || v.ErrorName != want.ErrorName {
				t.Errorf("verdict %+v, want the broker's %+v", v, want)
			}
		})
	}
}

// TestWithheldRepeated: of a partition that is named twice, the event of what was forwarded shows what is superseded; where there is none, the
// other.
func TestWithheldRepeated(t *testing.T) {
	again := func() *policy.Outcome {
		return answered(share(t, orders(4, batch(0, 9, 3)), orders(4, batch(10, 19, 1), batch(20, 24, 3))), row(ordersID, 4, 0))
	}
	all := decided(again(), withheldPiece(10, 19, 1, 121, "p", ""), withheldPiece(20, 24, 3, 121, "p", ""))
	_, events := audit(t, all, both(again()))
	if len(events) != 3 {
		t.Fatalf("%d events, want 3", len(events))
	}
	for i, want := range []struct {
		superseded bool
		records    Offset
		anomalies  int
	}{{true, 15, 1}, {true, 13, 1}, {false, 2, 0}} {
		e := events[i]
		if e.Ack.Asked[0].Superseded != want.superseded || e.Ack.Records != want.records || len(e.Anomalies) != want.anomalies {
			t.Errorf("event %d: %+v, anomalies %q", i, e.Ack, e.Anomalies)
		}
	}
}

// TestManyFailures: a line has room for some failed steps, and counts the rest.
func TestManyFailures(t *testing.T) {
	o := both(four(t, 0))
	for i := range 40 {
		o.Decision.Trail = append(o.Decision.Trail, policy.Step{Policy: fmt.Sprint("p", i), Err: errors.New(strings.Repeat("\x01", 500))})
	}
	_, events := audit(t, o)
	for _, e := range events {
		shown, omitted := 0, 0
		for _, a := range e.Policy {
			if a.Action == "failed" && a.Omitted == 0 {
				shown++
			}
			omitted += a.Omitted
		}
		if shown < 2 || shown+omitted != 40 {
			t.Errorf("%d failures shown, %d omitted", shown, omitted)
		}
	}
}
