package demo

import (
	"hash/fnv"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kgo"
)

// lastRelease is the highest delivery count at which a record is released. It stays below the broker's delivery limit of 5, so that every
// record is accepted or rejected in the end.
const lastRelease = 2

// pattern decides what members do. The same seed decides the same.
type pattern struct{ seed uint64 }

// decide says what becomes of a record: of the first two deliveries 72 in 100 are accepted, 18 released and 10 rejected; after that none are
// released.
func (p pattern) decide(topic string, partition int32, offset int64, deliveries int32) kgo.AckStatus {
	h := fnv.New64a()
	h.Write([]byte(topic))
	rng := rand.New(rand.NewPCG(p.seed^h.Sum64(), uint64(partition)<<48^uint64(offset)<<8^uint64(deliveries)))
	switch n := rng.IntN(100); {
	case n < 10:
		return kgo.AckReject
	case n < 28 && deliveries <= lastRelease:
		return kgo.AckRelease
	}
	return kgo.AckAccept
}

// rng is a source of a member's other decisions: when it flushes.
func (p pattern) rng(member int) *rand.Rand {
	return rand.New(rand.NewPCG(p.seed, uint64(member)))
}
