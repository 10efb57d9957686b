package policy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/codec"
)

func change(first, last int64, to int8) Edit {
	return Edit{TopicID: orders, First: first, Last: last, Action: Change, Type: to}
}

func withhold(first, last int64, code int16) Edit {
	return Edit{TopicID: orders, First: first, Last: last, Action: Withhold, ErrorCode: code}
}

func edits(e ...Edit) Verdict { return Verdict{Edits: e} }

// changed, held are pieces of what was asked as Accept, by the n-th policy of the chain.
func changed(first, last int64, to int8, by string) Piece {
	return Piece{First: first, Last: last, Asked: Accept, Forwarded: to, Policy: by}
}

func held(first, last int64, forwarded int8, code int16, by string) Piece {
	return Piece{First: first, Last: last, Asked: Accept, Forwarded: forwarded, Withheld: true, ErrorCode: code, Policy: by}
}

// TestEditsCompose has a row for each rule of docs/policies.md about edits. The request accepts 0 to 9 and 20 to 29 of orders-0; policies
// are called a, b, c.
func TestEditsCompose(t *testing.T) {
	b20 := as(20, 29, Accept)
	for _, tc := range []struct {
		name     string
		verdicts []Verdict
		want     []Piece
	}{
		{"none", []Verdict{{}}, []Piece{as(0, 9, Accept), b20}},
		{"change a part", []Verdict{edits(change(3, 5, Reject))}, []Piece{as(0, 2, Accept), changed(3, 5, Reject, "a"), as(6, 9, Accept), b20}},
		{"only what is asked", []Verdict{edits(change(5, 22, Reject))},
			[]Piece{as(0, 4, Accept), changed(5, 9, Reject, "a"), changed(20, 22, Reject, "a"), as(23, 29, Accept)}},
		{"everything", []Verdict{edits(withhold(math.MinInt64, math.MaxInt64, 42))}, []Piece{held(0, 9, Accept, 42, "a"), held(20, 29, Accept, 42, "a")}},
		{"nothing that is asked", []Verdict{edits(change(10, 19, Reject), withhold(30, math.MaxInt64, 42))}, []Piece{as(0, 9, Accept), b20}},
		{"an unknown partition", []Verdict{edits(Edit{TopicID: payments, Last: 9, Type: Reject}), edits(Edit{TopicID: orders, Partition: 5, Last: 9})},
			[]Piece{as(0, 9, Accept), b20}},
		{"change then change, one verdict: last", []Verdict{edits(change(0, 9, Reject), change(5, 9, Release))},
			[]Piece{changed(0, 4, Reject, "a"), changed(5, 9, Release, "a"), b20}},
		{"change then change, two policies: last", []Verdict{edits(change(0, 9, Reject)), edits(change(5, 9, Release))},
			[]Piece{changed(0, 4, Reject, "a"), changed(5, 9, Release, "b"), b20}},
		{"change then withhold: withheld", []Verdict{edits(change(0, 9, Reject)), edits(withhold(0, 9, 42))}, []Piece{held(0, 9, Reject, 42, "b"), b20}},
		{"withhold then change: withheld", []Verdict{edits(withhold(0, 9, 42), change(0, 9, Reject)), edits(change(0, 9, Reject))},
			[]Piece{held(0, 9, Accept, 42, "a"), b20}},
		{"withhold then withhold: first", []Verdict{edits(withhold(0, 4, 42)), edits(withhold(0, 9, 29))},
			[]Piece{held(0, 4, Accept, 42, "a"), held(5, 9, Accept, 29, "b"), b20}},
		{"withhold with 0 is 121", []Verdict{edits(withhold(0, 9, 0))}, []Piece{held(0, 9, Accept, 121, "a"), b20}},
		{"change to the same type: no edit", []Verdict{edits(change(2, 4, Accept))}, []Piece{as(0, 9, Accept), b20}},
		{"change there and back", []Verdict{edits(change(0, 9, Reject)), edits(change(0, 9, Accept))}, []Piece{changed(0, 9, Accept, "b"), b20}},
		{"one offset", []Verdict{edits(withhold(9, 9, 42), withhold(20, 20, 42))},
			[]Piece{as(0, 8, Accept), held(9, 9, Accept, 42, "a"), held(20, 20, Accept, 42, "a"), as(21, 29, Accept)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var members []Member
			for i, v := range tc.verdicts {
				members = append(members, says(string(rune('a'+i)), v))
			}
			r := request(t, false, entry{orders, 0, []codec.AckBatch{batch(0, 9, Accept), batch(20, 29, Accept)}})
			d := chain(t, members...).Decide(context.Background(), r, topicName)
			for _, s := range d.Trail {
				if s.Err != nil {
					t.Error(s.Err)
				}
			}
			if got := d.Partitions[0].Pieces; !slices.Equal(got, tc.want) {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestReasons(t *testing.T) {
	own := change(5, 9, Reject)
	own.Reason = "poison"
	v := Verdict{Edits: []Edit{change(0, 4, Reject), own}, Reason: "quarantine"}
	d := chain(t, says("a", v)).Decide(context.Background(), request(t, false, accepting(0, 9)), nil)
	if p := d.Partitions[0].Pieces; len(p) != 2 || p[0].Reason != "quarantine" || p[1].Reason != "poison" || d.Trail[0].Reason != "quarantine" {
		t.Errorf("%+v", d)
	}
}

// TestInvalidVerdicts checks that nothing of an invalid verdict is applied and that it counts as a failure.
func TestInvalidVerdicts(t *testing.T) {
	renew := request(t, true, accepting(0, 9))
	plain := request(t, false, accepting(0, 9))
	old := request(t, true, accepting(0, 9))
	old.APIVersion = 1
	txn := request(t, false, accepting(0, 9))
	txn.Carrier, txn.APIVersion = TxnShareAcknowledge, 0
	for _, tc := range []struct {
		name string
		r    *Request
		v    Verdict
		want string // in the error, empty where the verdict is valid
	}{
		{"first after last", plain, edits(change(5, 4, Reject)), "edit 1: first offset 5, last 4"},
		{"type 5", plain, edits(change(0, 9, 5)), "type 5"},
		{"type -1", plain, edits(change(0, 9, -1)), "type -1"},
		{"Renew without the flag", plain, edits(change(0, 9, Renew)), "Renew"},
		{"Renew below version 2", old, edits(change(0, 9, Renew)), "Renew"},
		{"Renew", renew, edits(change(0, 9, Renew)), ""},
		{"Release in a transaction", txn, edits(change(0, 9, Release)), "Release"},
		{"Reject in a transaction", txn, edits(change(0, 9, Reject)), ""},
		{"an unknown partition does not excuse", plain, edits(Edit{TopicID: payments, First: 1, Type: Reject}), "first offset 1, last 0"},
		{"unknown action", plain, edits(Edit{TopicID: orders, Last: 9, Action: Withhold + 1}), "action"},
		{"the type of a withhold is not used", plain, edits(Edit{TopicID: orders, Last: 9, Action: Withhold, Type: 99}), ""},
		{"reply edit with 0", plain, Verdict{Replies: []ReplyEdit{{TopLevel: true}}}, "reply edit 0: error code 0"},
		{"negative delay", plain, Verdict{DelayReply: -1}, "delay"},
		{"unknown close", plain, Verdict{Close: CloseTruncated + 1}, "close"},
		{"close after -1 bytes", plain, Verdict{Close: CloseTruncated, CloseAfter: -1}, "-1 bytes"},
		{"too many edits", plain, Verdict{Edits: make([]Edit, maxEdits)}, "131073 edits"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.v.Edits = slices.Concat([]Edit{withhold(0, 1, 42)}, tc.v.Edits)
			tc.v.DelayForward += time.Second
			d := chain(t, says("a", tc.v), says("b", Verdict{})).Decide(context.Background(), tc.r, nil)
			err := d.Trail[0].Err
			switch {
			case len(d.Trail) != 2 || d.Trail[1].Err != nil:
				t.Errorf("trail %+v", d.Trail)
			case tc.want == "":
				if err != nil || !d.Edited() || d.DelayForward != time.Second {
					t.Errorf("%v, decision %+v", err, d)
				}
			case err == nil || !strings.Contains(err.Error(), "invalid verdict: ") || !strings.Contains(err.Error(), tc.want):
				t.Errorf("error %v, want one about %q", err, tc.want)
			case d.Edited() || d.Answers() || d.DelayForward != 0 || d.Close != CloseNever:
				t.Errorf("a part was applied: %+v", d)
			}
		})
	}
}

func TestEditsFromRenew(t *testing.T) {
	r := request(t, true, entry{orders, 0, []codec.AckBatch{batch(0, 4, Accept), batch(5, 9, Renew)}})
	d := chain(t, says("a", edits(change(0, 9, Release)))).Decide(context.Background(), r, nil)
	want := []Piece{changed(0, 4, Release, "a"), {First: 5, Last: 9, Asked: Renew, Forwarded: Release, Policy: "a"}}
	if !slices.Equal(d.Partitions[0].Pieces, want) {
		t.Errorf("%+v", d.Partitions[0].Pieces)
	}
}

func TestMalformedIsLeftAlone(t *testing.T) {
	r := request(t, false, accepting(9, 0))
	var seen []Partition
	c := chain(t, Member{Policy: fake{name: "a", decide: func(_ context.Context, r *Request) (Verdict, error) {
		seen = slices.Clone(r.Partitions)
		return edits(withhold(0, 9, 42)), nil
	}}})
	d := c.Decide(context.Background(), r, topicName)
	if len(d.Partitions) != 1 || !d.Partitions[0].Malformed || d.Edited() || d.Answers() || d.Trail[0].Err != nil {
		t.Errorf("%+v", d)
	}
	if len(seen) != 1 || !seen[0].Malformed || seen[0].Topic != "orders" || len(seen[0].Ranges) != 0 {
		t.Errorf("the policy saw %+v", seen)
	}
}

func TestDelaysAndClosesCompose(t *testing.T) {
	truncated := func(n int) Verdict { return Verdict{Close: CloseTruncated, CloseAfter: n} }
	after, replied := Verdict{Close: CloseAfter}, Verdict{Close: CloseReplied}
	for _, tc := range []struct {
		name     string
		verdicts []Verdict
		want     Decision
	}{
		{"delays add up", []Verdict{{DelayForward: 1, DelayReply: 10}, {DelayForward: 2, DelayReply: 20}}, Decision{DelayForward: 3, DelayReply: 30}},
		{"delays stop at the longest", []Verdict{{DelayForward: math.MaxInt64}, {DelayForward: 2}}, Decision{DelayForward: math.MaxInt64}},
		{"after before truncated", []Verdict{truncated(5), after, truncated(5)}, Decision{Close: CloseAfter}},
		{"truncated before replied", []Verdict{replied, truncated(5), replied}, Decision{Close: CloseTruncated, CloseAfter: 5}},
		{"fewer bytes", []Verdict{truncated(5), truncated(3), truncated(4)}, Decision{Close: CloseTruncated, CloseAfter: 3}},
		{"replied before never", []Verdict{{}, replied, {}}, Decision{Close: CloseReplied}},
		{"before before after", []Verdict{after, {Close: CloseBefore}}, Decision{Close: CloseBefore}},
		{"bytes without a truncation mean nothing", []Verdict{{Close: CloseReplied, CloseAfter: 9}}, Decision{Close: CloseReplied}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var members []Member
			for i, v := range tc.verdicts {
				members = append(members, says(fmt.Sprint(i), v))
			}
			d := chain(t, members...).Decide(context.Background(), request(t, false, accepting(0, 9)), nil)
			w := tc.want
			if d.DelayForward != w.DelayForward || d.DelayReply != w.DelayReply || d.Close != w.Close || d.CloseAfter != w.CloseAfter {
				t.Errorf("got %+v, want %+v", d, w)
			}
		})
	}
}

func TestFirstReplyEditWins(t *testing.T) {
	part := func(index int32, code int16) ReplyEdit {
		return ReplyEdit{TopicID: orders, Partition: index, ErrorCode: code}
	}
	top := func(code int16) ReplyEdit { return ReplyEdit{TopLevel: true, ErrorCode: code} }
	otherTop := top(4)
	otherTop.TopicID = payments
	d := chain(t, says("a", Verdict{Replies: []ReplyEdit{part(0, 1), part(0, 2)}}),
		says("b", Verdict{Replies: []ReplyEdit{top(3), part(0, 3), part(1, 3)}}),
		says("c", Verdict{Replies: []ReplyEdit{otherTop, part(1, 4)}})).Decide(context.Background(), request(t, false, accepting(0, 9)), nil)
	if want := []ReplyEdit{part(0, 1), top(3), part(1, 3)}; !slices.Equal(d.Replies, want) {
		t.Errorf("got %+v, want %+v", d.Replies, want)
	}
}

// TestVerdictsAreBounded has verdicts that would cost work or memory out of proportion fail.
func TestVerdictsAreBounded(t *testing.T) {
	types := make([]int8, 1<<14)
	for i := range types {
		types[i] = int8(1 + i%2)
	}
	fine := request(t, false, entry{orders, 0, []codec.AckBatch{batch(0, 1<<14-1, types...)}})
	wide := request(t, false, accepting(0, math.MaxInt64-1))
	var back, cuts []Edit
	for i := range int64(2 * maxTouches >> 14) {
		back = append(back, change(0, math.MaxInt64, int8(i%2)*3))
	}
	for i := range int64(MaxPieces / 2) {
		cuts = append(cuts, change(4*i+1, 4*i+2, Reject))
	}
	d := chain(t, says("a", edits(back...))).Decide(context.Background(), fine, nil)
	if err := d.Trail[0].Err; err == nil || d.Edited() {
		t.Errorf("edits over edits: %v", err)
	}
	d = chain(t, says("a", edits(cuts...))).Decide(context.Background(), wide, nil)
	var many *TooManyPiecesError
	if err := d.Trail[0].Err; !errors.As(err, &many) || many.Pieces != MaxPieces+1 || d.Edited() {
		t.Errorf("too many cuts: %v", err)
	}
	d = chain(t, says("a", edits(cuts[1:]...)), says("b", edits(change(2, 2, Release)))).Decide(context.Background(), wide, nil)
	if d.Trail[0].Err != nil || len(d.Partitions[0].Pieces) != MaxPieces-1 || d.Trail[1].Err == nil {
		t.Errorf("%d pieces, %v, %v", len(d.Partitions[0].Pieces), d.Trail[0].Err, d.Trail[1].Err)
	}
}
