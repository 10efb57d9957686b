package ledger

import (
	"fmt"
	"maps"
	"strings"
)

// Report is what does not agree.
type Report struct {
	Claims, Entries int      // acknowledged records, as told by the clients and in the audit
	Unaudited       []string // acknowledged, but not in the audit
	Invented        []string // in the audit, but no client acknowledged it
	Disagree        []string // in both, with different verdicts
}

// OK says that all agrees.
func (r Report) OK() bool { return len(r.Unaudited)+len(r.Invented)+len(r.Disagree) == 0 }

// String shows the sums and a few examples.
func (r Report) String() string {
	some := func(all []string) string { return strings.Join(all[:min(5, len(all))], "\n    ") }
	return fmt.Sprintf("%d acknowledgements, %d audited; %d unaudited, %d invented, %d with another verdict\n    %s\n    %s\n    %s",
		r.Claims, r.Entries, len(r.Unaudited), len(r.Invented), len(r.Disagree), some(r.Unaudited), some(r.Invented), some(r.Disagree))
}

// Compare holds each record's acknowledgements against its entries. Calm demands that they are the same, one by one, and that all were
// answered with success. Otherwise brokers went away in between: an acknowledgement that was told to have succeeded is in the audit
// as accepted, a failed one may be in it as anything, several times where the library sent it again, or not at all where the library
// did not send it; and still nothing is in the audit that no client asked for.
func Compare(claims map[Key][]Claim, entries map[Key][]Entry, calm bool) Report {
	var r Report
	keys := maps.Clone(claims)
	for k := range entries {
		keys[k] = claims[k]
	}
	match := stormy
	if calm {
		match = exact
	}
	for k, cs := range keys {
		es := entries[k]
		r.Claims += len(cs)
		r.Entries += len(es)
		where := fmt.Sprintf("%s %d/%d: client %+v, audit %+v", k.Client, k.Partition, k.Offset, cs, es)
		switch match(cs, es) {
		case unaudited:
			r.Unaudited = append(r.Unaudited, where)
		case invented:
			r.Invented = append(r.Invented, where)
		case disagree:
			r.Disagree = append(r.Disagree, where)
		}
	}
	return r
}

type finding int

const (
	agree finding = iota
	unaudited
	invented
	disagree
)

func exact(cs []Claim, es []Entry) finding {
	switch {
	case len(cs) > len(es):
		return unaudited
	case len(cs) < len(es):
		return invented
	}
	for i, c := range cs {
		if c.Type != es[i].Type {
			return invented
		}
		if !c.OK() || es[i].State != "accepted" {
			return disagree
		}
	}
	return agree
}

// stormy looks for a way to give each entry to an acknowledgement of its type, in order, so that each acknowledgement that succeeded has
// an accepted one as its last.
func stormy(cs []Claim, es []Entry) finding {
	if assign(cs, es, func(c Claim, e *Entry) bool { return !c.OK() || e != nil && e.State == "accepted" }) {
		return agree
	}
	if !assign(cs, es, func(Claim, *Entry) bool { return true }) {
		return invented
	}
	if !assign(cs, es, func(c Claim, e *Entry) bool { return !c.OK() || e != nil }) {
		return unaudited
	}
	return disagree
}

// assign splits es into one run for each of cs; a run's entries all have the claim's type, and fits accepts its last one, nil for an
// empty run.
func assign(cs []Claim, es []Entry, fits func(Claim, *Entry) bool) bool {
	if len(cs) == 0 {
		return len(es) == 0
	}
	var last *Entry
	for n := 0; ; n++ {
		if fits(cs[0], last) && assign(cs[1:], es[n:], fits) {
			return true
		}
		if n == len(es) || es[n].Type != cs[0].Type {
			return false
		}
		last = &es[n]
	}
}
