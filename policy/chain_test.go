package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/codec"
)

func TestNewChainReportsAllMistakes(t *testing.T) {
	p := func(name string) Policy { return fake{name: name} }
	_, err := NewChain(Member{Policy: p("a")}, Member{Policy: p("")}, Member{}, Member{Policy: p("a")}, Member{Policy: p("b"), OnFailure: FailClose + 1},
		Member{Policy: p("c"), Timeout: -1}, Member{Policy: fake{name: "d", traits: Traits{Budget: -1}}})
	if err == nil {
		t.Fatal("no error")
	}
	for i, want := range []string{"policy 1: the name is empty", "policy 2: there is none", `policy 3: the name "a" is taken`,
		`policy 4: "b": failure mode`,
		`policy 5: "c": a negative time`, `policy 6: "d": a negative time`} {
		if lines := strings.Split(err.Error(), "\n"); len(lines) != 6 || !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d of %q is not %q", i, err, want)
		}
	}
	if c := chain(t, Member{Policy: p("a")}); c.Waits() {
		t.Error("a chain of policies that do not wait waits")
	}
	if c := chain(t, Member{Policy: p("a")}, Member{Policy: fake{name: "b", traits: Traits{Waits: true}}}); !c.Waits() {
		t.Error("a chain with a policy that waits does not")
	}
}

// TestEachSeesWhatIsLeft has a policy in the loop and one that waits look at what the first did.
func TestEachSeesWhatIsLeft(t *testing.T) {
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprint("waits=", waits), func(t *testing.T) {
			var before, after []Partition
			look := func(name string, at *[]Partition) Member {
				return Member{Policy: fake{name, Traits{Waits: waits, Budget: time.Minute}, func(_ context.Context, r *Request) (Verdict, error) {
					*at = nil
					for _, p := range r.Partitions {
						p.Ranges = slices.Clone(p.Ranges)
						*at = append(*at, p)
					}
					return Verdict{}, nil
				}}}
			}
			r := request(t, false, entry{orders, 0, []codec.AckBatch{batch(0, 4, Accept), batch(5, 9, Reject)}},
				entry{orders, 1, []codec.AckBatch{batch(7, 7, Accept)}}, entry{payments, 0, []codec.AckBatch{batch(1, 3, 1, 2, 1)}})
			gone := Edit{TopicID: orders, Partition: 1, First: 0, Last: 99, Action: Withhold}
			v := edits(withhold(0, 1, 42), change(5, 6, Accept), gone)
			d := chain(t, look("before", &before), says("edits", v), look("after", &after)).Decide(context.Background(), r, topicName)
			same := func(got []Partition, want ...Partition) bool {
				return slices.EqualFunc(got, want, func(a, b Partition) bool {
					return a.TopicID == b.TopicID && a.Topic == b.Topic && a.Index == b.Index && slices.Equal(a.Ranges, b.Ranges)
				})
			}
			third := Partition{TopicID: payments, Ranges: []Range{{1, 1, Accept}, {2, 2, Release}, {3, 3, Accept}}}
			if !same(before, Partition{TopicID: orders, Topic: "orders", Ranges: []Range{{0, 4, Accept}, {5, 9, Reject}}},
				Partition{TopicID: orders, Topic: "orders", Index: 1, Ranges: []Range{{7, 7, Accept}}}, third) {
				t.Errorf("before: %+v", before)
			}
			if !same(after, Partition{TopicID: orders, Topic: "orders", Ranges: []Range{{2, 6, Accept}, {7, 9, Reject}}}, third) {
				t.Errorf("after: %+v", after)
			}
			if r.Partitions != nil || len(d.Trail) != 3 || d.Partitions[1].Topic != "orders" || d.Partitions[2].Topic != "" {
				t.Errorf("left: %+v, %+v", r.Partitions, d)
			}
		})
	}
}

func TestFailureModes(t *testing.T) {
	broken := errors.New("broken")
	r := request(t, false, accepting(0, 9), entry{orders, 1, []codec.AckBatch{batch(0, 0, Reject)}}, entry{orders, 2, []codec.AckBatch{batch(1, 0, 1)}})
	for _, tc := range []struct {
		mode   FailureMode
		codes  []int16 // of the partitions
		close  Close
		trail  int
		pieces []Piece
	}{
		{FailForward, []int16{121, 0, 0}, CloseNever, 3, []Piece{held(0, 4, Accept, 56, "first"), as(5, 9, Accept)}},
		{FailRespond, []int16{56, 56, 0}, CloseNever, 3, nil},
		{FailClose, []int16{121, 0, 0}, CloseBefore, 2, []Piece{held(0, 4, Accept, 56, "first"), as(5, 9, Accept)}},
	} {
		t.Run(fmt.Sprint(tc.mode), func(t *testing.T) {
			left := -1
			last := Member{Policy: fake{name: "last", decide: func(_ context.Context, r *Request) (Verdict, error) {
				left = len(r.Partitions)
				return Verdict{}, nil
			}}}
			failing := Member{OnFailure: tc.mode, Policy: fake{name: "failing", decide: func(context.Context, *Request) (Verdict, error) {
				return edits(change(5, 9, Reject)), broken // a verdict beside an error is none
			}}}
			d := chain(t, says("first", edits(withhold(0, 4, 56))), failing, last).Decide(context.Background(), r, nil)
			if len(d.Trail) != tc.trail || !errors.Is(d.Trail[1].Err, broken) || d.Trail[1].Failed != tc.mode || d.Close != tc.close || d.Gone {
				t.Errorf("%+v", d)
			}
			for i, code := range tc.codes {
				if got := d.Partitions[i].Code(); got != code {
					t.Errorf("partition %d: code %d, want %d", i, got, code)
				}
			}
			if tc.pieces != nil && !slices.Equal(d.Partitions[0].Pieces, tc.pieces) {
				t.Errorf("pieces %+v", d.Partitions[0].Pieces)
			}
			if want := map[FailureMode]int{FailForward: 3, FailRespond: 1, FailClose: -1}[tc.mode]; left != want {
				t.Errorf("the next policy sees %d partitions, want %d", left, want)
			}
		})
	}
}

