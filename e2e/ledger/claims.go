package ledger

import (
	"github.com/ackproxy/ackproxy/e2e/client"
)

// Key is a record and the client that acknowledged it.
type Key struct {
	Client    string // client id
	Partition int32
	Offset    int64
}

// Claim is one acknowledgement of a record as its client tells it.
type Claim struct {
	Type     string
	Answered bool   // the client was told a result
	Error    string // empty for success
}

// OK says that the client was told of success.
func (c Claim) OK() bool { return c.Answered && c.Error == "" }

// Claims are a client's acknowledgements by record, in order. A record's results are taken in the order of its acknowledgements.
func Claims(id string, events []client.Event) map[Key][]Claim {
	all, answered := map[Key][]Claim{}, map[Key]int{}
	for _, e := range events {
		switch e.Event {
		case "ack":
			k := Key{id, e.Partition, e.Offset}
			all[k] = append(all[k], Claim{Type: e.Type})
		case "result":
			for _, o := range e.Offsets {
				k := Key{id, e.Partition, o}
				i := answered[k]
				answered[k]++
				if i >= len(all[k]) {
					continue // of an acknowledgement that the library made: a gap
				}
				all[k][i].Answered = true
				if e.Error != nil {
					all[k][i].Error = *e.Error
				}
			}
		}
	}
	return all
}

// terminal says that an acknowledgement of that type ends a record's life in the group.
func terminal(kind string) bool { return kind == "accept" || kind == "reject" }

// MayBeApplied says that the broker may have done what was asked: it said so, it said nothing, or it failed while it wrote it down. A
// 4.4.0 broker that lost its leadership meanwhile answered 6, "Error in write state RPC", and the new leader never delivered the record
// again. The other refusals come before anything is written.
func (e Entry) MayBeApplied() bool {
	switch e.Code {
	case 3, 42, 100, 121, 122, 123:
		return false
	}
	return true
}

// Unsure returns the records that no client knows to be settled, and of these the ones that the audit shows to be open: none of their
// acknowledgements can have been applied.
func Unsure(claims map[Key][]Claim, entries map[Key][]Entry) (unsure, open []Key) {
	known, all, may := map[Key]bool{}, map[Key]bool{}, map[Key]bool{}
	for k, cs := range claims {
		r := Key{"", k.Partition, k.Offset}
		all[r] = true
		for _, c := range cs {
			known[r] = known[r] || c.OK() && terminal(c.Type)
		}
		for _, e := range entries[k] {
			may[r] = may[r] || terminal(e.Type) && e.MayBeApplied()
		}
	}
	for r := range all {
		if !known[r] {
			unsure = append(unsure, r)
			if !may[r] {
				open = append(open, r)
			}
		}
	}
	return unsure, open
}
