package audit

import "github.com/ackproxy/ackproxy/policy"

// sheet gathers what one line says about ranges: what was asked, what was forwarded instead, and who edited what.
type sheet struct {
	lists     bool // what is forwarded has a list of its own, since a part of it was changed
	room      int  // bytes of all the lists
	used      int
	asked     []byte
	forwarded []byte
	groups    []group
	records   int64
	scratch   [3][]byte // the range at hand: as asked, as forwarded, as edited
}

// group is an element of policy: what one policy did to ranges for one reason.
type group struct {
	policy, reason string
	withheld       bool
	ranges         []byte
}

func (s *sheet) reset() {
	s.used, s.records = 0, 0
	s.asked, s.forwarded, s.groups = s.asked[:0], s.forwarded[:0], s.groups[:0]
}

// add takes one range, and the piece it is of where it is one; false where the sheet has no room for it. An empty sheet takes any.
func (s *sheet) add(a *asked, p *policy.Piece) bool {
	list, sent, edit := appendAsked(s.scratch[0][:0], a), s.scratch[1][:0], s.scratch[2][:0]
	n, fresh := 0, group{}
	if p != nil {
		if s.lists {
			sent = appendAsked(sent, &asked{span: span{p.First, p.Last, p.Forwarded}})
		}
		if p.Withheld || changed(p) {
			edit = appendEdit(edit, p)
			fresh = group{policy: p.Policy, reason: p.Reason, withheld: p.Withheld}
			n = s.find(&fresh)
		}
	}
	cost := len(list) + len(sent) + len(edit) + 3 // commas
	if len(edit) > 0 && n == len(s.groups) {
		cost += fresh.size()
	}
	s.scratch = [3][]byte{list, sent, edit}
	if s.used > 0 && s.used+cost > s.room {
		return false
	}
	s.used += cost
	s.asked, s.forwarded = appendElement(s.asked, list), appendElement(s.forwarded, sent)
	if len(edit) > 0 {
		if n == len(s.groups) {
			s.groups = append(s.groups, fresh)
		}
		s.groups[n].ranges = appendElement(s.groups[n].ranges, edit)
	}
	if p != nil {
		s.records = add(s.records, a.span.records())
	}
	return true
}

// find is the place of a group, the end where it is not there yet. Neighbours mostly share one: it looks from the end.
func (s *sheet) find(g *group) int {
	for i := len(s.groups) - 1; i >= 0; i-- {
		if have := &s.groups[i]; have.withheld == g.withheld && have.policy == g.policy && have.reason == g.reason {
			return i
		}
	}
	return len(s.groups)
}

// edits are the elements of policy, each behind a comma.
func (s *sheet) edits() (dst []byte) {
	for i := range s.groups {
		dst = s.groups[i].append(dst)
	}
	return dst
}

func (g *group) size() int { return len(g.append(nil)) }

func (g *group) append(dst []byte) []byte {
	dst = append(dst, `,{"name":`...)
	dst = appendShort(dst, g.policy)
	dst = append(dst, `,"action":"`...)
	dst = append(dst, editNames[action(g.withheld)]...)
	dst = append(dst, `","ranges":[`...)
	dst = append(dst, g.ranges...)
	dst = append(dst, `],"reason":`...)
	if g.reason == "" {
		dst = append(dst, "null"...)
	} else {
		dst = appendShort(dst, g.reason)
	}
	return append(dst, '}')
}

var editNames = [...]string{policy.Change: "change", policy.Withhold: "withhold"}

func action(withheld bool) policy.Action {
	if withheld {
		return policy.Withhold
	}
	return policy.Change
}

// appendEdit appends the range of a piece as policy shows it.
func appendEdit(dst []byte, p *policy.Piece) []byte {
	dst = append(dst, `{"first":`...)
	dst = appendOffset(dst, p.First)
	dst = append(dst, `,"last":`...)
	dst = appendOffset(dst, p.Last)
	dst = append(dst, `,"from":`...)
	dst = appendType(dst, p.Asked)
	if !p.Withheld {
		dst = append(dst, `,"to":`...)
		dst = appendType(dst, p.Forwarded)
	}
	return append(dst, '}')
}

// appendElement appends e to the elements in list, if it is not empty.
func appendElement(list, e []byte) []byte {
	if len(list) > 0 && len(e) > 0 {
		list = append(list, ',')
	}
	return append(list, e...)
}
