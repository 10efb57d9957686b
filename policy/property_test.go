package policy

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/codec"
)

var seed = flag.Uint64("seed", 0, "the one seed to run the property test with")

// offsets of the property test are below this, so that its model can hold each one.
const maxOffset = 24

// fate is what becomes of one offset, as a Piece says it.
type fate struct {
	asked, forwarded int8
	withheld         bool
	code             int16
	policy           string
}

// model is a request offset by offset: what the chain is to make of it, written as plainly as can be.
type model struct {
	renew bool
	names []partitionKey // in the order of the decision
	parts map[partitionKey]map[int64]*fate
	bad   map[partitionKey]bool
}

// add is one entry of the request.
func (m *model) add(e entry) {
	key := partitionKey{e.topic, e.index}
	m.names = slices.DeleteFunc(m.names, func(k partitionKey) bool { return k == key })
	delete(m.parts, key)
	delete(m.bad, key)
	if len(e.batches) == 0 {
		return
	}
	m.names = append(m.names, key)
	part, bad, end := map[int64]*fate{}, false, int64(-1)
	for _, b := range e.batches {
		n := int(b.LastOffset - b.FirstOffset + 1)
		bad = bad || n < 1 || b.FirstOffset < end || len(b.Types) != 1 && len(b.Types) != n
		for i := 0; i < n && !bad; i++ {
			t := int8(b.Types[min(i, len(b.Types)-1)])
			bad = bad || t < 0 || t > 4 || t == 4 && !m.renew
			part[b.FirstOffset+int64(i)] = &fate{asked: t, forwarded: t}
		}
		end = b.LastOffset
	}
	if m.bad[key] = bad; bad {
		part = nil
	}
	m.parts[key] = part
}

// valid says whether a policy may want this.
func (m *model) valid(v Verdict) bool {
	for _, e := range v.Edits {
		if e.First > e.Last || e.Action == Change && (e.Type < 0 || e.Type > 4 || e.Type == 4 && !m.renew) {
			return false
		}
	}
	return true
}

func (m *model) edit(policy string, v Verdict) {
	for _, e := range v.Edits {
		for o, f := range m.parts[partitionKey{e.TopicID, e.Partition}] {
			switch {
			case o < e.First || o > e.Last || f.withheld:
			case e.Action == Withhold:
				f.withheld, f.code, f.policy = true, e.ErrorCode, policy
				if e.ErrorCode == 0 {
					f.code = 121
				}
			case f.forwarded != e.Type:
				f.forwarded, f.policy = e.Type, policy
			}
		}
	}
}

// respond withholds what is left.
func (m *model) respond(policy string) {
	for _, part := range m.parts {
		for _, f := range part {
			if !f.withheld {
				f.withheld, f.code, f.policy = true, 56, policy
			}
		}
	}
}

// checkSeen compares what a policy is shown.
func (m *model) checkSeen(seen []Partition) error {
	for _, key := range m.names {
		left := map[int64]int8{}
		for o, f := range m.parts[key] {
			if !f.withheld {
				left[o] = f.forwarded
			}
		}
		if len(left) == 0 && !m.bad[key] {
			continue
		}
		if len(seen) == 0 || seen[0].TopicID != key.topic || seen[0].Index != key.index || seen[0].Malformed != m.bad[key] {
			return fmt.Errorf("%v is not next in %+v", key, seen)
		}
		end := int64(-2)
		for i, r := range seen[0].Ranges {
			if r.First <= end || r.First > r.Last || i > 0 && r.First == end+1 && r.Type == seen[0].Ranges[i-1].Type {
				return fmt.Errorf("ranges %+v", seen[0].Ranges)
			}
			for end = r.First; end <= r.Last; end++ {
				if t, ok := left[end]; !ok || t != r.Type {
					return fmt.Errorf("%v: offset %d is shown as %d, is left %v as %d", key, end, r.Type, ok, t)
				}
				delete(left, end)
			}
			end = r.Last
		}
		if len(left) > 0 {
			return fmt.Errorf("%v: not shown: %v", key, left)
		}
		seen = seen[1:]
	}
	if len(seen) > 0 {
		return fmt.Errorf("shown in addition: %+v", seen)
	}
	return nil
}

// checkDecided compares the result.
func (m *model) checkDecided(d *Decision) error {
	if len(d.Partitions) != len(m.names) {
		return fmt.Errorf("%d partitions, want %v", len(d.Partitions), m.names)
	}
	for i, key := range m.names {
		p, left := &d.Partitions[i], len(m.parts[key])
		if p.TopicID != key.topic || p.Index != key.index || p.Malformed != m.bad[key] {
			return fmt.Errorf("%+v, want %v, malformed %v", p, key, m.bad[key])
		}
		end := int64(-2)
		for _, piece := range p.Pieces {
			if piece.First <= end || piece.First > piece.Last {
				return fmt.Errorf("%v: pieces %+v", key, p.Pieces)
			}
			for end = piece.First; end <= piece.Last; end++ {
				got := fate{piece.Asked, piece.Forwarded, piece.Withheld, piece.ErrorCode, piece.Policy}
				if want := m.parts[key][end]; want == nil || *want != got {
					return fmt.Errorf("%v: offset %d is %+v, want %+v", key, end, got, want)
				}
				left--
			}
			end = piece.Last
		}
		if left != 0 {
			return fmt.Errorf("%v: %d offsets are missing in %+v", key, left, p.Pieces)
		}
		if got, want := p.Code(), m.code(key); got != want {
			return fmt.Errorf("%v: code %d, want %d", key, got, want)
		}
	}
	return nil
}

