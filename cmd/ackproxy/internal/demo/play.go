package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

const (
	// stalled is how long nothing may be delivered while there are records left, before the demo gives up: longer than a record's lock.
	stalled = 60 * time.Second
	// checkEvery is how often the brokers are asked whether all is settled, once the members think so.
	checkEvery = 25 * time.Millisecond
	// trimEvery is how often settled records are deleted, and the brokers asked whatever the members think.
	trimEvery = time.Second
)

// play produces and waits until every record is settled, by the brokers' word.
func (d *demo) play(ctx context.Context, stop <-chan struct{}) error {
	produced := make(chan struct{})
	defer func() { <-produced }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(produced)
		d.producer.run(ctx, stop)
	}()
	if d.Screen != nil {
		shown := make(chan struct{})
		defer func() { <-shown }()
		defer cancel()
		go func() {
			defer close(shown)
			d.Screen.follow(ctx, d.frame)
		}()
	}
	return d.watch(ctx, stop, produced)
}

// watch returns when it is over. all is closed when no more records come.
func (d *demo) watch(ctx context.Context, stop <-chan struct{}, all <-chan struct{}) error {
	over := all
	if !d.Once {
		over = stop
	}
	last, progress, trimmed := int64(-1), time.Now(), time.Now()
	for sleep(ctx, checkEvery) {
		if err := d.producer.failure(); err != nil {
			return err
		}
		settled, deliveries := d.tally.finished()
		produced, ending := d.producer.produced.Load(), ended(over) && ended(all)
		if deliveries != last || settled >= produced && !ending {
			last, progress = deliveries, time.Now()
		}
		if time.Since(progress) > stalled {
			return fmt.Errorf("nothing was delivered for %s, and not all is settled (%d of %d records, by the members' count)", stalled, settled, produced)
		}
		trim := time.Since(trimmed) > trimEvery
		if !trim && (!ending || settled < produced) {
			continue
		}
		done, through, err := d.settled(ctx)
		if err == nil && trim {
			err = d.trim(ctx, through)
			trimmed = time.Now()
		}
		if err != nil || done && ending {
			return errors.Join(err, d.producer.failure())
		}
	}
	return fmt.Errorf("interrupted: %w", context.Cause(ctx))
}

func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// settled asks the brokers whether the group is through with every record that was produced, and up to where it is: all offsets below are settled.
func (d *demo) settled(ctx context.Context) (all bool, through kadm.Offsets, err error) {
	described, err := d.admin.DescribeShareGroupOffsets(ctx, group)
	if err == nil {
		err = errors.Join(described[group].Err, described[group].Offsets.Error())
	}
	if err != nil {
		return false, nil, fmt.Errorf("asking how far the group is: %w", err)
	}
	all, through = true, kadm.Offsets{}
	for _, t := range d.topics() {
		for p := range t.partitions {
			end, ok := d.producer.end(t.name, p)
			if !ok {
				continue
			}
			at, known := described[group].Offsets[t.name][p]
			all = all && known && at.StartOffset >= end
			if known && at.StartOffset > 0 {
				through.AddOffset(t.name, p, at.StartOffset, -1)
			}
		}
	}
	return all, through, nil
}

// trim deletes the records that the group is through with, so that a demo that goes on for long does not grow.
func (d *demo) trim(ctx context.Context, through kadm.Offsets) error {
	deleted, err := d.admin.DeleteRecords(ctx, through)
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		return fmt.Errorf("deleting settled records: %w", err)
	}
	return nil
}
