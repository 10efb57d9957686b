package outage

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/e2e/client"
	"github.com/ackproxy/ackproxy/policy/dlq"
)

// Result is what was counted, of all groups together.
type Result struct {
	Rejects    int // that the source's broker accepted
	Early      int // of them: of a delivery that was not the last
	Refused    int // acknowledgements of single records that it did not accept, as those that come after their lock
	Unrejected int // records that were to be rejected, and are settled otherwise
	Unaccepted int // records that were to be accepted, as well
	Homeless   int // Rejects of the outage that were not in the spool while it lasted
	Spooled    int // letters in the spool at the end of the outage
	Lost       int // Rejects without a letter in the topic, in the end
	Altered    int // letters that are not the record
	Strangers  int // letters of records that were not rejected
	Copies     int // letters in the topics
	Duplicates int // of them: further ones of the same record
	Left       int // letters in the spool, in the end
	Away       time.Duration
	Drained    time.Duration            // from the end of the load until all was settled and the spool empty
	Gaps       map[string]time.Duration // by group: the longest time in the outage without an Accept
	GapsBefore map[string]time.Duration
	Fates      map[string]int // offsets by what the policy did about them
}

// String is the result in one line.
func (r *Result) String() string {
	return fmt.Sprintf("away=%v rejects=%d refused=%d unrejected=%d unaccepted=%d homeless=%d spooled=%d lost=%d altered=%d strangers=%d duplicates=%d "+
		"left=%d drained=%v fates=%v", r.Away.Round(time.Second), r.Rejects, r.Refused, r.Unrejected, r.Unaccepted, r.Homeless, r.Spooled, r.Lost,
		r.Altered, r.Strangers, r.Duplicates, r.Left, r.Drained.Round(100*time.Millisecond), r.Fates)
}

// OK says whether all is as it must be, and something happened at all.
func (r *Result) OK() bool {
	return r.Rejects > 0 && r.Spooled > 0 && r.Early+r.Refused+r.Unrejected+r.Unaccepted+r.Homeless+r.Lost+r.Altered+r.Strangers+r.Left == 0 &&
		r.Fates["produced"] > 0 && r.Fates["produced"]+r.Fates["spooled"] == r.fates()
}

func (r *Result) fates() (n int) {
	for _, one := range r.Fates {
		n += one
	}
	return n
}

// look asks, while the dead-letter broker is away, where the letters of the Rejects since then are.
func (r *run) look(result *Result, since time.Time) error {
	rejects := r.book.since(since) // before the spool is read: a letter is there before its Reject is accepted
	kept, _, err := Spooled(r.spoolDir())
	result.Spooled = len(kept)
	for group, records := range rejects {
		for _, one := range records {
			if !kept[r.id(group, one)] {
				result.Homeless++
			}
		}
	}
	return err
}

func (r *run) spoolDir() string { return dlq.SpoolDir(filepath.Join(r.Dir, "state"), "dlq") }

func (b *book) since(t time.Time) map[string][]client.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[string][]client.Record{}
	for group, one := range b.groups {
		for r, at := range one.rejects {
			if at.After(t) {
				all[group] = append(all[group], r)
			}
		}
	}
	return all
}

// id is the dedupe id that a letter must have.
func (r *run) id(group string, one client.Record) string {
	return fmt.Sprintf("%s/%s/%d/%d", group, codec.UUID(r.topicID), one.Partition, one.Offset)
}

// compare holds the dead-letter topics against what was rejected, and what was to be.
func (r *run) compare(ctx context.Context, result *Result) error {
	source, err := Read(ctx, r.Source.Bootstrap(), r.Name)
	if err != nil {
		return err
	}
	result.Gaps, result.GapsBefore = map[string]time.Duration{}, map[string]time.Duration{}
	for _, m := range r.members {
		letters, err := Read(ctx, r.Letters.Bootstrap(), m.letters())
		if err != nil {
			return err
		}
		r.group(result, m, source, letters)
	}
	_, result.Left, err = Spooled(r.spoolDir())
	return err
}

func (r *run) group(result *Result, m *member, source, letters []*kgo.Record) {
	t := r.book.groups[m.Group]
	result.Rejects, result.Early, result.Refused = result.Rejects+len(t.rejects), result.Early+t.early, result.Refused+t.refused
	result.Gaps[m.Group], result.GapsBefore[m.Group] = t.gaps[away], t.gaps[before]
	result.Copies += len(letters)
	found := map[string]int{}
	byID := map[string]*kgo.Record{}
	for _, s := range source {
		one := client.Record{Partition: s.Partition, Offset: s.Offset}
		byID[r.id(m.Group, one)] = s
		if _, rejected := t.rejects[one]; !rejected && m.rejects(one) {
			result.Unrejected++
		}
		if !t.accepts[one] && !m.rejects(one) {
			result.Unaccepted++
		}
	}
	for _, l := range letters {
		id := ID(l.Headers)
		found[id]++
		if s := byID[id]; s == nil || !same(l, s) {
			result.Altered++
		}
	}
	for one := range t.rejects {
		id := r.id(m.Group, one)
		if found[id] == 0 {
			result.Lost++
			continue
		}
		result.Duplicates += found[id] - 1
		delete(found, id)
	}
	result.Strangers += len(found)
}

// rejects says what the client's pattern does with a record.
func (m *member) rejects(r client.Record) bool {
	return (int64(m.Seed)*31+int64(r.Partition)*7+r.Offset*13)%100 < int64(m.Spec.Rejects)
}

// same says whether a letter is the record: key, value, and the header that all records have.
func same(l, s *kgo.Record) bool {
	return bytes.Equal(l.Key, s.Key) && bytes.Equal(l.Value, s.Value) && len(l.Headers) > len(s.Headers) && l.Headers[0].Key == s.Headers[0].Key &&
		bytes.Equal(l.Headers[0].Value, s.Headers[0].Value)
}
