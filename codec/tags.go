package codec

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
)

// Tags are the tagged fields of a struct that are not ours to know, kept as they were. They survive an edit: Append writes them in
// the order of their numbers, the last of those with the same number. The zero value has none.
type Tags struct {
	raw   []byte // the section without its count
	known bool   // tag 0 in it is a field of the struct
}

// Len is the number of fields, repeated ones included. It counts them.
func (t Tags) Len() int {
	n := 0
	for range t.All() {
		n++
	}
	return n
}

// All are tag and bytes of each field in the order of the wire.
func (t Tags) All() iter.Seq2[uint32, []byte] {
	return func(yield func(uint32, []byte) bool) { t.each(yield) }
}

func (t Tags) each(yield func(uint32, []byte) bool) {
	w := walker{fast: t.raw, in: t.raw}
	for w.pos < len(w.in) {
		tag, data := w.taggedField()
		if w.stopped || !(t.known && tag == 0) && !yield(tag, data) {
			return
		}
	}
}

// Append adds a field. On tags of a decoded message it copies them first; the frame is never written to.
func (t *Tags) Append(tag uint32, data []byte) {
	t.raw = appendTagged(t.raw[:len(t.raw):len(t.raw)], tag, data)
}

func appendTagged(out []byte, tag uint32, data []byte) []byte {
	out = binary.AppendUvarint(out, uint64(tag))
	out = binary.AppendUvarint(out, uint64(len(data)))
	return append(out, data...)
}

// tags walks the section of tagged fields of a struct that knows none.
func (w *walker) tags(t *Tags) {
	if p := w.pos; p < len(w.fast) && w.fast[p] == 0 {
		*t = Tags{}
		w.pos = p + 1
		return
	}
	w.slowTags(t)
}

func (w *walker) slowTags(t *Tags) { w.tagsAnd(t, false, nil) }

// tagsAnd walks the section of a struct that knows tag 0: field walks it, and set says whether it is worth writing, which it is not at
// its default. The TxnShareAcknowledgeResponse says what is taken and what is refused.
func (w *walker) tagsAnd(t *Tags, set bool, field func()) {
	if w.appending {
		w.appendTags(*t, set, field)
		return
	}
	n, ok := w.tagCount()
	start, unknown, last := w.pos, false, int64(-1)
	for ; ok && n > 0; n-- {
		at := w.pos
		tag, data := w.taggedField()
		if w.stopped {
			return
		}
		if int64(tag) <= last {
			w.tolerate("_tags", at, "tags not ascending: %d after %d", int(tag), int(last))
		}
		last = max(last, int64(tag))
		known := field != nil && tag == 0
		if w.tracing() {
			w.traceTagged(at, tag, data, known)
		}
		if known {
			w.within(data, field)
		} else {
			unknown = true
		}
		ok = !w.stopped
	}
	*t = Tags{}
	if unknown {
		*t = Tags{raw: w.in[start:w.pos:w.pos], known: field != nil}
	}
}

func (w *walker) tagCount() (int, bool) {
	at := w.pos
	n, ok := w.uvarint("_tags")
	if !ok {
		return 0, false
	}
	if int32(n) < 0 { // so it is for brokers; from 4.2 on they refuse it
		w.tolerate("_tags", at, "negative tag count %d read as 0", int(int32(n)))
		n = 0
	}
	if n > maxTags {
		w.tolerate("_tags", at, "%d tagged fields, more than %d", int(n), maxTags)
	}
	if left := len(w.in) - w.pos; int(n) > left/2 {
		w.fail("_tags", at, "tag count over the bytes left: %d fields, %d bytes", int(n), left)
	}
	if w.tracing() {
		w.care.value(Field{Name: "_tags", At: at, Type: TagSection, Value: int64(n)}, w.pos)
	}
	return int(n), !w.stopped
}

// traceTagged tells of a tagged field: of a known one of what comes before it only, the field will tell of itself.
func (w *walker) traceTagged(at int, tag uint32, data []byte, known bool) {
	if known {
		w.care.value(Field{Name: "_tags", At: at, Type: TagHeader, Value: int64(tag)}, w.pos-len(data))
	} else {
		w.care.value(Field{Name: "_tags", At: at, Type: TaggedField, Tag: int64(tag), Value: data}, w.pos)
	}
}

func (w *walker) taggedField() (tag uint32, data []byte) {
	tag, _ = w.uvarint("_tags")
	size, ok := w.uvarint("_tags")
	if !ok {
		return 0, nil
	}
	return tag, w.take("_tags", int(size))
}

// within lets field read data, which was taken last, and nothing beyond.
func (w *walker) within(data []byte, field func()) {
	end, in, fast := w.pos, w.in, w.fast
	w.pos, w.in = end-len(data), in[:end]
	if fast != nil {
		w.fast = w.in
	}
	field()
	if w.pos != end {
		w.fail("_tags", w.pos, "tagged field of %d bytes, of which %d are left", len(data), end-w.pos)
	}
	if w.in = in; !w.stopped {
		w.fast = fast
	}
}

// atDefault notes a known tagged field that a writer would have left out.
func (w *walker) atDefault(name string, at int, is bool) {
	if is && !w.appending && !w.stopped {
		w.tolerate(name, at, "tagged field at its default")
	}
}

func (w *walker) appendTags(t Tags, set bool, field func()) {
	list, n := t.sorted(field != nil), 0
	if set {
		n = 1
	}
	w.out = binary.AppendUvarint(w.out, uint64(len(list)+n))
	if set {
		w.out = append(w.out, 0)
		start := len(w.out)
		field()
		size := binary.AppendUvarint(nil, uint64(len(w.out)-start))
		w.out = slices.Insert(w.out, start, size...)
	}
	for _, f := range list {
		w.out = appendTagged(w.out, f.tag, f.data)
	}
}

type taggedField struct {
	tag  uint32
	data []byte
}

// sorted are the fields in ascending order, the last of each number; without number 0 where that is a field of the struct.
func (t Tags) sorted(known bool) []taggedField {
	var list []taggedField
	for tag, data := range t.All() {
		if !(known && tag == 0) {
			list = append(list, taggedField{tag, data})
		}
	}
	slices.SortStableFunc(list, func(a, b taggedField) int { return cmp.Compare(a.tag, b.tag) })
	slices.Reverse(list) // the last of each number comes first, and is the one that CompactFunc keeps
	list = slices.CompactFunc(list, func(a, b taggedField) bool { return a.tag == b.tag })
	slices.Reverse(list)
	return list
}
