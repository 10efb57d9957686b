package e2e

import (
	"context"
	"fmt"
	"time"

	"github.com/ackproxy/ackproxy/e2e/deadletter/outage"
	"github.com/ackproxy/ackproxy/e2e/kafka"
	"github.com/ackproxy/ackproxy/e2e/tap"
)

// The acknowledgement types.
const (
	accepts  = 1
	releases = 2
	rejects  = 3
)

// storageError is what a client is told of a partition that is withheld.
const storageError = 56

// exhaust uses up the quota with a record of partition 0, which is dead-lettered all the same: brokers throttle what comes next.
func (c *modeCase) exhaust() {
	if !c.join() {
		return
	}
	x, err := c.hand.Acknowledge(outage.Ack{Type: rejects})
	if err != nil || x.Codes[c.partition(0)] != 0 {
		c.wrong("the first record: %+v, %v", x, err)
	}
	c.forget()
}

// reject rejects two records between others, all of them at their first delivery, and checks what reached the broker and what the client is told.
func (c *modeCase) reject() {
	first := int64(0)
	if c.failure == "throttled" {
		first = 1
	} else if !c.join() {
		return
	}
	start := time.Now()
	x, err := c.hand.Acknowledge(outage.Ack{First: first, Last: 2, Type: accepts}, outage.Ack{First: 3, Last: 4, Type: rejects},
		outage.Ack{First: 5, Last: 9, Type: accepts}, outage.Ack{Partition: 1, First: 0, Last: 9, Type: accepts})
	c.t.Logf("%s, %s: answered after %v", c.mode, c.failure, time.Since(start).Round(time.Millisecond))
	if c.mode == "close" {
		if err == nil || c.at() != nil {
			c.wrong("answered %+v; %+v reached the broker", x, c.at())
		}
		return
	}
	if err != nil {
		c.wrong("%v", err)
		return
	}
	want := int16(0)
	switch c.mode {
	case "spool", "forward":
		c.sent(0, first, rejects)
	case "release":
		c.sent(0, first, releases)
	case "withhold":
		want = storageError
		c.unsent(0)
	}
	c.sent(1, 0, accepts)
	if got := x.Codes; x.Top != 0 || got[c.partition(0)] != want || got[c.partition(1)] != 0 {
		c.wrong("the client is told %d, %v", x.Top, got)
	}
}

func (c *modeCase) partition(p int32) tap.Target { return tap.Target{Topic: c.id, Partition: p} }

// at is the last request of the group with acknowledgements that reached the broker.
func (c *modeCase) at() *tap.Exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reached[c.topic]
}

// forget is for what reached the broker so far.
func (c *modeCase) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.reached, c.topic)
}

// sent checks what reached the broker of a partition from an offset to 9: all accepted, but for 3 and 4.
func (c *modeCase) sent(p int32, first int64, middle int8) {
	x := c.at()
	if x == nil {
		c.wrong("nothing reached the broker")
		return
	}
	want := map[int64]int8{}
	for o := first; o <= 9; o++ {
		want[o] = accepts
	}
	want[3], want[4] = middle, middle
	if got := x.Acks[c.partition(p)]; fmt.Sprint(got) != fmt.Sprint(want) || x.Top != 0 || x.Codes[c.partition(p)] != 0 {
		c.wrong("partition %d reached the broker as %v, which said %d, %d", p, got, x.Top, x.Codes[c.partition(p)])
	}
}

func (c *modeCase) unsent(p int32) {
	if x := c.at(); x != nil && len(x.Acks[c.partition(p)]) > 0 {
		c.wrong("partition %d reached the broker as %v", p, x.Acks)
	}
}

// spooled is what is to be seen in mode spool once a Reject was answered: both letters are there.
func (c *modeCase) spooled() {
	kept, _, err := outage.Spooled(c.spoolDir())
	if err != nil {
		c.wrong("%v", err)
		return
	}
	for _, id := range c.lettersOf() {
		if !kept[id] != (c.failure == "large") {
			c.wrong("in the spool: %v: %v", id, kept[id])
		}
	}
}

