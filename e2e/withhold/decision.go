package withhold

import (
	"cmp"
	"slices"

	"github.com/ackproxy/ackproxy/e2e/tap"
	"github.com/ackproxy/ackproxy/policy"
)

// id names a request on both sides of the proxy.
type id struct {
	key           int16
	correlation   int32
	group, member string
}

// decision is what the policy did with one request.
type decision struct {
	id
	conn, client string
	closes       bool
	parts        map[tap.Target]*part
	answered     bool // the broker's answer was seen
	top          int16
}

// part is one partition of a decision.
type part struct {
	pieces                        []piece
	code                          int16          // the broker's
	auditedForwarded, auditedHeld []policy.Range // filled in when the audit log is read
}

func (p *part) withheld() (n int) {
	for _, c := range p.pieces {
		if c.withheld {
			n += int(c.Last - c.First + 1)
		}
	}
	return n
}

// ranges are what was forwarded, or what was withheld.
func (p *part) ranges(withheld bool) (all []policy.Range) {
	for _, c := range p.pieces {
		if c.withheld == withheld {
			all = append(all, c.Range)
		}
	}
	return all
}

// told is what a client is told of a partition: docs/policies.md. The answer is there.
func (d *decision) told(p *part) int16 {
	if d.top != 0 {
		return d.top
	}
	if p.code != 0 {
		return p.code
	}
	code, all := int16(0), true
	for _, c := range p.pieces {
		own := cmp.Or(c.code, 121)
		switch {
		case !c.withheld:
			all = false
		case code == 0:
			code = own
		case code != own:
			return 121
		}
	}
	if code == 56 && !all {
		return 121
	}
	return code
}

// offsets lists types by offset; nil where there are none.
func offsets(ranges []policy.Range) map[int64]int8 {
	all := map[int64]int8{}
	for _, r := range ranges {
		for o := r.First; o <= r.Last; o++ {
			all[o] = r.Type
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// sorted joins neighbours, in order.
func sorted(ranges []policy.Range) (all []policy.Range) {
	slices.SortFunc(ranges, func(a, b policy.Range) int { return int(a.First - b.First) })
	for _, r := range ranges {
		if n := len(all) - 1; n >= 0 && all[n].Last+1 == r.First && all[n].Type == r.Type {
			all[n].Last = r.Last
			continue
		}
		all = append(all, r)
	}
	return all
}
