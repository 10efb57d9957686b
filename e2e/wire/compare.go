package wire

import (
	"bytes"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Tally counts what was compared.
type Tally struct {
	Conns     int            // client connections that have their broker connection
	Own       map[string]int // requests on broker connections without a client's, which are the proxy's own
	Exchanges map[string]int // by API
	Rewritten map[string]int // answers that differ, in endpoint fields and offered versions only
	Filled    int            // of these, with a tag that makes up for a shorter address
	Endpoints map[string]int // endpoints in answers to clients, by API
	Cut       int            // answers that a client did not wait for
	Bytes     int            // both directions, on the client's side
}

// Hosts are the addresses' hosts on either side.
type Hosts struct {
	Front string // where every endpoint in an answer to a client must lie
	Back  string // what no byte to a client may say; no record does
}

// Compare finds the broker connection of each client connection: its requests are the same bytes, and its answers the same but for
// endpoints and the versions offered. It returns every difference.
func Compare(clients, brokers []*Conn, host Hosts) (t Tally, problems []string) {
	t = newTally()
	waiting := map[string][]*Conn{}
	for _, b := range brokers {
		waiting[string(b.ToServer())] = append(waiting[string(b.ToServer())], b)
	}
	for i, c := range clients {
		sent := string(c.ToServer())
		if sent == "" {
			continue // a connection that was closed unused
		}
		candidates := waiting[sent]
		if len(candidates) == 0 {
			problems = append(problems, fmt.Sprintf("connection %d to %s: no broker got its %d bytes", i, c.Relay, len(sent)))
			continue
		}
		if at := bytes.Index(c.ToClient(), []byte(host.Back)); at >= 0 {
			problems = append(problems, fmt.Sprintf("connection %d to %s: byte %d to the client says %s", i, c.Relay, at, host.Back))
		}
		at, found := t.best(c, candidates, host.Front)
		waiting[sent] = append(append([]*Conn{}, candidates[:at]...), candidates[at+1:]...)
		for _, p := range found {
			problems = append(problems, fmt.Sprintf("connection %d to %s: %s", i, c.Relay, p))
		}
		t.Conns++
		t.Bytes += len(sent) + len(c.ToClient())
	}
	for _, left := range waiting {
		for _, b := range left {
			all, err := Exchanges(b.ToServer(), b.ToClient())
			if err != nil {
				problems = append(problems, "the proxy's own connection: "+err.Error())
			}
			for _, e := range all {
				t.Own[kmsg.NameForKey(e.Key)]++
			}
		}
	}
	return t, problems
}

func newTally() Tally {
	return Tally{Exchanges: map[string]int{}, Rewritten: map[string]int{}, Endpoints: map[string]int{}, Own: map[string]int{}}
}

// best compares with each candidate, several only where connections carried the very same requests, and counts the one that fits.
func (t *Tally) best(c *Conn, candidates []*Conn, host string) (at int, problems []string) {
	for i, b := range candidates {
		try := newTally()
		found := try.answers(c, b, host)
		if i == 0 || len(found) < len(problems) {
			at, problems = i, found
		}
		if len(found) == 0 || i == len(candidates)-1 {
			t.add(try)
			break
		}
	}
	return at, problems
}

func (t *Tally) add(o Tally) {
	t.Cut += o.Cut
	t.Filled += o.Filled
	for to, from := range map[*map[string]int]map[string]int{&t.Exchanges: o.Exchanges, &t.Rewritten: o.Rewritten, &t.Endpoints: o.Endpoints} {
		for k, n := range from {
			(*to)[k] += n
		}
	}
}

func (t *Tally) answers(c, b *Conn, host string) (problems []string) {
	front, err := Exchanges(c.ToServer(), c.ToClient())
	if err != nil {
		return []string{"client's side: " + err.Error()}
	}
	back, err := Exchanges(b.ToServer(), b.ToClient())
	if err != nil {
		return []string{"broker's side: " + err.Error()}
	}
	for i := range front {
		name := kmsg.NameForKey(front[i].Key)
		switch {
		case front[i].Answer == nil:
			t.Cut++
			continue
		case back[i].Answer == nil:
			return append(problems, fmt.Sprintf("exchange %d, %s: an answer that no broker gave", i, name))
		}
		t.Exchanges[name]++
		if err := t.answer(front[i], back[i], name, host); err != nil {
			problems = append(problems, fmt.Sprintf("exchange %d, %s v%d: %v", i, name, front[i].Version, err))
		}
	}
	return problems
}

// answer compares one answer as the client got it with the broker's.
func (t *Tally) answer(front, back Exchange, name, host string) error {
	same := bytes.Equal(front.Answer, back.Answer)
	if !rewritable(front.Key) {
		if !same {
			return fmt.Errorf("other bytes:\n%x\n%x", front.Answer, back.Answer)
		}
		return nil
	}
	got, err := front.Response()
	if err != nil {
		return fmt.Errorf("client's side: %w", err)
	}
	sent, err := back.Response()
	if err != nil {
		return fmt.Errorf("broker's side: %w", err)
	}
	if !same {
		t.Rewritten[name]++
	}
	for _, e := range endpoints(got) {
		t.Endpoints[name]++
		if *e.host != host {
			return fmt.Errorf("node %d is told to be at %s:%d", e.node, *e.host, *e.port)
		}
	}
	if blank(got) && !blank(sent) {
		t.Filled++
	}
	blank(sent)
	if err := offered(got, sent); err != nil {
		return err
	}
	if a, b := got.AppendTo(nil), sent.AppendTo(nil); !bytes.Equal(a, b) {
		return fmt.Errorf("other bytes outside of endpoints:\n%x\n%x", a, b)
	}
	return nil
}
