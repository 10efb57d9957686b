package audit

import (
	"strconv"

	"github.com/ackproxy/ackproxy/policy"
)

// totals are counts of records by type: the known ones, then all others.
type totals [len(typeNames) + 1]int64

// asked is one batch's range, or a whole batch that breaks the array rule.
type asked struct {
	span
	malformed  bool
	types      []byte // of a malformed batch
	superseded bool   // a later entry of the same partition replaces it
}

// appendAsked appends one element of ack.asked.
func appendAsked(dst []byte, a *asked) []byte {
	dst = append(dst, `{"first":`...)
	dst = appendOffset(dst, a.first)
	dst = append(dst, `,"last":`...)
	dst = appendOffset(dst, a.last)
	switch {
	case !a.malformed:
		dst = append(dst, `,"type":`...)
		dst = appendType(dst, a.kind)
	case len(a.types) == 0:
		dst = append(dst, `,"type":null`...)
	default:
		dst = append(dst, `,"types":[`...)
		for i, t := range a.types[:min(len(a.types), maxTypes)] {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendType(dst, int8(t))
		}
		dst = append(dst, `],"types_count":`...)
		dst = strconv.AppendInt(dst, int64(len(a.types)), 10)
	}
	if a.superseded {
		dst = append(dst, `,"superseded":true`...)
	}
	return append(dst, '}')
}

// pages fills lines with ranges. A first pass writes one line and counts how many it takes; if that is more than one, a second writes them.
type pages struct {
	dst     []byte
	start   int // where the ranges of this line begin in dst
	room    int // bytes of ranges in a line
	records int64
	parts   int
	full    func() // second pass: the line is full; the range that found no room is the scratch
	scratch []byte
}

// add appends one range, or begins a new page with it.
func (p *pages) add(a asked) {
	n := int64(0)
	if !a.malformed && !a.superseded {
		n = a.span.records()
	}
	before := len(p.dst)
	if before > p.start {
		p.dst = append(p.dst, ',')
	}
	at := len(p.dst)
	p.dst = appendAsked(p.dst, &a)
	if len(p.dst)-p.start <= p.room || before == p.start {
		p.records = add(p.records, n)
		return
	}
	p.scratch = append(p.scratch[:0], p.dst[at:]...)
	p.dst = p.dst[:before]
	p.parts++
	if p.full != nil {
		p.full()
	}
	p.dst = append(p.dst[:p.start], p.scratch...)
	p.records = n
}

// each calls visit with every range that is asked for a partition, in the order of the wire, and sums what the verdict is about.
func (j *joiner) each(head *entry, visit func(asked)) (sum totals) {
	for e := head; ; e = &j.entries[e.next] {
		a := asked{superseded: e.next >= 0}
		for b := range e.batches.All() {
			if a.malformed = !wellFormed(b.FirstOffset, b.LastOffset, b.Types); a.malformed {
				a.span, a.types = span{first: b.FirstOffset, last: b.LastOffset}, b.Types
				visit(a)
				continue
			}
			for n := 0; n < len(b.Types); {
				a.span, n = run(b.FirstOffset, b.LastOffset, b.Types, n)
				if !a.superseded {
					k := kindIndex(a.kind)
					sum[k] = add(sum[k], a.records())
				}
				visit(a)
			}
		}
		if e.next < 0 {
			return sum
		}
	}
}

// ack writes what happened to one partition: one event, or two where policies let a part of it pass and withheld the rest.
func (w *writer) ack(o *policy.Outcome, head *entry, top *verdict) {
	anomaly := w.join.repeats(head)
	if anomaly != "" {
		w.metrics.anomaly(o.Request.GroupID, anomaly)
	}
	if w.effects = w.effects[:0]; o.Decision != nil && w.active() {
		w.effects = appendEffects(w.effects, o, top, head)
	}
	if head.edited != nil {
		w.edited(o, head, top, anomaly)
		return
	}
	v := partitionVerdict(*top, head)
	var sum totals
	if w.active() {
		sum = w.ackLines(o, head, &v, anomaly)
	} else {
		sum = w.join.each(head, func(asked) {})
	}
	w.count(o, head, &sum, &v)
}

// count adds an event to the metrics.
func (w *writer) count(o *policy.Outcome, head *entry, sum *totals, v *verdict) {
	if v.reason == missingInReply {
		w.metrics.anomaly(o.Request.GroupID, missingInReply)
	}
	name, _ := w.topic(head.topic)
	w.metrics.acks(&o.Request, name, sum, v)
}

