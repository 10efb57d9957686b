package policy

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestCode(t *testing.T) {
	forwarded := Piece{Asked: Accept, Forwarded: Accept}
	changed := Piece{Asked: Accept, Forwarded: Release}
	withheld := func(code int16) Piece { return Piece{Withheld: true, ErrorCode: code} }
	for _, tc := range []struct {
		name        string
		pieces      []Piece
		code        int16
		edited, all bool
	}{
		{"malformed", nil, 0, false, false},
		{"forwarded", []Piece{forwarded}, 0, false, false},
		{"changed", []Piece{forwarded, changed}, 0, true, false},
		{"all withheld", []Piece{withheld(42), withheld(42)}, 42, true, true},
		{"part withheld", []Piece{withheld(42), forwarded}, 42, true, false},
		{"all withheld, retriable", []Piece{withheld(56), withheld(56)}, 56, true, true},
		{"part withheld, retriable", []Piece{withheld(56), changed}, 121, true, false},
		{"mixed", []Piece{withheld(42), withheld(29)}, 121, true, true},
		{"mixed, retriable", []Piece{withheld(56), withheld(121)}, 121, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Decided{Pieces: tc.pieces}
			if d.Code() != tc.code || d.Edited() != tc.edited || d.AllWithheld() != tc.all {
				t.Errorf("code %d, edited %v, all withheld %v", d.Code(), d.Edited(), d.AllWithheld())
			}
			whole := Decision{Partitions: []Decided{{Pieces: []Piece{forwarded}}, d}}
			if whole.Edited() != tc.edited || whole.Answers() != (tc.code != 0) {
				t.Errorf("decision: edited %v, answers %v", whole.Edited(), whole.Answers())
			}
		})
	}
	if d := (Decision{Replies: []ReplyEdit{{TopLevel: true, ErrorCode: 30}}}); d.Edited() || !d.Answers() {
		t.Errorf("a reply edit: edited %v, answers %v", d.Edited(), d.Answers())
	}
}

// TestRetriable compares with what franz-go would send again; Java has three more.
func TestRetriable(t *testing.T) {
	java := map[int16]bool{51: true, 122: true, 123: true}
	for code := int16(-1); code < 200; code++ {
		e := kerr.TypedErrorForCode(code)
		want := java[code] || e != nil && e.Code == code && e.Retriable
		if retriable(code) != want {
			t.Errorf("code %d: %v, want %v", code, !want, want)
		}
	}
}
