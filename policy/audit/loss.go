package audit

import (
	"bytes"
	"slices"
	"time"
)

// eventType numbers the types of event that this package writes.
type eventType uint8

const (
	shareAck eventType = iota
	shareSession
	shareUndecodable
	adminRequest
	auditControl
	eventTypes
)

var eventNames = [eventTypes]string{"share.ack", "share.session", "share.undecodable", "admin.request", "audit.control"}

// maxGroups bounds the groups that a gap names.
const maxGroups = 16

// loss tallies events that were not written: exact counts, the time they span, and the first groups met.
type loss struct {
	counts     [eventTypes]uint64
	from, to   time.Time
	groups     [][]byte
	moreGroups bool
	firstSeq   uint64 // numbers of lost lines; 0 for events that were lost before they were numbered
	lastSeq    uint64
}

func (l *loss) count(typ eventType, n uint64, at time.Time) {
	l.counts[typ] += n
	if l.from.IsZero() || at.Before(l.from) {
		l.from = at
	}
	if at.After(l.to) {
		l.to = at
	}
}

// group notes a group that lost something. It keeps a copy: outcomes are used again before a tally is.
func (l *loss) group(g []byte) {
	if g == nil || slices.ContainsFunc(l.groups, func(have []byte) bool { return bytes.Equal(have, g) }) {
		return
	}
	if len(l.groups) == maxGroups {
		l.moreGroups = true
		return
	}
	n := len(l.groups)
	if n == cap(l.groups) {
		l.groups = append(l.groups, nil)
	}
	l.groups = l.groups[:n+1]
	l.groups[n] = append(l.groups[n][:0], g...)
}

// events is the sum of the counts.
func (l *loss) events() (n uint64) {
	for _, c := range l.counts {
		n += c
	}
	return n
}

// merge adds what m lost after l.
func (l *loss) merge(m *loss) {
	for typ, n := range m.counts {
		if n > 0 {
			l.count(eventType(typ), n, m.from)
			l.count(eventType(typ), 0, m.to)
		}
	}
	for _, g := range m.groups {
		l.group(g)
	}
	l.moreGroups = l.moreGroups || m.moreGroups
	if l.firstSeq == 0 {
		l.firstSeq = m.firstSeq
	}
	l.lastSeq = max(l.lastSeq, m.lastSeq)
}

// reset empties l and keeps its memory.
func (l *loss) reset() {
	*l = loss{groups: l.groups[:0]}
}
