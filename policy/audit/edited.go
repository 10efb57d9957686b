package audit

import (
	"github.com/ackproxy/ackproxy/policy"
)

// fates says whether policies let a part of a partition pass, and whether they withheld one. Each makes an event.
func fates(d *policy.Decided) (forwarded, withheld bool) {
	for i := range d.Pieces {
		if d.Pieces[i].Withheld {
			withheld = true
		} else {
			forwarded = true
		}
	}
	return forwarded, withheld
}

func changed(p *policy.Piece) bool { return !p.Withheld && p.Forwarded != p.Asked }

// half is one of the two events of a partition that policies edited: what was forwarded, or what was withheld.
type half struct {
	o        *policy.Outcome
	head     *entry
	withheld bool
	whole    bool // there is no other half: this one shows what later entries superseded
	verdict  verdict
	anomaly  string
}

// edited writes the events of a partition that policies edited.
func (w *writer) edited(o *policy.Outcome, head *entry, top *verdict, anomaly string) {
	forwarded, withheld := fates(head.edited)
	if forwarded {
		w.half(&half{o: o, head: head, whole: true, verdict: partitionVerdict(*top, head), anomaly: anomaly})
		anomaly = ""
	}
	if withheld {
		w.half(&half{o: o, head: head, withheld: true, whole: !forwarded, verdict: withheldVerdict(o, top, head), anomaly: anomaly})
	}
}

func (w *writer) half(h *half) {
	if w.active() {
		w.halfLines(h)
	}
	var sum totals
	for p := range h.pieces() {
		n := spanOf(p).records()
		k := kindIndex(p.Asked)
		sum[k] = add(sum[k], n)
		if p.Withheld || changed(p) {
			w.metrics.edit(p.Policy, p.Withheld, n)
		}
	}
	w.count(h.o, h.head, &sum, &h.verdict)
}

// pieces are those of the half.
func (h *half) pieces() func(yield func(*policy.Piece) bool) {
	return func(yield func(*policy.Piece) bool) {
		all := h.head.edited.Pieces
		for i := range all {
			if all[i].Withheld == h.withheld && !yield(&all[i]) {
				return
			}
		}
	}
}

// each calls visit with all that the half shows: what is superseded, which has no piece, and the pieces.
func (h *half) each(j *joiner, visit func(*asked, *policy.Piece)) {
	if h.whole && h.head.next >= 0 {
		j.each(h.head, func(a asked) {
			if a.superseded {
				visit(&a, nil)
			}
		})
	}
	for p := range h.pieces() {
		visit(&asked{span: spanOf(p)}, p)
	}
}

// spanOf is what a piece asks.
func spanOf(p *policy.Piece) span { return span{p.First, p.Last, p.Asked} }

// halfLines formats the event. A first pass fills one sheet and counts how many it takes; if that is more than one, a second writes them.
func (w *writer) halfLines(h *half) {
	w.ids.next(eventTime(h.o))
	m := w.exchange(w.middle[:0], h.o)
	m = w.target(m, &h.o.Request, &h.head.target)
	m = w.request(m, h.o)
	w.middle = append(m, `,"ack":{"mode":"not_observable","asked":[`...)
	opening := len(w.open(w.buf, shareAck, 0, 0)) - len(w.buf)
	s := sheet{room: maxLine - tailRoom - len(w.effects) - len(w.middle) - opening}
	for p := range h.pieces() {
		s.lists = s.lists || changed(p)
	}
	parts := 1
	h.each(&w.join, func(a *asked, p *policy.Piece) {
		if !s.add(a, p) {
			parts++
			s.reset()
			s.add(a, p)
		}
	})
	if parts == 1 {
		w.sheetLine(h, &s, 0, 0)
		return
	}
	part := 1
	s.reset()
	h.each(&w.join, func(a *asked, p *policy.Piece) {
		if !s.add(a, p) {
			w.sheetLine(h, &s, part, parts)
			part++
			s.reset()
			s.add(a, p)
		}
	})
	w.sheetLine(h, &s, part, parts)
}

// sheetLine writes one line of the event. Part is 0 where there is only one.
func (w *writer) sheetLine(h *half, s *sheet, part, parts int) {
	dst := append(append(w.open(w.buf, shareAck, part, parts), w.middle...), s.asked...)
	switch {
	case h.withheld:
		dst = append(dst, `],"forwarded":[],"records":`...)
	case s.lists:
		dst = append(append(append(dst, `],"forwarded":[`...), s.forwarded...), `],"records":`...)
	default:
		dst = append(dst, `],"forwarded":"same","records":`...)
	}
	w.buf = w.ackEnd(dst, h.o, s.records, &h.verdict, s.edits(), h.anomaly)
	events := uint64(0)
	if part <= 1 { // the event is counted with its first line
		events = 1
	}
	w.line(shareAck, events, h.o)
}