// ackLines formats the event: in one line nearly always.
func (w *writer) ackLines(o *policy.Outcome, head *entry, v *verdict, anomaly string) totals {
	w.ids.next(eventTime(o))
	line := len(w.buf)
	w.buf = w.open(w.buf, shareAck, 0, 0)
	middle := len(w.buf)
	w.buf = w.exchange(w.buf, o)
	w.buf = w.target(w.buf, &o.Request, &head.target)
	w.buf = w.request(w.buf, o)
	w.buf = append(w.buf, `,"ack":{"mode":"not_observable","asked":[`...)
	p := &w.page
	*p = pages{dst: w.buf, start: len(w.buf), parts: 1, scratch: p.scratch}
	p.room = maxLine - tailRoom - len(w.effects) - (p.start - line)
	sum := w.join.each(head, p.add)
	if p.parts == 1 {
		w.buf = w.ackTail(p.dst, o, p.records, v, anomaly)
		w.line(shareAck, 1, o)
		return sum
	}
	w.middle = append(w.middle[:0], w.buf[middle:]...)
	w.buf = w.buf[:line]
	w.ackParts(o, head, v, anomaly)
	return sum
}

// ackParts writes the lines of an event that takes more than one, all with the same id.
func (w *writer) ackParts(o *policy.Outcome, head *entry, v *verdict, anomaly string) {
	p, part := &w.page, 0
	parts, said := p.parts, *v // copied, so that the closures move only the copy to the heap
	begin := func() {
		part++
		p.dst = append(w.open(w.buf, shareAck, part, parts), w.middle...)
		p.start, p.records = len(p.dst), 0
	}
	end := func() {
		w.buf = w.ackTail(p.dst, o, p.records, &said, anomaly)
		w.line(shareAck, uint64(1/part), o) // the event is counted with its first line
	}
	begin()
	p.full = func() { end(); begin() }
	w.join.each(head, p.add)
	p.full = nil
	end()
}

func (w *writer) ackTail(dst []byte, o *policy.Outcome, records int64, v *verdict, anomaly string) []byte {
	if v.state == notSent {
		dst = append(dst, `],"forwarded":[],"records":`...)
	} else {
		dst = append(dst, `],"forwarded":"same","records":`...)
	}
	return w.ackEnd(dst, o, records, v, nil, anomaly)
}

// ackEnd ends a line from the number of its records on; edits are the elements of policy about these.
func (w *writer) ackEnd(dst []byte, o *policy.Outcome, records int64, v *verdict, edits []byte, anomaly string) []byte {
	dst = appendOffset(dst, records)
	if ms := o.Reply.LockTimeoutMs; ms > 0 {
		dst = append(dst, `,"lock_timeout_ms":`...)
		dst = strconv.AppendInt(dst, int64(ms), 10)
	}
	dst = append(dst, '}')
	dst = w.verdict(dst, v)
	if len(edits)+len(w.effects) > 0 {
		dst = w.policies(dst, edits)
	}
	if v.reason == missingInReply {
		return w.close(dst, o.Note, anomaly, missingInReply)
	}
	return w.close(dst, o.Note, anomaly)
}

// plainLine writes an event that has a request and a verdict and no partition.
func (w *writer) plainLine(typ eventType, o *policy.Outcome, top *verdict, anomaly string) {
	if !w.active() {
		return
	}
	w.ids.next(eventTime(o))
	if w.effects = w.effects[:0]; o.Decision != nil {
		w.effects = appendEffects(w.effects, o, top, nil)
	}
	dst := w.open(w.buf, typ, 0, 0)
	dst = w.exchange(dst, o)
	dst = w.target(dst, &o.Request, nil)
	dst = w.request(dst, o)
	dst = w.verdict(dst, top)
	if len(w.effects) > 0 {
		dst = w.policies(dst, nil)
	}
	w.buf = w.close(dst, o.Note, anomaly)
	w.line(typ, 1, o)
}

// outcome writes all events of an outcome.
func (w *writer) outcome(o *policy.Outcome) {
	top := requestVerdict(o)
	switch o.Kind {
	case policy.Acknowledgement:
		w.join.load(&o.Request)
		w.join.answer(o.Reply.Partitions)
		w.join.decide(o)
		for i := range w.join.entries {
			if e := &w.join.entries[i]; e.head {
				w.ack(o, e, &top)
			}
		}
		if len(w.join.entries) == 0 && o.Request.ClosesSession() {
			w.plainLine(shareSession, o, &top, "")
		}
	case policy.Undecodable:
		w.metrics.anomaly(o.Request.GroupID, undecodable)
		w.plainLine(shareUndecodable, o, &top, undecodable)
	case policy.AdminRequest:
		w.plainLine(adminRequest, o, &top, "")
	case policy.CoverageGap:
		w.coverageLine(o)
	}
}

func (w *writer) coverageLine(o *policy.Outcome) {
	if !w.active() {
		return
	}
	at := eventTime(o)
	if at.IsZero() {
		at = w.now()
	}
	w.buf = w.coverage(w.buf, o, at)
	w.line(auditControl, 1, o)
}
