package dlq

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ackproxy/ackproxy/policy"
)

const codeStorageError = 56 // KAFKA_STORAGE_ERROR: retriable

// save spools what was not produced. What a spool takes no more, because too much waits there already, is produced in the time left, after all.
func (w *work) save(ctx context.Context) {
	var failed []*item
	for i := range w.parts {
		for _, it := range w.parts[i].items {
			if it.fate == pending && w.policy.wantsSpool(it, w.group) {
				failed = append(failed, it)
			}
		}
	}
	if len(failed) == 0 {
		return
	}
	w.policy.spoolAll(ctx, failed)
	for _, it := range failed {
		if it.fate == pending && errors.Is(it.err, errBacklog) && ctx.Err() == nil {
			w.policy.produceNow(ctx, it)
		}
	}
	for _, it := range failed {
		it.drop()
	}
}

// produceNow produces one letter, and waits. One that is too large goes once more without payload, where the configuration wants that.
func (p *Policy) produceNow(ctx context.Context, it *item) {
	p.senders[it.record.Cluster].ensure(ctx, it.record.Topic)
	err := p.produceOnce(ctx, it)
	if tooLarge(err) && p.tooLarge(it, err) == nil {
		err = p.produceOnce(ctx, it)
	}
	if err == nil {
		it.fate, it.err = produced, nil
	}
}

func (p *Policy) produceOnce(ctx context.Context, it *item) error {
	answer := make(chan error, 1)
	it.hold.use()
	record := it.record
	p.senders[record.Cluster].produce(ctx, &record, func(err error) { it.hold.end(); answer <- err })
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// verdict takes the first choice that works for each offset without a dead letter, and says so.
func (w *work) verdict() policy.Verdict {
	var v policy.Verdict
	for i := range w.parts {
		p := &w.parts[i]
		for _, it := range p.items {
			it.drop()
			if it.fate == pending {
				it.fate = w.policy.choose(it, w.group)
			}
		}
		if p.over {
			w.whole(&v, p, w.policy.chooseWhole(), errTooMany)
			continue
		}
		w.edits(&v, p)
	}
	if w.tally(&v); v.Close != policy.CloseNever {
		v.Edits = nil // nothing is forwarded
	}
	return v
}

// wantsSpool says whether the spool is the first choice that may work.
func (p *Policy) wantsSpool(it *item, g group) bool {
	for _, c := range p.config.OnFailure {
		if c == Spool {
			return !it.final && it.record.Topic != ""
		}
		if c != Release || g.releasable(it) {
			return false
		}
	}
	return false
}

// choose is the fate of an offset that has no dead letter. The spool has been tried.
func (p *Policy) choose(it *item, g group) fate {
	for _, c := range p.config.OnFailure {
		switch c {
		case Release: // one at the limit would archive the record
			if g.releasable(it) {
				return released
			}
		case Withhold:
			return withheld
		case Forward:
			return forwarded
		case Close:
			return closed
		}
	}
	return withheld
}

// chooseWhole is the fate of a partition that was not looked at.
func (p *Policy) chooseWhole() fate {
	return p.choose(&item{}, group{})
}

// edits turns the fates of a partition's offsets into edits.
func (w *work) edits(v *policy.Verdict, p *part) {
	for _, it := range p.items {
		if it.fate >= withheld {
			if it.fate == forwarded {
				continue
			}
			w.whole(v, p, it.fate, it.err)
			if it.fate == withheld { // what else would have been released is withheld as well
				p.replace(released, withheld)
				return
			}
		}
	}
	for _, it := range p.items {
		if it.fate != released {
			continue
		}
		reason := "released, not rejected: " + cause(it.err)
		if n := len(v.Edits) - 1; n >= 0 && v.Edits[n].TopicID == p.asked.TopicID && v.Edits[n].Partition == p.asked.Index &&
			v.Edits[n].Last+1 == it.offset && v.Edits[n].Reason == reason {
			v.Edits[n].Last = it.offset
			continue
		}
		v.Edits = append(v.Edits, policy.Edit{TopicID: p.asked.TopicID, Partition: p.asked.Index, First: it.offset, Last: it.offset,
			Action: policy.Change, Type: policy.Release, Reason: reason})
	}
}

func (p *part) replace(from, to fate) {
	for _, it := range p.items {
		if it.fate == from {
			it.fate = to
		}
	}
}

// whole does something to a partition as a whole. Had its Accepts gone on, a client that repeats all would have all refused.
func (w *work) whole(v *policy.Verdict, p *part, f fate, err error) {
	switch f {
	case closed:
		v.Close = policy.CloseBefore
	case withheld:
		ranges := p.asked.Ranges
		v.Edits = append(v.Edits, policy.Edit{TopicID: p.asked.TopicID, Partition: p.asked.Index, First: ranges[0].First,
			Last: ranges[len(ranges)-1].Last, Action: policy.Withhold, ErrorCode: codeStorageError, Reason: "no dead letter: " + cause(err)})
	}
	if p.over {
		w.policy.metrics.unseen.WithLabelValues(fateNames[f]).Inc()
	}
}

// tally counts the fates, and puts them into words.
func (w *work) tally(v *policy.Verdict) {
	var counts [len(fateNames)]int
	var errs [len(fateNames)]error
	over := 0
	for i := range w.parts {
		if w.parts[i].over {
			over++
		}
		for _, it := range w.parts[i].items {
			counts[it.fate]++
			if errs[it.fate] == nil {
				errs[it.fate] = it.err
			}
		}
	}
	var words []string
	for f, n := range counts {
		if n == 0 {
			continue
		}
		w.policy.metrics.fates[f].Add(float64(n))
		text := fmt.Sprintf("%d %s", n, fateNames[f])
		if fate(f) == queued {
			text += " until the transaction ends"
		}
		if errs[f] != nil {
			text += " (" + cause(errs[f]) + ")"
		}
		words = append(words, text)
	}
	if over > 0 {
		words = append(words, fmt.Sprintf("%d partitions not looked at (%s)", over, errTooMany))
	}
	v.Reason = "dead letters: " + strings.Join(words, ", ")
}
