package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

const (
	// stalled is how long nothing may be delivered while there are records left, before the demo gives up.
	stalled = 30 * time.Second
	// checkEvery is how often the brokers are asked whether all is settled, once the members think so.
	checkEvery = 25 * time.Millisecond
	// trimEvery is how often settled records are deleted.
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

// watch says when it is over. all is closed when no more records come.
func (d *demo) watch(ctx context.Context, stop <-chan struct{}, all <-chan struct{}) error {
	over := all
	if !d.Once {
		over = stop
	}
	last, progress, trimmed := int64(-1), time.Now(), time.Now()
	for sleep(ctx, checkEvery) {
		settled, deliveries := d.tally.finished()
		produced := d.producer.produced.Load()
		if deliveries != last || settled >= produced && !ended(over) {
			last, progress = deliveries, time.Now()
		}
		if time.Since(progress) > stalled {
			return fmt.Errorf("nothing was delivered for %s, and not all records are settled (%d of %d by the members' count)", stalled, settled, produced)
		}
		if ended(over) && ended(all) && settled >= produced {
			if done, err := d.settled(ctx, nil); done || err != nil {
				return errors.Join(err, d.producer.failure())
			}
		}
		if err := d.producer.failure(); err != nil {
			return err
		}
		if time.Since(trimmed) > trimEvery {
			if err := d.trim(ctx); err != nil {
				return err
			}
			trimmed = time.Now()
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

// settled asks the brokers whether the group is through with every record that was produced. each, where it is not nil, is told how far a partition
// is: all offsets below are settled.
func (d *demo) settled(ctx context.Context, each func(topic string, partition int32, offset int64)) (bool, error) {
	described, err := d.admin.DescribeShareGroupOffsets(ctx, group)
	if err == nil {
		err = errors.Join(described[group].Err, described[group].Offsets.Error())
	}
	if err != nil {
		return false, fmt.Errorf("asking how far the group is: %w", err)
	}
	all := true
	for _, t := range d.topics() {
		for p := range t.partitions {
			end, ok := d.producer.end(t.name, p)
			if !ok {
				continue
			}
			at, known := described[group].Offsets[t.name][p]
			all = all && known && at.StartOffset >= end
			if known && at.StartOffset > 0 && each != nil {
				each(t.name, p, at.StartOffset)
			}
		}
	}
	return all, nil
}

// trim deletes the records that the group is through with, so that a demo that goes on for long does not grow.
func (d *demo) trim(ctx context.Context) error {
	through := kadm.Offsets{}
	if _, err := d.settled(ctx, func(topic string, p int32, offset int64) { through.AddOffset(topic, p, offset, -1) }); err != nil {
		return err
	}
	if len(through) == 0 {
		return nil
	}
	deleted, err := d.admin.DeleteRecords(ctx, through)
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		return fmt.Errorf("deleting settled records: %w", err)
	}
	return nil
}
