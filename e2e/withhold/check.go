package withhold

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/ackproxy/ackproxy/e2e/client"
	"github.com/ackproxy/ackproxy/e2e/ledger"
	"github.com/ackproxy/ackproxy/e2e/tap"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/audit"
)

// auditID is how an audit line names a request.
type auditID struct {
	conn        string
	correlation int32
}

// entry is what became of one record in one audited request.
type entry struct {
	kind   string
	told   int16
	closes bool // the request closed the session
}

// checker holds the audit log against what the policy did, what the broker said, and what clients say.
type checker struct {
	*book
	byID    map[auditID]*decision
	entries map[ledger.Key][]entry
	seq     uint64
}

// check reads the audit log. Nothing else goes on any more.
func (b *book) check(path string, clients []*client.Client) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := &checker{book: b, byID: make(map[auditID]*decision, len(b.decisions)), entries: map[ledger.Key][]entry{}}
	for _, d := range b.decisions {
		c.byID[auditID{d.conn, d.correlation}] = d
	}
	if len(c.byID) != len(b.decisions) {
		return errors.New("two requests of a connection have the same correlation id")
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for r := audit.NewReader(f); ; {
		e, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		c.line(e)
	}
	c.complete()
	for _, one := range clients {
		c.client(one)
	}
	return nil
}

func (c *checker) line(e *audit.Event) {
	if c.seq != 0 && e.Stream.Seq != c.seq+1 {
		c.mismatch("audit line %d follows %d", e.Stream.Seq, c.seq)
	}
	c.seq = e.Stream.Seq
	switch {
	case e.Type == "share.ack":
		c.event(e)
	case e.Type != "share.session" && (e.Control == nil || e.Control.Kind == "gap"):
		c.mismatch("audit line %d is a %s", e.Stream.Seq, e.Type)
	}
}

// event compares one event with the decision that it is about.
func (c *checker) event(e *audit.Event) {
	d := c.byID[auditID{e.Request.Connection, e.Request.CorrelationID}]
	var target tap.Target
	raw, err := base64.RawURLEncoding.DecodeString(e.Target.TopicID)
	copy(target.Topic[:], raw)
	target.Partition = e.Target.Partition
	if d == nil || err != nil || d.parts[target] == nil || d.group != e.Target.Group || d.member != e.Actor.MemberID {
		c.mismatch("audit line %d is about no request that the policy saw", e.Stream.Seq)
		return
	}
	p := d.parts[target]
	held := !e.Ack.Forwarded.Same
	if problem := verdict(e, d, p, held); problem != "" {
		c.mismatch("audit line %d: %s: verdict %+v, policy %+v; the broker's codes are %d and %d, the client was told %d", e.Stream.Seq, problem, e.Verdict,
			e.Policy, d.top, p.code, d.told(p))
	}
	for _, r := range e.Ack.Asked {
		kind := slices.Index(kinds, r.Type)
		one := policy.Range{First: int64(r.First), Last: int64(r.Last), Type: int8(kind)}
		if held {
			p.auditedHeld = append(p.auditedHeld, one)
		} else {
			p.auditedForwarded = append(p.auditedForwarded, one)
		}
		for o := one.First; o <= one.Last; o++ {
			k := ledger.Key{Client: d.client, Partition: target.Partition, Offset: o}
			c.entries[k] = append(c.entries[k], entry{r.Type, d.told(p), d.closes})
		}
	}
}

var kinds = []string{"gap", "accept", "release", "reject", "renew"}

// verdict says what is wrong with the verdict and the policy's part of an event; empty: nothing.
func verdict(e *audit.Event, d *decision, p *part, held bool) string {
	code := d.top
	if code == 0 {
		code = p.code
	}
	v, state, by := e.Verdict, "accepted", "broker"
	if code != 0 {
		state = "refused"
	}
	if held {
		if state = "not_sent"; code == 0 {
			code, by = d.told(p), "proxy"
		}
	}
	switch {
	case v.State != state || v.AnsweredBy != by || v.ErrorCode == nil || *v.ErrorCode != code:
		return fmt.Sprintf("want %s by %s, %d", state, by, code)
	case held && len(e.Ack.Forwarded.Ranges) > 0:
		return "nothing of it was forwarded"
	case held && (len(e.Policy) != 1 || e.Policy[0].Name != policyName || e.Policy[0].Action != "withhold"):
		return "withheld by " + policyName
	case held && records(e.Policy[0].Ranges) != int64(e.Ack.Records):
		return "the policy's ranges are others"
	case !held && len(e.Policy) > 0:
		return "no policy edited it"
	}
	return ""
}

func records(ranges []audit.EditRange) (n int64) {
	for _, r := range ranges {
		n += int64(r.Last - r.First + 1)
	}
	return n
}

// complete makes sure that the log has all that was decided.
func (c *checker) complete() {
	for _, d := range c.decisions {
		for t, p := range d.parts {
			if got, want := sorted(p.auditedForwarded), sorted(p.ranges(false)); !slices.Equal(got, want) {
				c.mismatch("request %d of %s, partition %d: the audit has %v forwarded, want %v", d.correlation, d.member, t.Partition, got, want)
			}
			if got, want := sorted(p.auditedHeld), sorted(p.ranges(true)); !slices.Equal(got, want) {
				c.mismatch("request %d of %s, partition %d: the audit has %v withheld, want %v", d.correlation, d.member, t.Partition, got, want)
			}
		}
	}
}

// client holds what one client says against the log. kgo does not say which offsets a result is about, and sends what failed for the moment
// again together with what came later: of it only what it asked is compared. When it leaves it also releases what it has fetched and the
// application never saw.
func (c *checker) client(one *client.Client) {
	claims := ledger.Claims(one.ID, one.Events())
	for k := range c.entries {
		if k.Client == one.ID && claims[k] == nil {
			claims[k] = nil
		}
	}
	for k, cs := range claims {
		entries := c.entries[k]
		if one.Kind == client.Kgo {
			for i := range cs {
				cs[i].Answered = false
			}
			if n := len(entries) - 1; n >= 0 && entries[n].closes && entries[n].kind == "release" && !agree(cs, entries) {
				entries = entries[:n]
			}
		}
		if !agree(cs, entries) {
			c.mismatch("%s, record %d/%d: the client says %+v, the audit %+v", k.Client, k.Partition, k.Offset, cs, entries)
		}
	}
}

// agree finds out whether the audited entries of a record, in order, can come from what its client says it acknowledged: each
// acknowledgement was sent, again after each 56, and its result is what the last answer said. One that the library failed itself was not
// sent; of one without a result nothing is known but its type.
func agree(claims []ledger.Claim, entries []entry) bool {
	if len(claims) == 0 {
		return len(entries) == 0
	}
	claim := claims[0]
	if !claim.OK() && agree(claims[1:], entries) {
		return true
	}
	for n := 1; n <= len(entries) && entries[n-1].kind == claim.Type; n++ {
		told := entries[n-1].told
		if (!claim.Answered || claim.OK() == (told == 0)) && agree(claims[1:], entries[n:]) {
			return true
		}
		if told != 56 {
			break
		}
	}
	return false
}
