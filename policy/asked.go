package policy

import (
	"fmt"
	"slices"

	"github.com/ackproxy/ackproxy/codec"
)

// MaxPieces is how many pieces the partitions of one Decision may have in all. A client that acknowledges everything a broker lets it hold
// stays far below; without a bound each byte of a type array could cost us a Piece.
const MaxPieces = 1 << 17

// TooManyPiecesError says that a request, or what a verdict would make of it, has more than MaxPieces pieces.
type TooManyPiecesError struct{ Pieces int }

// Error says how many pieces there are, and how many may be.
func (e *TooManyPiecesError) Error() string {
	return fmt.Sprintf("acknowledgements in %d pieces, more than the %d that policies decide about", e.Pieces, MaxPieces)
}

// partitionKey names a partition within a request.
type partitionKey struct {
	topic codec.UUID
	index int32
}

// fewPartitions is up to how many partitions a scan is faster than a map.
const fewPartitions = 16

// Asked is what a decoded request asks: one Decided for each partition that it names with batches, in the order of the wire. Of several
// entries for one partition the last counts, as for the broker; where that has no batches, nothing is asked of the partition. Pieces are
// maximal runs of one type. The only error is a TooManyPiecesError.
func Asked(r *Request) ([]Decided, error) {
	partitions, runs := measure(r)
	if runs > MaxPieces {
		return nil, &TooManyPiecesError{runs}
	}
	if partitions == 0 {
		return nil, nil
	}
	decided, pieces := entries{all: make([]Decided, 0, partitions)}, make([]Piece, 0, runs)
	highest := highestType(r)
	for t := range r.Topics.All() {
		for p := range t.Partitions.All() {
			if p.Batches.Len() == 0 {
				decided.withdraw(t.TopicID, p.PartitionIndex)
				continue
			}
			d := Decided{TopicID: t.TopicID, Index: p.PartitionIndex}
			start := len(pieces)
			var ok bool
			if pieces, ok = appendPieces(pieces, start, p.Batches, highest); ok {
				d.Pieces = pieces[start:len(pieces):len(pieces)]
			} else {
				d.Malformed, pieces = true, pieces[:start]
			}
			decided.add(d)
		}
	}
	return fitted(decided.left(), partitions, cap(pieces)), nil
}

// fitted moves what is left to memory of its size where it lies in much more, of so many entries and pieces: a Decision is kept until the
// broker has answered.
func fitted(left []Decided, entries, pieces int) []Decided {
	const spare = 16
	used := 0
	for i := range left {
		used += len(left[i].Pieces)
	}
	if pieces > 2*used+spare {
		all := make([]Piece, 0, used)
		for i := range left {
			if d := &left[i]; len(d.Pieces) > 0 {
				all = append(all, d.Pieces...)
				d.Pieces = all[len(all)-len(d.Pieces) : len(all) : len(all)]
			}
		}
	}
	if entries > 2*len(left)+spare {
		return slices.Clone(left)
	}
	return left
}

// entries are those of a request that have batches.
type entries struct {
	all    []Decided
	places map[partitionKey]int // of each partition's last one; nil while there are few
	empty  bool                 // some were withdrawn
}

func (e *entries) add(d Decided) {
	if e.places != nil {
		e.places[partitionKey{d.TopicID, d.Index}] = len(e.all)
	}
	e.all = append(e.all, d)
}

// withdraw is for an entry without batches: it counts, and so those before it do not.
func (e *entries) withdraw(topic codec.UUID, index int32) {
	i := len(e.all) - 1
	if len(e.all) <= fewPartitions {
		for i >= 0 && (e.all[i].Index != index || e.all[i].TopicID != topic) {
			i--
		}
	} else {
		if e.places == nil {
			e.places = make(map[partitionKey]int, 2*len(e.all))
			for n := range e.all {
				e.places[partitionKey{e.all[n].TopicID, e.all[n].Index}] = n
			}
		}
		var ok bool
		if i, ok = e.places[partitionKey{topic, index}]; !ok {
			return
		}
	}
	if i >= 0 {
		e.all[i].Pieces, e.all[i].Malformed, e.empty = nil, false, true
	}
}

// left are the entries that count.
func (e *entries) left() []Decided {
	all := dropSuperseded(e.all)
	if e.empty {
		all = slices.DeleteFunc(all, func(d Decided) bool { return len(d.Pieces) == 0 && !d.Malformed })
	}
	return all
}

