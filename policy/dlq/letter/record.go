package letter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/ackproxy/ackproxy/policy"
)

// Record is a dead letter ready to be produced, and where to.
type Record struct {
	Cluster   string // its name in the configuration; empty is the policy's own
	Topic     string
	Partition int32 // of the source; the target's is this modulo the target's number of partitions
	Timestamp int64 // milliseconds since 1970; 0 stands for the time of producing

	Key, Value []byte // nil is null
	Headers    []policy.RecordHeader
}

const recordFormat = 1 // the first byte; a later format gets another

// errRecord says that bytes are not what Append writes.
var errRecord = errors.New("not a dead letter of a known format")

// Own makes the record independent of the bytes that it was made of, which may be a small part of a large batch: of key, value and the first few
// headers.
func (r *Record) Own(headers int) {
	r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
	for i := range r.Headers[:min(headers, len(r.Headers))] {
		r.Headers[i].Value = bytes.Clone(r.Headers[i].Value)
	}
}

// Append appends the record in the form that a spool keeps.
func (r *Record) Append(to []byte) []byte {
	e := encoder{to: to}
	e.record(r)
	return e.to
}

// WriteTo implements io.WriterTo: it writes what Append appends, without a copy of what is long.
func (r *Record) WriteTo(w io.Writer) (int64, error) {
	e := encoder{to: make([]byte, 0, 2*short), w: w}
	e.record(r)
	e.flush()
	return e.n, e.err
}

// encoder appends fields. With a writer it passes them on, long ones as they are.
type encoder struct {
	to  []byte
	w   io.Writer // nil: all stays in to
	n   int64     // bytes that w has
	err error     // of w
}

const short = 1 << 10 // bytes of what is gathered before it is passed on

func (e *encoder) record(r *Record) {
	e.to = append(e.to, recordFormat)
	e.bytes([]byte(r.Cluster))
	e.bytes([]byte(r.Topic))
	e.to = binary.AppendVarint(e.to, int64(r.Partition))
	e.to = binary.AppendVarint(e.to, r.Timestamp)
	e.bytes(r.Key)
	e.bytes(r.Value)
	e.to = binary.AppendUvarint(e.to, uint64(len(r.Headers)))
	for _, h := range r.Headers {
		e.bytes([]byte(h.Key))
		e.bytes(h.Value)
	}
}

// bytes writes the length plus one, 0 for nil, and the bytes.
func (e *encoder) bytes(b []byte) {
	if b == nil {
		e.to = append(e.to, 0)
		return
	}
	e.to = binary.AppendUvarint(e.to, uint64(len(b))+1)
	if e.w == nil || len(b) < short {
		e.to = append(e.to, b...)
	} else {
		e.flush()
		e.write(b)
	}
	if e.w != nil && len(e.to) > short {
		e.flush()
	}
}

func (e *encoder) flush() {
	e.write(e.to)
	e.to = e.to[:0]
}

func (e *encoder) write(b []byte) {
	if e.err == nil {
		var n int
		n, e.err = e.w.Write(b)
		e.n += int64(n)
	}
}

// Size is at least what Append appends, in bytes.
func (r *Record) Size() int {
	const perField = binary.MaxVarintLen64
	n := 1 + 8*perField + len(r.Cluster) + len(r.Topic) + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += 2*perField + len(h.Key) + len(h.Value)
	}
	return n
}

// Decode reads what Append wrote, all of it. Key, value and header values are views of b.
func Decode(b []byte) (Record, error) {
	if len(b) == 0 || b[0] != recordFormat {
		return Record{}, errRecord
	}
	d := decoder{rest: b[1:]}
	r := Record{Cluster: string(d.bytes()), Topic: string(d.bytes())}
	r.Partition, r.Timestamp = int32(d.varint()), d.varint()
	r.Key, r.Value = d.bytes(), d.bytes()
	count := d.uvarint()
	if count > uint64(len(d.rest))/2 { // each takes two bytes at least
		return Record{}, errRecord
	}
	for range count {
		r.Headers = append(r.Headers, policy.RecordHeader{Key: string(d.bytes()), Value: d.bytes()})
	}
	if d.bad || len(d.rest) > 0 {
		return Record{}, errRecord
	}
	return r, nil
}

// decoder reads fields; once bad it reads zeros.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	d.advance(n)
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	d.advance(n)
	return v
}

// advance goes behind a number of n bytes. It has none where it is cut off, and a negative number where it is too long; neither is kept.
func (d *decoder) advance(n int) {
	if n <= 0 {
		d.bad, d.rest = true, nil
		return
	}
	d.rest = d.rest[n:]
}

func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n == 0 {
		return nil
	}
	if n--; n > uint64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

// Strip leaves out the payload: key, value and the original headers, all that are not ours.
func (r *Record) Strip(why string) {
	r.Key, r.Value = nil, nil
	ours := r.Headers[:0:0]
	for _, h := range r.Headers {
		switch {
		case !written[h.Key]:
			continue
		case h.Key == HeaderPayload:
			ours = append(ours, policy.RecordHeader{Key: HeaderPayload, Value: []byte(Unavailable)},
				policy.RecordHeader{Key: HeaderMissing, Value: []byte(why)})
			continue
		}
		ours = append(ours, h)
	}
	r.Headers = ours
}