// TestClientGone ends the context before a chain, between two policies, and while one waits.
func TestClientGone(t *testing.T) {
	var cancel context.CancelFunc
	cancels := Member{Policy: fake{name: "cancels", decide: func(context.Context, *Request) (Verdict, error) { cancel(); return Verdict{}, nil }}}
	over := make(chan struct{})
	defer close(over)
	heedless := waiting(FailForward, func(context.Context, *Request) (Verdict, error) {
		cancel()
		<-over
		return Verdict{}, nil
	})
	heeding := waiting(FailForward, func(ctx context.Context, _ *Request) (Verdict, error) {
		cancel()
		return Verdict{}, ctx.Err()
	})
	for _, tc := range []struct {
		name    string
		members []Member
		early   bool
		trail   int
		gone    bool
	}{
		{"before", []Member{says("a", Verdict{})}, true, 0, true},
		{"between", []Member{cancels, says("a", Verdict{})}, false, 1, true},
		{"after the last", []Member{says("a", Verdict{}), cancels}, false, 2, false},
		{"heedless", []Member{heedless, says("a", Verdict{})}, false, 1, true},
		{"heeding", []Member{says("a", Verdict{}), heeding}, false, 2, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var ctx context.Context
			ctx, cancel = context.WithCancel(context.Background())
			defer cancel()
			if tc.early {
				cancel()
			}
			d := chain(t, tc.members...).Decide(ctx, request(t, false, accepting(0, 9)), nil)
			if len(d.Trail) != tc.trail || d.Gone != tc.gone || (d.Close == CloseBefore) != tc.gone || d.Edited() {
				t.Errorf("%+v", d)
			}
			if waited := tc.name[0] == 'h'; waited && !errors.Is(d.Trail[tc.trail-1].Err, context.Canceled) {
				t.Errorf("%v", d.Trail[tc.trail-1].Err)
			}
		})
	}
}

func TestCloseBeforeStopsTheChain(t *testing.T) {
	d := chain(t, says("a", Verdict{Close: CloseBefore, Edits: []Edit{withhold(0, 9, 42)}}), says("b", edits(change(0, 9, Reject)))).
		Decide(context.Background(), request(t, false, accepting(0, 9)), nil)
	if len(d.Trail) != 1 || d.Close != CloseBefore || d.Gone || d.Partitions[0].Code() != 42 {
		t.Errorf("%+v", d)
	}
}

func TestTooManyPiecesFailsEveryPolicy(t *testing.T) {
	types := make([]int8, MaxPieces+1)
	for i := range types {
		types[i] = int8(1 + i%2)
	}
	r := request(t, false, entry{orders, 0, []codec.AckBatch{batch(0, MaxPieces, types...)}})
	for _, tc := range []struct{ mode, done FailureMode }{{FailForward, FailForward}, {FailRespond, FailClose}, {FailClose, FailClose}} {
		asked := false
		never := fake{name: "never", decide: func(context.Context, *Request) (Verdict, error) { asked = true; return Verdict{}, nil }}
		d := chain(t, Member{Policy: fake{name: "a"}}, Member{Policy: never, OnFailure: tc.mode}).Decide(context.Background(), r, topicName)
		var many *TooManyPiecesError
		if asked || len(d.Trail) != 2 || !errors.As(d.Trail[0].Err, &many) || !errors.As(d.Trail[1].Err, &many) || d.Trail[1].Failed != tc.done {
			t.Errorf("mode %d: asked %v, %+v", tc.mode, asked, d.Trail)
		}
		if d.Edited() || len(d.Partitions) != 0 || (d.Close == CloseBefore) != (tc.done == FailClose) {
			t.Errorf("mode %d: %+v", tc.mode, d)
		}
	}
}

func TestEmptyChain(t *testing.T) {
	d := chain(t).Decide(context.Background(), request(t, false, accepting(0, 9)), nil)
	if len(d.Partitions) != 1 || d.Edited() || d.Close != CloseNever {
		t.Errorf("%+v", d)
	}
}
