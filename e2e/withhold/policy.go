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

// mood is how one partition of a request fares.
type mood struct {
	chance   int // of 100: how likely a part is withheld
	code     int16
	changing bool // each part has a code of its own
}

func (a *atRandom) mood(quiet bool) mood {
	m := mood{code: a.code(), changing: a.rand.IntN(3) == 0}
	switch n := a.rand.IntN(6); {
	case quiet:
	case n < 2:
		m.chance, m.changing = 100, false
	case n < 5:
		m.chance = 10 + a.rand.IntN(60)
	}
	if a.rand.IntN(8) == 0 {
		m.code = 56 // where it is for all of the partition, clients send that again
	}
	return m
}

func (a *atRandom) code() int16 { return codes[a.rand.IntN(len(codes))] }

// pieces draws the fate of what was asked of one partition, which is cut anywhere.
func (a *atRandom) pieces(ranges []policy.Range, quiet bool, may func(int64) bool) (all []piece) {
	m, withhold := a.mood(quiet), false
	for _, r := range ranges {
		for o := r.First; o <= r.Last; o++ {
			if o == r.First || a.rand.IntN(4) == 0 {
				withhold = a.rand.IntN(100) < m.chance
				if m.changing {
					m.code = a.code()
				}
			}
			next := piece{Range: policy.Range{First: o, Last: o, Type: r.Type}}
			if withhold && r.Type != policy.Gap && may(o) {
				next.withheld, next.code = true, m.code
			}
			all = join(all, next)
		}
	}
	return all
}

// join appends a piece, to the one before where they differ in their offsets only.
func join(all []piece, next piece) []piece {
	if n := len(all) - 1; n >= 0 && all[n].Last+1 == next.First {
		last := all[n]
		last.First, last.Last = next.First, next.Last
		if last == next {
			all[n].Last = next.Last
			return all
		}
	}
	return append(all, next)
}
