package audit

import (
	"strconv"
	"time"

	"github.com/ackproxy/ackproxy/policy"
)

const (
	// policyRoom is kept free in a line for what policies did.
	policyRoom = 1024
	// maxReason bounds a policy's words in a line, in bytes.
	maxReason = 128
)

// fatesOf finds the partitions that policies edited; nil where they did not.
func fatesOf(d *policy.Decision) (fates map[target]*policy.Decided) {
	if d == nil || d.Close == policy.CloseBefore {
		return nil
	}
	for i := range d.Partitions {
		if p := &d.Partitions[i]; p.Edited() {
			if fates == nil {
				fates = map[target]*policy.Decided{}
			}
			fates[target{p.TopicID, p.Index}] = p
		}
	}
	return fates
}

// split counts the partitions that make two events: a part was forwarded, a part withheld.
func split(d *policy.Decision) (n uint64) {
	for _, p := range fatesOf(d) {
		if p.Code() != 0 && !p.AllWithheld() {
			n++
		}
	}
	return n
}

// unsent is the verdict about a request that policies kept from the broker as a whole; nil where it was forwarded.
func unsent(o *policy.Outcome) *verdict {
	switch d := o.Decision; {
	case d == nil || d.Close != policy.CloseBefore:
		return nil
	case d.Gone:
		return &verdict{state: notSent, proxy: true, reason: "client_gone"}
	}
	return &verdict{state: notSent, proxy: true, reason: "closed_by_policy"}
}

// decided writes what was forwarded and what was withheld of a partition, as an event each.
func (w *writer) decided(o *policy.Outcome, head *entry, d *policy.Decided, top *verdict) {
	brokers := partitionVerdict(*top, head)
	first := true
	if !d.AllWithheld() {
		w.fate(o, head, d, false, brokers, first)
		first = false
	}
	if d.Code() != 0 {
		w.fate(o, head, d, true, withheldVerdict(*top, brokers, d), first)
	}
}

// withheldVerdict is what the client was told about what was withheld: our code, unless the broker's own error won.
func withheldVerdict(top, brokers verdict, d *policy.Decided) verdict {
	v := brokers
	switch {
	case top.state == unknown:
	case brokers.answered && brokers.code != 0:
	default:
		v = verdict{partition: true, answered: true, proxy: true, code: d.Code()}
	}
	v.state = notSent
	return v
}

// fatePage is what one line says of a partition's pieces.
type fatePage struct {
	asked, forwarded []byte
	records          int64
}

// fate writes the event of the pieces that were withheld, or of those that were forwarded. The first event of a partition also shows
// entries that a later one replaced.
func (w *writer) fate(o *policy.Outcome, head *entry, d *policy.Decided, withheld bool, v verdict, first bool) {
	anomaly := w.join.repeats(head)
	if first && anomaly != "" {
		w.metrics.anomaly(o.Request.GroupID, anomaly)
	}
	if v.reason == missingInReply {
		w.metrics.anomaly(o.Request.GroupID, missingInReply)
	}
	var sum totals
	changed := withheld
	for i := range d.Pieces {
		if p := &d.Pieces[i]; p.Withheld == withheld {
			k := kindIndex(p.Asked)
			sum[k] = add(sum[k], span{first: p.First, last: p.Last}.records())
			changed = changed || p.Forwarded != p.Asked
		}
	}
	if w.active() {
		w.ids.next(eventTime(o))
		before := w.fateHead(w.buf, o, head, 1, 1)
		pages := w.fatePages(head, d, withheld, first, maxLine-tailRoom-policyRoom-(len(before)-len(w.buf)))
		for i := range pages {
			part, parts := 0, 0
			if len(pages) > 1 {
				part, parts = i+1, len(pages)
			}
			w.fateLine(o, head, d, &pages[i], part, parts, changed, &v, anomaly)
			w.line(shareAck, uint64(1/(i+1)), o)
		}
	}
	name, _ := w.topic(head.topic)
	w.metrics.acks(&o.Request, name, &sum, &v)
}

func (w *writer) fateLine(o *policy.Outcome, head *entry, d *policy.Decided, p *fatePage, part, parts int, changed bool, v *verdict, anomaly string) {
	dst := append(w.fateHead(w.buf, o, head, part, parts), p.asked...)
	if changed {
		dst = append(append(append(dst, `],"forwarded":[`...), p.forwarded...), ']')
	} else {
		dst = append(dst, `],"forwarded":"same"`...)
	}
	w.buf = w.ackEnd(dst, o, d, p.records, v, anomaly)
}

// fateHead writes a line up to its ranges.
func (w *writer) fateHead(dst []byte, o *policy.Outcome, head *entry, part, parts int) []byte {
	dst = w.exchange(w.open(dst, shareAck, part, parts), o)
	dst = w.request(w.target(dst, &o.Request, &head.target), o)
	return append(dst, `,"ack":{"mode":"not_observable","asked":[`...)
}

