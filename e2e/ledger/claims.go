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
