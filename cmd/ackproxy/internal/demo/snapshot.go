package demo

import (
	"maps"
	"slices"
)

// snapshot is the tally at one moment, for showing and for the end.
type snapshot struct {
	deliveries int64
	byMember   map[string]Types
	rows       map[row]int64
	events     []event
	waiting    int64 // records whose acknowledgement one side has and the other has not
}

func (t *tally) snapshot() snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := snapshot{deliveries: t.deliveries, byMember: make(map[string]Types, len(t.byMember)), rows: maps.Clone(t.rows), events: slices.Clone(t.events)}
	for name, c := range t.byMember {
		s.byMember[name] = *c
	}
	s.waiting = int64(len(t.diff))
	return s
}

// finished counts the records that members accepted or rejected, and all deliveries.
func (t *tally) finished() (settled, deliveries int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.byMember {
		settled += c.Accept + c.Reject
	}
	return settled, t.deliveries
}

// audited is how many records' acknowledgements the audit has.
func (s *snapshot) audited() (n int64) {
	for _, each := range s.rows {
		n += each
	}
	return n
}

// result is the comparison as it stands: to be asked for when both sides have said all they will.
func (t *tally) result() Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := Result{Deliveries: t.deliveries, Unaudited: t.unaudited, Invented: t.invented}
	for _, c := range t.byMember {
		r.Client.Accept += c.Accept
		r.Client.Release += c.Release
		r.Client.Reject += c.Reject
	}
	for row, n := range t.rows {
		r.Acks.add(row.kind, n)
		switch row.carrier {
		case "share_fetch":
			r.Carriers.ShareFetch += n
		case "share_acknowledge":
			r.Carriers.ShareAcknowledge += n
		}
		switch row.verdict {
		case "accepted":
			r.Verdicts.Accepted += n
		case "refused":
			r.Verdicts.Refused += n
		default:
			r.Verdicts.Unknown += n
		}
	}
	for _, d := range t.diff {
		r.Unaudited += max(d, 0)
		r.Invented += max(-d, 0)
	}
	return r
}