// drained is what follows: both letters are in their topic once nothing is wrong with it any more.
func (c *modeCase) drained() {
	if c.throttledSpool() == 0 { // else it was looked at: brokers throttle for some seconds only
		c.spooled()
	}
	var err error
	bootstrap := c.source.Bootstrap()
	if c.failure == "throttled" {
		err = outage.Throttle(c.t.Context(), c.source, false)
	} else {
		bootstrap = c.fakes.Bootstrap(c.failure)
		err = c.fakes.Repair(c.t.Context(), c.failure, "dlq."+c.topic)
	}
	if err != nil {
		c.wrong("%v", err)
		return
	}
	if err := kafka.Until(within(c.t, time.Minute), "the letters to be delivered", func(ctx context.Context) bool {
		kept, _, err := outage.Spooled(c.spoolDir())
		return err == nil && !kept[c.lettersOf()[0]] && !kept[c.lettersOf()[1]]
	}); err != nil {
		c.wrong("%v", err)
		return
	}
	c.letters(bootstrap)
}

// letters checks the dead-letter topic: both records are there, as they were; those that were too large without their payload.
func (c *modeCase) letters(bootstrap string) {
	all, err := outage.Read(c.t.Context(), bootstrap, "dlq."+c.topic)
	if err != nil {
		c.wrong("%v", err)
		return
	}
	found := map[string]string{}
	for _, l := range all {
		found[outage.ID(l.Headers)] = string(l.Value)
	}
	for i, id := range c.lettersOf() {
		want := string(outage.Value(c.failure, 0, 3+i))
		if c.failure == "large" {
			want = ""
		}
		if got, ok := found[id]; !ok || got != want {
			c.wrong("letter %s: %v, a value of %d bytes", id, ok, len(got))
		}
	}
}

// again is what follows in mode release: both records come again, and their Reject, which is the last one, is withheld.
func (c *modeCase) again() {
	got := c.fetch(1, 2)
	if want := fmt.Sprint(map[tap.Target]map[int64]int16{c.partition(0): {3: 2, 4: 2}}); fmt.Sprint(got) != want {
		c.wrong("came again: %v", got)
	}
	c.forget()
	x, err := c.hand.Acknowledge(outage.Ack{First: 3, Last: 4, Type: rejects})
	if err != nil || x.Codes[c.partition(0)] != storageError {
		c.wrong("told %+v, %v", x, err)
	}
	c.unsent(0)
}

// comesBack is what follows in mode withhold: nothing of the partition was settled, and all of it comes again after its lock.
func (c *modeCase) comesBack() {
	n := 10
	if c.failure == "throttled" {
		n = 9
	}
	if got := c.fetch(2, n/2); got[c.partition(0)][3] != 2 || got[c.partition(0)][4] != 2 || len(got[c.partition(1)]) > 0 {
		c.wrong("came again: %v", got)
	}
}

// gone is what follows in mode forward: the records are lost, as the configuration wants it. A letter that was only slow may be there.
func (c *modeCase) gone() {
	if c.failure == "slow" || c.failure == "missing" {
		return
	}
	bootstrap := c.fakes.Bootstrap(c.failure)
	if c.failure == "throttled" {
		bootstrap = c.source.Bootstrap()
	}
	all, err := outage.Read(c.t.Context(), bootstrap, "dlq."+c.topic)
	if err != nil {
		c.wrong("%v", err)
		return
	}
	for _, l := range all {
		if id := outage.ID(l.Headers); id == c.lettersOf()[0] || id == c.lettersOf()[1] {
			c.wrong("letter %s is there", id)
		}
	}
}

// reconnects is what follows in mode close: with its connection the member lost what it held, and gets it on the next one.
func (c *modeCase) reconnects() {
	if err := c.hand.Dial(c.t.Context()); err != nil {
		c.wrong("%v", err)
		return
	}
	n := 10
	if c.failure == "throttled" {
		n = 9
	}
	got := c.fetch(2, n)
	if len(got[c.partition(0)]) != n || len(got[c.partition(1)]) != 10 || got[c.partition(0)][3] != 2 {
		c.wrong("came again: %v", got)
	}
}