// code is what a client is told for a partition.
func (m *model) code(key partitionKey) int16 {
	codes := map[int16]bool{}
	whole := true
	for _, f := range m.parts[key] {
		if f.withheld {
			codes[f.code] = true
		}
		whole = whole && f.withheld
	}
	for code := range codes {
		if len(codes) == 1 && (whole || code != 56) {
			return code
		}
		return 121
	}
	return 0
}

func randomEntry(rnd *rand.Rand) entry {
	e := entry{codec.UUID{byte(1 + rnd.IntN(2))}, int32(rnd.IntN(3)), nil}
	for next := int64(rnd.IntN(4)) - 1; next < maxOffset-6 && rnd.IntN(5) > 0; next += int64(rnd.IntN(4)) {
		b := codec.AckBatch{FirstOffset: next, LastOffset: next + int64(rnd.IntN(6))}
		n := 1
		if rnd.IntN(2) == 0 {
			n = int(b.LastOffset - next + 1)
		}
		for range n {
			b.Types = append(b.Types, byte(rnd.IntN(4)))
		}
		switch rnd.IntN(60) {
		case 0:
			b.Types = append(b.Types, 1)
		case 1:
			b.Types = nil
		case 2:
			b.FirstOffset = b.LastOffset + 1
		case 3, 4, 5, 6:
			b.Types[0] = 4
		case 7:
			b.Types[0] = 5
		case 8:
			b.FirstOffset--
		}
		e.batches = append(e.batches, b)
		next = b.LastOffset
	}
	return e
}

func randomVerdict(rnd *rand.Rand) (v Verdict) {
	for range rnd.IntN(6) {
		e := Edit{TopicID: codec.UUID{byte(1 + rnd.IntN(2))}, Partition: int32(rnd.IntN(4)), First: int64(rnd.IntN(maxOffset)) - 1,
			Action: Action(rnd.IntN(2)), Type: int8(rnd.IntN(4)), ErrorCode: []int16{0, 42, 56, 121}[rnd.IntN(4)]}
		e.Last = e.First + int64(rnd.IntN(10))
		switch rnd.IntN(40) {
		case 0:
			e.Last = e.First - 1
		case 1:
			e.Type = 4
		case 2:
			e.Type = 5
		}
		v.Edits = append(v.Edits, e)
	}
	return v
}

// TestChainAgainstModel runs random chains over random requests, and compares what each policy sees and what comes out with the model.
func TestChainAgainstModel(t *testing.T) {
	const cases = 4000
	seeds := make([]uint64, cases)
	for i := range seeds {
		seeds[i] = rand.Uint64()
	}
	if *seed != 0 {
		seeds = []uint64{*seed}
	}
	for _, s := range seeds {
		if err := runCase(t, rand.New(rand.NewPCG(s, 0))); err != nil {
			t.Fatalf("%v\nrepeat with: go test ./policy -run %s -seed %d", err, t.Name(), s)
		}
	}
}

func runCase(t *testing.T, rnd *rand.Rand) error {
	m := &model{renew: rnd.IntN(3) == 0, parts: map[partitionKey]map[int64]*fate{}, bad: map[partitionKey]bool{}}
	var entries []entry
	for range rnd.IntN(6) {
		e := randomEntry(rnd)
		entries = append(entries, e)
		m.add(e)
	}
	r := request(t, m.renew, entries...)
	var wrong error
	var members []Member
	for i := range 1 + rnd.IntN(4) {
		name, mode, v, fails := string(rune('a'+i)), FailureMode(rnd.IntN(2)), randomVerdict(rnd), rnd.IntN(10) == 0
		decide := func(_ context.Context, r *Request) (Verdict, error) {
			if err := m.checkSeen(r.Partitions); err != nil && wrong == nil {
				wrong = fmt.Errorf("policy %s sees: %w", name, err)
			}
			switch {
			case !fails && m.valid(v):
				m.edit(name, v)
			case mode == FailRespond:
				m.respond(name)
			}
			if fails {
				return v, errors.New("as the test wants")
			}
			return v, nil
		}
		traits := Traits{Waits: rnd.IntN(4) == 0, Budget: time.Minute}
		members = append(members, Member{Policy: fake{name, traits, decide}, OnFailure: mode})
	}
	d := chain(t, members...).Decide(context.Background(), r, nil)
	return errors.Join(wrong, m.checkDecided(d))
}
