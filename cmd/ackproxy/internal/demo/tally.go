package demo

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/ackproxy/ackproxy/policy/audit"
)

const (
	// maxDifferences bounds what the tally remembers. Acknowledgements on their way are far fewer; what comes on top is counted as a
	// difference at once.
	maxDifferences = 1 << 17
	// maxRange bounds the ranges that are compared record by record: a member's are never longer than what it fetched.
	maxRange = 1 << 17
	// keptEvents is how many of the latest acknowledgements are kept to be shown.
	keptEvents = 16
)

// ack is one acknowledgement of one record.
type ack struct {
	group, topic string
	partition    int32
	offset       int64
	kind         string // accept, release, reject, or what else the audit says
	member       string
}

// row is what the table has a line for.
type row struct{ group, topic, carrier, kind, verdict string }

// event is an audit line about one range, for showing.
type event struct {
	row
	at          time.Time
	member      string
	partition   int32
	first, last int64
	tookMs      float64
}

// tally compares what the members acknowledged with what the audit says, record by record: it keeps the acknowledgements that one side has
// and the other has not (yet). Its methods are safe for concurrent use.
type tally struct {
	mu         sync.Mutex
	names      map[string]string // member ids, as the broker knows them, to names
	diff       map[ack]int64     // members' less the audit's; never zero
	unaudited  int64             // what diff had no room for
	invented   int64             // likewise, and what is no acknowledgement of a record
	deliveries int64
	byMember   map[string]*Types // by the members
	rows       map[row]int64     // by the audit
	events     []event           // the latest keptEvents
	problems   []string          // lines that are not what they should be
}

func newTally() *tally {
	return &tally{names: map[string]string{}, diff: map[ack]int64{}, byMember: map[string]*Types{}, rows: map[row]int64{}}
}

// enrol says which member has which id. The audit's lines name members by id.
func (t *tally) enrol(names map[string]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.names = names
}

// delivered counts records that a member got.
func (t *tally) delivered(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deliveries += int64(n)
}

// acknowledged notes what a member did.
func (t *tally) acknowledged(a ack) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.byMember[a.member]
	if m == nil {
		m = new(Types)
		t.byMember[a.member] = m
	}
	m.add(a.kind, 1)
	t.count(a, 1)
}

func (c *Types) add(kind string, n int64) {
	switch kind {
	case "accept":
		c.Accept += n
	case "release":
		c.Release += n
	case "reject":
		c.Reject += n
	}
}

func (c *Types) sum() int64 { return c.Accept + c.Release + c.Reject }

// count adds n (1 or -1) to a's difference. The caller holds t.mu.
func (t *tally) count(a ack, n int64) {
	d, known := t.diff[a]
	switch d += n; {
	case d == 0:
		delete(t.diff, a)
	case known || len(t.diff) < maxDifferences:
		t.diff[a] = d
	case n > 0:
		t.unaudited++
	default:
		t.invented++
	}
}

// Write reads whole lines of the audit. It makes the tally a sink of the audit.
func (t *tally) Write(lines []byte) (int, error) {
	for line := range bytes.Lines(lines) {
		e, err := audit.ParseLine(line)
		t.mu.Lock()
		switch {
		case err != nil:
			t.invented++
			t.problem(err.Error())
		case e.Type == "share.ack":
			t.audited(e)
		case e.Type == "share.session" || e.Type == "audit.control" && e.Control != nil && e.Control.Kind != "gap" && e.Control.Kind != "coverage":
		default:
			t.problem("audit: " + string(bytes.TrimSpace(line)))
		}
		t.mu.Unlock()
	}
	return len(lines), nil
}

// audited notes an audit line. The caller holds t.mu.
func (t *tally) audited(e *audit.Event) {
	member, ok := t.names[e.Actor.MemberID]
	if !ok {
		member = e.Actor.MemberID
	}
	r := row{group: e.Target.Group, topic: e.Target.Topic, carrier: e.Request.Carrier, verdict: e.Verdict.State}
	if r.verdict != "accepted" {
		t.problem("audit: " + r.verdict + " " + e.Verdict.ErrorName + e.Verdict.Reason + " for " + member + " at " + r.topic)
	}
	for _, asked := range e.Ack.Asked {
		if asked.Superseded {
			continue
		}
		r.kind = asked.Type
		first, last := int64(asked.First), int64(asked.Last)
		if asked.Type == "" || last < first || last-first >= maxRange {
			t.invented++
			t.problem("audit: no range of records: " + r.topic)
			continue
		}
		t.rows[r] += last - first + 1
		for offset := first; offset <= last; offset++ {
			t.count(ack{r.group, r.topic, e.Target.Partition, offset, r.kind, member}, -1)
		}
		t.events = append(t.events, event{row: r, at: e.Time.Request, member: member, partition: e.Target.Partition, first: first, last: last})
		if e.Time.TookMs != nil {
			t.events[len(t.events)-1].tookMs = *e.Time.TookMs
		}
	}
	if n := len(t.events) - keptEvents; n > 0 {
		t.events = slices.Delete(t.events, 0, n)
	}
}

// problem keeps the first few. The caller holds t.mu.
func (t *tally) problem(s string) {
	if len(t.problems) < 10 {
		t.problems = append(t.problems, s)
	}
}
