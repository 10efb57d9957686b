package redrive

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/dlq/letter"
)

// Where says where a letter is.
type Where string

// The places.
const (
	InTopic Where = "topic"
	InSpool Where = "spool" // of a proxy: not produced yet
)

// Row is what dead letters have in common, and how many there are.
type Row struct {
	DLQ     string    `json:"dlq"` // the topic they are in, or are for
	Where   Where     `json:"where"`
	Cluster string    `json:"cluster,omitempty"` // of those in a spool, where it is not the policy's own
	Refused bool      `json:"refused,omitempty"` // in the spool for good: the topic will never take them
	Topic   string    `json:"topic"`             // where the records came from
	Group   string    `json:"group"`
	Reason  string    `json:"reason"`
	Payload string    `json:"payload"`
	Letters int       `json:"letters"`
	IDs     int       `json:"ids"`   // different ones among them; letters without an id count each
	Bytes   int64     `json:"bytes"` // keys and values
	MaxHops int       `json:"max_hops"`
	Oldest  time.Time `json:"oldest"` // when it was dead-lettered
	Newest  time.Time `json:"newest"`
}

// Letter is one dead letter.
type Letter struct {
	DLQ       string `json:"dlq"`
	Where     Where  `json:"where"`
	Cluster   string `json:"cluster,omitempty"`
	Refused   bool   `json:"refused,omitempty"`
	Partition int32  `json:"partition"` // -1 in a spool, like the offset
	Offset    int64  `json:"offset"`

	ID              string    `json:"id"`
	Topic           string    `json:"topic"`
	SourcePartition int32     `json:"source_partition"`
	SourceOffset    int64     `json:"source_offset"`
	Group           string    `json:"group"`
	Reason          string    `json:"reason"`
	Message         string    `json:"message"`
	DeliveryCount   int16     `json:"delivery_count"` // 0 is unknown
	Hops            int       `json:"hops"`
	Time            time.Time `json:"time"`
	Member          string    `json:"member"`
	ClientID        string    `json:"client_id"`
	Principal       string    `json:"principal"`
	Payload         string    `json:"payload"`
	KeyBytes        int       `json:"key_bytes"` // -1 is null
	ValueBytes      int       `json:"value_bytes"`
}

// Summary adds letters up.
type Summary struct {
	Others int // records that are no dead letters
	rows   map[Row]*sum
}

type sum struct {
	Row
	ids map[uint64]struct{} // hashes: there may be millions, and two that are equal by chance make a count one too low
}

var idSeed = maphash.MakeSeed()

// Add counts one record of a dead-letter topic, or one entry of a spool.
func (s *Summary) Add(r Letter, is bool) {
	if !is {
		s.Others++
		return
	}
	if s.rows == nil {
		s.rows = make(map[Row]*sum)
	}
	key := Row{DLQ: r.DLQ, Where: r.Where, Cluster: r.Cluster, Refused: r.Refused, Topic: r.Topic, Group: r.Group, Reason: r.Reason, Payload: r.Payload}
	t := s.rows[key]
	if t == nil {
		t = &sum{Row: key, ids: make(map[uint64]struct{})}
		t.Oldest, t.Newest = r.Time, r.Time
		s.rows[key] = t
	}
	t.Letters++
	before := len(t.ids)
	if r.ID != "" {
		t.ids[maphash.String(idSeed, r.ID)] = struct{}{}
	}
	if r.ID == "" || len(t.ids) > before {
		t.IDs++
	}
	t.Bytes += int64(max(r.KeyBytes, 0) + max(r.ValueBytes, 0))
	t.MaxHops = max(t.MaxHops, r.Hops)
	if r.Time.Before(t.Oldest) {
		t.Oldest = r.Time
	}
	if r.Time.After(t.Newest) {
		t.Newest = r.Time
	}
}

// Rows are the sums, most letters first.
func (s *Summary) Rows() []Row {
	var rows []Row
	for _, t := range s.rows {
		rows = append(rows, t.Row)
	}
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Letters, a.Letters), cmp.Compare(a.DLQ, b.DLQ), cmp.Compare(b.Where, a.Where), cmp.Compare(a.Cluster, b.Cluster),
			cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Group, b.Group),
			cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Payload, b.Payload))
	})
	return rows
}

// Inspect is what a record of a dead-letter topic says of itself; whether it is a dead letter at all; and whether the filter chooses it. What
// is no letter, no filter leaves out.
func Inspect(r *kgo.Record, f Filter, now time.Time) (l Letter, is, chosen bool) {
	info, _, is := infoOf(r)
	return Letter{DLQ: r.Topic, Where: InTopic, Partition: r.Partition, Offset: r.Offset, ID: info.ID, Topic: info.Topic, SourcePartition: info.Partition,
		SourceOffset: info.Offset, Group: info.Group, Reason: string(info.Reason), Message: info.Message, DeliveryCount: info.DeliveryCount,
		Hops: info.Hops, Time: info.Time, Member: info.Member, ClientID: info.ClientID, Principal: info.Principal,
		Payload: string(info.Payload), KeyBytes: size(r.Key), ValueBytes: size(r.Value)}, is, !is || f.Match(&info, now)
}

// infoOf reads a letter's headers, which it returns as well. A broker's own letter says nothing of its time: that is the record's.
func infoOf(r *kgo.Record) (info letter.Info, headers []policy.RecordHeader, is bool) {
	headers = make([]policy.RecordHeader, len(r.Headers))
	for i, h := range r.Headers {
		headers[i] = policy.RecordHeader(h)
	}
	info, is = letter.Read(headers)
	if info.Time.IsZero() {
		info.Time = r.Timestamp
	}
	return info, headers, is
}

func size(b []byte) int {
	if b == nil {
		return -1
	}
	return len(b)
}

// Read hands over every record that topics have now, in the order of each partition, and says how far it is.
func Read(ctx context.Context, opts []kgo.Opt, topics []string, each func(*kgo.Record), progress func(done, total int64)) error {
	r, err := newReader(ctx, opts, topics, nil)
	if err != nil {
		return err
	}
	defer r.client.Close()
	for !r.positions.reached() {
		records, err := r.poll(ctx)
		if err != nil {
			return err
		}
		for _, rec := range records {
			if r.positions.take(rec) {
				each(rec)
			}
		}
		progress(r.positions.done())
	}
	return nil
}
