package policy

import (
	"context"
	"testing"

	"github.com/ackproxy/ackproxy/codec"
)

// typical is a ShareAcknowledge of five ranges, as clients send it that split by type.
func typical(t testing.TB) *Request {
	return request(t, false, entry{orders, 0, []codec.AckBatch{
		batch(0, 14, Accept), batch(15, 15, Reject), batch(16, 30, Accept), batch(31, 32, Release), batch(33, 60, Accept)}})
}

// TestIdleChainAllocatesLittle bounds what a decision that changes nothing costs: the Decision, its Partitions, Pieces and Trail, and three
// for what policies are shown where the pool has none. With the race detector pools lose some of what they hold.
func TestIdleChainAllocatesLittle(t *testing.T) {
	c, r := chain(t, says("a", Verdict{}), says("b", Verdict{})), typical(t)
	const most = 7
	if n := testing.AllocsPerRun(100, func() { c.Decide(context.Background(), r, topicName) }); n > most {
		t.Errorf("%v allocations, want at most %d", n, most)
	}
}

func BenchmarkDecide(b *testing.B) {
	change := Verdict{Edits: []Edit{{TopicID: orders, First: 15, Last: 15, Type: Release}}}
	for _, bm := range []struct {
		name    string
		members []Member
	}{
		{"forward", []Member{says("a", Verdict{})}},
		{"change", []Member{says("a", change)}},
		{"waiting", []Member{{Policy: fake{name: "a", traits: Traits{Waits: true}}}}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			c, r := chain(b, bm.members...), typical(b)
			b.ReportAllocs()
			for b.Loop() {
				c.Decide(context.Background(), r, topicName)
			}
		})
	}
}
