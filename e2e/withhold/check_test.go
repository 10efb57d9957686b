package withhold

import (
	"testing"

	"github.com/ackproxy/ackproxy/e2e/ledger"
	"github.com/ackproxy/ackproxy/policy"
)

func TestAgree(t *testing.T) {
	ok, failed, silent := ledger.Claim{Type: "accept", Answered: true}, ledger.Claim{Type: "accept", Answered: true, Error: "no"}, ledger.Claim{Type: "accept"}
	told := func(codes ...int16) (all []entry) {
		for _, c := range codes {
			all = append(all, entry{kind: "accept", told: c})
		}
		return all
	}
	for _, c := range []struct {
		name    string
		claims  []ledger.Claim
		entries []entry
		want    bool
	}{
		{"nothing", nil, nil, true},
		{"success", []ledger.Claim{ok}, told(0), true},
		{"success that was withheld", []ledger.Claim{ok}, told(121), false},
		{"failure of what was told to have succeeded", []ledger.Claim{failed}, told(0), false},
		{"withheld, then delivered again", []ledger.Claim{failed, ok}, told(121, 0), true},
		{"tried again", []ledger.Claim{ok}, told(56, 56, 0), true},
		{"tried again in vain", []ledger.Claim{failed}, told(56, 121), true},
		{"tried again after what is final", []ledger.Claim{ok}, told(121, 0), false},
		{"not sent", []ledger.Claim{failed, ok}, told(0), true},
		{"success that was not sent", []ledger.Claim{ok, ok}, told(0), false},
		{"invented", []ledger.Claim{ok}, told(0, 0), false},
		{"no result", []ledger.Claim{silent}, told(0), true},
		{"another type", []ledger.Claim{ok}, []entry{{kind: "reject"}}, false},
	} {
		if got := agree(c.claims, c.entries); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestTold(t *testing.T) {
	held := func(first int64, code int16) piece {
		return piece{Range: policy.Range{First: first, Last: first, Type: policy.Accept}, withheld: true, code: code}
	}
	sent := piece{Range: policy.Range{First: 9, Last: 9, Type: policy.Accept}}
	for _, c := range []struct {
		name        string
		top, broker int16
		pieces      []piece
		want        int16
	}{
		{"forwarded", 0, 0, []piece{sent}, 0},
		{"the broker's error", 0, 42, []piece{held(1, 124), sent}, 42},
		{"an error of the whole answer", 123, 42, []piece{held(1, 124)}, 123},
		{"withheld", 0, 0, []piece{held(1, 124), sent}, 124},
		{"withheld with no code", 0, 0, []piece{held(1, 0)}, 121},
		{"the same twice", 0, 0, []piece{held(1, 0), held(3, 121)}, 121},
		{"with different codes", 0, 0, []piece{held(1, 124), held(2, 42)}, 121},
		{"retriable", 0, 0, []piece{held(1, 56)}, 56},
		{"retriable in part", 0, 0, []piece{held(1, 56), sent}, 121},
	} {
		d := &decision{top: c.top}
		if got := d.told(&part{code: c.broker, pieces: c.pieces}); got != c.want {
			t.Errorf("%s: told %d, want %d", c.name, got, c.want)
		}
	}
}