// fatePages sorts the pieces into lines.
func (w *writer) fatePages(head *entry, d *policy.Decided, withheld, first bool, room int) []fatePage {
	pages := []fatePage{{}}
	put := func(asked, forwarded []byte, records int64) {
		p := &pages[len(pages)-1]
		if len(p.asked) > 0 && len(p.asked)+len(p.forwarded)+len(asked)+len(forwarded) > room {
			pages = append(pages, fatePage{})
			p = &pages[len(pages)-1]
		}
		p.asked, p.forwarded = appendElement(p.asked, asked), appendElement(p.forwarded, forwarded)
		p.records = add(p.records, records)
	}
	if first {
		w.join.each(head, func(a asked) {
			if a.superseded {
				put(appendAsked(nil, &a), nil, 0)
			}
		})
	}
	for i := range d.Pieces {
		p := &d.Pieces[i]
		if p.Withheld != withheld {
			continue
		}
		s := span{first: p.First, last: p.Last, kind: p.Asked}
		var forwarded []byte
		if !withheld {
			forwarded = appendAsked(nil, &asked{span: span{first: p.First, last: p.Last, kind: p.Forwarded}})
		}
		put(appendAsked(nil, &asked{span: s}), forwarded, s.records())
	}
	return pages
}

func appendElement(dst, element []byte) []byte {
	if len(element) == 0 {
		return dst
	}
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	return append(dst, element...)
}

// appendPolicies appends what policies did with the request, and with one partition: d, where they edited it; nothing where they did nothing. What
// finds no room in policyRoom is counted.
func appendPolicies(dst []byte, decision *policy.Decision, d *policy.Decided, about target) []byte {
	const head = `,"policy":[`
	start, left := len(dst), 0
	dst = append(dst, head...)
	put := func(element []byte) {
		if len(dst)-start+len(element) > policyRoom-64 {
			left++
			return
		}
		if len(dst) > start+len(head) {
			dst = append(dst, ',')
		}
		dst = append(dst, element...)
	}
	if d != nil {
		for _, e := range editsOf(d) {
			put(e.append(nil))
		}
	}
	for i := range decision.Trail {
		if s := &decision.Trail[i]; s.Err != nil {
			put(appendFailed(nil, s))
		}
	}
	if decision.DelayForward > 0 || decision.DelayReply > 0 {
		e := strconv.AppendInt([]byte(`{"action":"delay","forward_ms":`), int64(decision.DelayForward/time.Millisecond), 10)
		put(append(strconv.AppendInt(append(e, `,"reply_ms":`...), int64(decision.DelayReply/time.Millisecond), 10), '}'))
	}
	if decision.Close != policy.CloseNever {
		put([]byte(`{"action":"close","at":"` + closeNames[decision.Close] + `"}`))
	}
	for i := range decision.Replies {
		r := &decision.Replies[i]
		if r.TopLevel || about == (target{r.TopicID, r.Partition}) {
			e := strconv.AppendInt([]byte(`{"action":"answer","error_code":`), int64(r.ErrorCode), 10)
			put(append(appendTextOrNull(append(e, `,"error_name":`...), ErrorName(r.ErrorCode)), '}'))
		}
	}
	if len(dst) == start+len(head) && left == 0 {
		return dst[:start]
	}
	if left > 0 {
		if len(dst) > start+len(head) {
			dst = append(dst, ',')
		}
		dst = append(strconv.AppendInt(append(dst, `{"action":"more","count":`...), int64(left), 10), '}')
	}
	return append(dst, ']')
}

var closeNames = [...]string{policy.CloseBefore: "before", policy.CloseAfter: "after", policy.CloseReplied: "replied", policy.CloseTruncated: "truncated"}

// edited is what one policy did to a partition for one reason.
type edited struct {
	name, reason string
	withheld     bool
	records      int64
}

// editsOf sums the edits of a partition by policy, action and reason.
func editsOf(d *policy.Decided) (all []edited) {
	const most = 32
	for i := range d.Pieces {
		p := &d.Pieces[i]
		if !p.Withheld && p.Forwarded == p.Asked {
			continue
		}
		n, at := span{first: p.First, last: p.Last}.records(), -1
		for j := range all {
			if e := &all[j]; e.name == p.Policy && e.reason == p.Reason && e.withheld == p.Withheld {
				at = j
			}
		}
		switch {
		case at >= 0:
			all[at].records = add(all[at].records, n)
		case len(all) < most:
			all = append(all, edited{p.Policy, p.Reason, p.Withheld, n})
		}
	}
	return all
}

func (e *edited) append(dst []byte) []byte {
	dst = appendText(append(dst, `{"name":`...), clip(e.name))
	action := `,"action":"change"`
	if e.withheld {
		action = `,"action":"withhold"`
	}
	dst = append(append(dst, action...), `,"records":`...)
	dst = appendOffset(dst, e.records)
	return append(appendTextOrNull(append(dst, `,"reason":`...), clip(e.reason)), '}')
}

func appendFailed(dst []byte, s *policy.Step) []byte {
	dst = appendText(append(dst, `{"name":`...), clip(s.Policy))
	dst = appendText(append(dst, `,"action":"failed","error":`...), clip(s.Err.Error()))
	dst = append(append(append(dst, `,"did":"`...), s.Failed.String()...), `","took_ms":`...)
	return append(appendMillis(dst, s.Took), '}')
}

func clip(s string) string {
	if len(s) > maxReason {
		return s[:maxReason]
	}
	return s
}