// measure counts the entries that have batches and the runs of equal types in these: at least as many as there will be pieces. So memory is
// asked for once, and not at all where there are too many.
func measure(r *Request) (partitions, runs int) {
	for t := range r.Topics.All() {
		for p := range t.Partitions.All() {
			if p.Batches.Len() == 0 {
				continue
			}
			partitions++
			for b := range p.Batches.All() {
				for i := range b.Types {
					if i == 0 || b.Types[i] != b.Types[i-1] {
						runs++
					}
				}
			}
		}
	}
	return partitions, runs
}

// highestType is the highest acknowledgement type that the broker takes in this request: Renew came with version 2 (KIP-1222).
func highestType(r *Request) int8 {
	if r.RenewAck && r.APIVersion >= 2 && r.Carrier != TxnShareAcknowledge {
		return Renew
	}
	return Reject
}

// appendPieces appends the pieces of one entry to dst, where they begin at start. It is false where the broker is sure to refuse the entry
// as a whole. Two oddities are not sure to be refused, and so are decided about like anything else: a range that begins at -1, and
// one that begins with the last offset of the range before, where the broker may have no more use for the earlier range. The later one
// then counts for that offset.
func appendPieces(dst []Piece, start int, batches codec.Array[codec.AckBatch], highest int8) ([]Piece, bool) {
	previous := int64(-1)
	for b := range batches.All() {
		if b.FirstOffset < previous || !keepsArrayRule(b) {
			return dst, false
		}
		previous = b.LastOffset
		if last := len(dst) - 1; last >= start && dst[last].Last == b.FirstOffset {
			if dst[last].Last--; dst[last].First > dst[last].Last {
				dst = dst[:last]
			}
		}
		for n, end := 0, 0; n < len(b.Types); n = end {
			p := Piece{Asked: int8(b.Types[n]), Forwarded: int8(b.Types[n])}
			if p.Asked < Gap || p.Asked > highest {
				return dst, false
			}
			p.First, p.Last, end = run(b, n)
			if last := len(dst) - 1; last >= start && dst[last].Last+1 == p.First && dst[last].Asked == p.Asked {
				dst[last].Last = p.Last
			} else {
				dst = append(dst, p)
			}
		}
	}
	return dst, true
}

// keepsArrayRule says whether a batch has one type for its whole range, or one for each offset (KIP-932).
func keepsArrayRule(b codec.AckBatch) bool {
	if b.FirstOffset > b.LastOffset || len(b.Types) == 0 {
		return false
	}
	return len(b.Types) == 1 || uint64(b.LastOffset)-uint64(b.FirstOffset) == uint64(len(b.Types)-1)
}

// run is the range of the run that begins with a batch's n-th type, and where in Types the next one begins.
func run(b codec.AckBatch, n int) (first, last int64, end int) {
	if len(b.Types) == 1 {
		return b.FirstOffset, b.LastOffset, 1
	}
	end = n + 1
	for end < len(b.Types) && b.Types[end] == b.Types[n] {
		end++
	}
	return b.FirstOffset + int64(n), b.FirstOffset + int64(end-1), end
}

// dropSuperseded leaves of each partition the last entry, in its place.
func dropSuperseded(all []Decided) []Decided {
	kept := len(all)
	if len(all) <= fewPartitions {
		for i := len(all) - 1; i >= 0; i-- {
			if find(all[kept:], all[i].TopicID, all[i].Index) < 0 {
				kept--
				all[kept] = all[i]
			}
		}
		clear(all[:kept]) // what these point to
		return all[kept:]
	}
	seen := make(map[partitionKey]struct{}, len(all))
	for i := len(all) - 1; i >= 0; i-- {
		key := partitionKey{all[i].TopicID, all[i].Index}
		if _, twice := seen[key]; !twice {
			seen[key] = struct{}{}
			kept--
			all[kept] = all[i]
		}
	}
	clear(all[:kept])
	return all[kept:]
}

// find is the place of a partition, -1 where it is not.
func find(in []Decided, topic codec.UUID, index int32) int {
	for i := range in {
		if in[i].Index == index && in[i].TopicID == topic {
			return i
		}
	}
	return -1
}
