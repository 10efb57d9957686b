package withhold

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/ackproxy/ackproxy/e2e/tap"
	"github.com/ackproxy/ackproxy/policy"
)

const policyName = "at-random"

// atRandom withholds any part of any acknowledgement, and writes down what it did.
type atRandom struct {
	book *book

	mu   sync.Mutex
	rand *rand.Rand
	off  bool
}

func newAtRandom(seed uint64, b *book) *atRandom {
	return &atRandom{book: b, rand: rand.New(rand.NewPCG(seed, 932))}
}

// Name implements policy.Policy.
func (a *atRandom) Name() string { return policyName }

// Traits implements policy.Policy.
func (a *atRandom) Traits() policy.Traits { return policy.Traits{} }

// stop makes it forward everything from now on.
func (a *atRandom) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.off = true
}

// Decide implements policy.Policy.
func (a *atRandom) Decide(_ context.Context, r *policy.Request) (policy.Verdict, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := &decision{
		conn: r.Conn.ID, client: string(r.ClientID), closes: r.ClosesSession(),
		id: id{r.APIKey, r.CorrelationID, string(r.GroupID), string(r.MemberID)}, parts: make(map[tap.Target]*part, len(r.Partitions)),
	}
	var v policy.Verdict
	quiet := a.off || !d.closes && a.rand.IntN(2) == 0
	for _, p := range r.Partitions {
		target := tap.Target{Topic: p.TopicID, Partition: p.Index}
		made := &part{pieces: a.pieces(p.Ranges, quiet, func(offset int64) bool { return a.book.may(d.id.group, target, offset) })}
		d.parts[target] = made
		for _, c := range made.pieces {
			if c.withheld {
				v.Edits = append(v.Edits, policy.Edit{TopicID: p.TopicID, Partition: p.Index, First: c.First, Last: c.Last, Action: policy.Withhold,
					ErrorCode: c.code, Reason: "at random"})
			}
		}
	}
	a.book.decided(d)
	return v, nil
}

// piece is a run of offsets that was asked with one type, and has one fate.
type piece struct {
	policy.Range
	withheld bool
	code     int16
}

// codes are what a withheld part is answered with. 0 stands for 121.
var codes = []int16{0, 121, 121, 42, 124, 29}

// pieces draws the fate of what was asked of one partition: nothing, all or some is withheld.
func (a *atRandom) pieces(ranges []policy.Range, quiet bool, may func(int64) bool) (all []piece) {
	chance, code, changing := 0, codes[a.rand.IntN(len(codes))], a.rand.IntN(3) == 0
	switch n := a.rand.IntN(6); {
	case quiet:
	case n < 2:
		chance = 100
		if changing = false; a.rand.IntN(5) == 0 {
			code = 56 // clients send it again
		}
	case n < 5:
		chance = 10 + a.rand.IntN(60)
	}
	for _, r := range ranges {
		var cut bool
		var withhold bool
		for o := r.First; o <= r.Last; o++ {
			if cut = o == r.First || a.rand.IntN(4) == 0; cut {
				withhold = a.rand.IntN(100) < chance
				if changing {
					code = codes[a.rand.IntN(len(codes))]
				}
			}
			next := piece{policy.Range{First: o, Last: o, Type: r.Type}, withhold && r.Type != policy.Gap && may(o), 0}
			if next.withheld {
				next.code = code
			}
			if n := len(all) - 1; n >= 0 && all[n].Last+1 == o && all[n].Type == r.Type && all[n].withheld == next.withheld && all[n].code == next.code {
				all[n].Last = o
				continue
			}
			all = append(all, next)
		}
	}
	return all
}
