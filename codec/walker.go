package codec

import "encoding/binary"

// walker carries one walk over the fields of a message. The same walk methods read, append and trace: they name each field once, in
// the order of the wire, and the walker does to it what the walk is for.
//
//	reading, strict   Decode's first pass: the first byte that Append would have written otherwise stops it
//	reading, careful  Decode's second pass, where the first stopped: takes what brokers take, and notes the first problem and its place
//	reading, lenient  iteration over bytes that one of the passes above has accepted: takes what brokers take, notes nothing
//	appending         Append
//
// The methods named after types take the fast way out when the bytes are there and plain. Everything else goes to the slow half of
// the method: it is the only one that appends, reports or traces, so reading pays for none of that. Elements of arrays that are
// read strictly or leniently are passed over without a walk where they are plain (see shape).
type walker struct {
	fast    []byte // what the fast ways may take from: in, or nil where every field must go the slow way
	in      []byte // reading: the bytes up to the end of the section that is being read
	pos     int    // reading: the next byte of in
	out     []byte // appending: what was written
	version int16  // of the message; 0 inside an Array, whose elements depend on their layout alone
	layout  layout

	appending, strict, stopped bool

	care *care // reading carefully: problems, names and the tracer; otherwise nil
}

// layout says which of the fields that not all carriers have in common the elements of an array have.
type layout uint8

const (
	hasMaxBytes  layout = 1 << iota // AckPartition has PartitionMaxBytes (ShareFetch v0)
	leaderTagged                    // AckResult has its CurrentLeader in tag 0 (TxnShareAcknowledge)
	layouts                         // how many there are

	builtLayout = hasMaxBytes // of arrays built with Append: room for every field, in its plain place
)

func (w *walker) has(l layout) bool { return w.layout&l != 0 }

// Limits of the 4.4 readers. Those of 4.1 have the last one only, so that what is beyond the others is Tolerated.
const (
	maxElements  = 1_000_000
	maxTags      = 10_000
	maxStringLen = 32_767
)

func (w *walker) int64(name string, v *int64) {
	if p := w.pos; p+8 <= len(w.fast) {
		*v = int64(binary.BigEndian.Uint64(w.fast[p:]))
		w.pos = p + 8
		return
	}
	*v = w.slowInt(name, Int64, *v)
}

func (w *walker) int32(name string, v *int32) {
	if p := w.pos; p+4 <= len(w.fast) {
		*v = int32(binary.BigEndian.Uint32(w.fast[p:]))
		w.pos = p + 4
		return
	}
	*v = int32(w.slowInt(name, Int32, int64(*v)))
}

func (w *walker) int16(name string, v *int16) {
	if p := w.pos; p+2 <= len(w.fast) {
		*v = int16(binary.BigEndian.Uint16(w.fast[p:]))
		w.pos = p + 2
		return
	}
	*v = int16(w.slowInt(name, Int16, int64(*v)))
}

func (w *walker) uint16(name string, v *uint16) { *v = uint16(w.slowInt(name, Uint16, int64(*v))) }

func (w *walker) int8(name string, v *int8) { *v = int8(w.slowInt(name, Int8, int64(*v))) }

// slowInt reads or appends an integer of any size; uint16 is the only unsigned one.
func (w *walker) slowInt(name string, t Type, v int64) int64 {
	size := t.size()
	if w.appending {
		for shift := 8 * (size - 1); shift >= 0; shift -= 8 {
			w.out = append(w.out, byte(v>>shift))
		}
		return v
	}
	at := w.pos
	b := w.take(name, size)
	if b == nil {
		return 0
	}
	u := uint64(0)
	for _, c := range b {
		u = u<<8 | uint64(c)
	}
	v = int64(u)
	if t != Uint16 {
		unused := 64 - 8*size
		v = v << unused >> unused
	}
	if w.tracing() {
		w.care.value(Field{Name: name, At: at, Type: t, Value: v}, w.pos)
	}
	return v
}

func (w *walker) bool(name string, v *bool) {
	if p := w.pos; p < len(w.fast) && w.fast[p] <= 1 {
		*v = w.fast[p] == 1
		w.pos = p + 1
		return
	}
	w.slowBool(name, v)
}

