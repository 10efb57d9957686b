package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/ackproxy/ackproxy/bench/internal/report"
)

const (
	floodTopic = "flood"
	floodBytes = 64 << 10 // of a record: a poll has more than the policy's memory takes from ten members
	floodCount = 16_000
)

// flooded has all of large records rejected, through the proxy without a policy, and through those whose dead-letter cluster accepts connections and says
// nothing. The peak of the resident memory is a finding.
func (d *dlqRun) flooded(ctx context.Context) error {
	if err := d.fill(ctx, floodTopic, floodCount, floodBytes); err != nil {
		return err
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer silent.Close()
	go hold(silent)
	flooded := map[string]limits{dlqSilent: usual, dlqSmall: small}
	for name, l := range flooded {
		title := fmt.Sprintf("dead letters to a cluster that does not answer; keep_records, max_buffered and memory are %d MiB together", l.sum())
		if err := d.proxy(ctx, name, title, silent.Addr().String(), l); err != nil {
			return err
		}
	}
	if err := errors.Join(d.running[dlqOff].Stop(), d.running[dlqOn].Stop()); err != nil {
		return err
	}
	delete(d.running, dlqOn)
	off := d.running[dlqOff].Peer
	delete(d.running, dlqOff)
	r, err := off.Start(ctx, d.dir, d.port()) // as it is at its start
	if err != nil {
		return err
	}
	d.running[dlqOff] = r
	for _, name := range []string{dlqOff, dlqSilent, dlqSmall} {
		r, peak := d.running[name], 0.0
		group := "flood-" + name
		if err := d.cluster.ShareGroup(ctx, group, nil); err != nil {
			return err
		}
		d.say.now("flood: %s", name)
		c := crew{seeds: r.Addr, topic: floodTopic, group: group, members: d.members, rejects: 100, backlog: floodCount, pids: d.pids(r),
			window: time.Duration(d.flood * float64(time.Second)), watch: func(mib float64) { peak = max(peak, mib) }}
		figures, err := c.run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", name, err, r.Logs())
		}
		finding := fmt.Sprintf("flood, %s: %d rejects of %d KiB, %.0f records/s, at most %.0f MiB resident", name, c.rejected.Load(), floodBytes>>10,
			figures[report.Records], peak)
		if l, bounded := flooded[name]; bounded {
			finding += fmt.Sprintf(" of the %d that its configuration allows", l.bound())
		}
		d.report.Findings = append(d.report.Findings, finding)
	}
	return nil
}

// hold accepts connections and keeps them open, until the listener is closed.
func hold(l net.Listener) {
	var all []net.Conn
	for {
		c, err := l.Accept()
		if err != nil {
			break
		}
		all = append(all, c)
	}
	for _, c := range all {
		c.Close()
	}
}