func (w *walker) slowBool(name string, v *bool) {
	if w.appending {
		b := byte(0)
		if *v {
			b = 1
		}
		w.out = append(w.out, b)
		return
	}
	at := w.pos
	b := w.take(name, 1)
	if b == nil {
		return
	}
	*v = b[0] != 0
	if b[0] > 1 {
		w.tolerate(name, at, "bool byte not 0 or 1: %d", int(b[0]))
	}
	if w.tracing() {
		w.care.value(Field{Name: name, At: at, Type: Bool, Value: *v}, w.pos)
	}
}

func (w *walker) uuid(name string, v *UUID) {
	if p := w.pos; p+16 <= len(w.fast) {
		*v = UUID(w.fast[p : p+16])
		w.pos = p + 16
		return
	}
	w.slowUUID(name, v)
}

func (w *walker) slowUUID(name string, v *UUID) {
	if w.appending {
		w.out = append(w.out, v[:]...)
		return
	}
	at := w.pos
	b := w.take(name, 16)
	if b == nil {
		return
	}
	*v = UUID(b)
	if w.tracing() {
		w.care.value(Field{Name: name, At: at, Type: Uuid, Value: *v}, w.pos)
	}
}

// str is a compact string that may not be null; a nil one is appended as empty.
func (w *walker) str(name string, v *[]byte) { w.compact(name, CompactString, v) }

// nullable is a compact string that may be null, which is nil.
func (w *walker) nullable(name string, v *[]byte) { w.compact(name, CompactNullableString, v) }

// records is a compact run of bytes that may be null, which is nil.
func (w *walker) records(name string, v *[]byte) { w.compact(name, CompactNullableBytes, v) }

// int8s is a compact array of int8, kept as the bytes that it is.
func (w *walker) int8s(name string, v *[]byte) { w.compact(name, CompactInt8Array, v) }

func (w *walker) compact(name string, t Type, v *[]byte) {
	if p := w.pos; p < len(w.fast) {
		// One length byte, length + 1, is the common case.
		if n := int(w.fast[p]); n > 0 && n < 0x80 && p+n <= len(w.fast) {
			*v = w.fast[p+1 : p+n : p+n]
			w.pos = p + n
			return
		}
	}
	w.slowCompact(name, t, v)
}

func (w *walker) slowCompact(name string, t Type, v *[]byte) {
	if w.appending {
		w.out = appendCompact(w.out, t, *v)
		return
	}
	at := w.pos
	n, ok := w.uvarint(name)
	if !ok {
		return
	}
	*v = nil
	switch limit := t.limit(); {
	case t.nullable() && n > 1<<31: // brokers read it as a negative number, from which they take one
		w.tolerate(name, at, "negative length %d read as null", int(int32(n))-1)
	case n == 0 && !t.nullable():
		w.fail(name, at, "null for a non-nullable "+t.noun())
		return
	case n > 0 && int64(n)-1 > int64(limit) && (t != CompactInt8Array || n > 1<<31):
		w.fail(name, at, t.noun()+" of %d, more than %d", int(n-1), limit)
		return
	case n > 0:
		if int64(n)-1 > int64(limit) {
			w.tolerate(name, at, t.noun()+" of %d, more than %d", int(n-1), limit)
		}
		if *v = w.take(name, int(n-1)); *v == nil {
			return
		}
	}
	if w.tracing() {
		w.care.value(Field{Name: name, At: at, Type: t, Value: *v}, w.pos)
	}
}

func appendCompact(out []byte, t Type, v []byte) []byte {
	if v == nil && t.nullable() {
		return append(out, 0)
	}
	return append(binary.AppendUvarint(out, uint64(len(v))+1), v...)
}

// oldNullable is a string with an int16 length, -1 for null: the client id, which is never compact. Brokers take any negative length
// for null.
func (w *walker) oldNullable(name string, v *[]byte) {
	if w.appending {
		n := len(*v)
		if *v == nil {
			n = -1
		}
		w.out = append(binary.BigEndian.AppendUint16(w.out, uint16(n)), *v...)
		return
	}
	at := w.pos
	b := w.take(name, 2)
	if b == nil {
		return
	}
	*v = nil
	n := int16(binary.BigEndian.Uint16(b))
	switch {
	case n < -1:
		w.tolerate(name, at, "negative length %d read as null", int(n))
	case n >= 0:
		if *v = w.take(name, int(n)); *v == nil {
			return
		}
	}
	if w.tracing() {
		w.care.value(Field{Name: name, At: at, Type: NullableString, Value: *v}, w.pos)
	}
}
