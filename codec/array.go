package codec

import (
	"encoding/binary"
	"iter"
)

// element is what arrays are made of.
type element interface {
	int32 | AckTopic | AckPartition | AckBatch | ForgottenTopic | AckResultTopic | AckResult | FetchResultTopic | FetchResult |
		AcquiredRecord | NodeEndpoint | Listener
}

// walkAll walks v n times over, as the elements of an array follow each other. A switch over concrete types, not an interface method:
// calls through an interface would move every element to the heap.
func walkAll(w *walker, v any, n int) {
	switch v := v.(type) {
	case *int32:
		for w.more(&n) {
			w.int32("", v)
		}
	case *AckTopic:
		for w.more(&n) {
			v.walk(w)
		}
	case *AckPartition:
		for w.more(&n) {
			v.walk(w)
		}
	case *AckBatch:
		for w.more(&n) {
			v.walk(w)
		}
	case *ForgottenTopic:
		for w.more(&n) {
			v.walk(w)
		}
	case *AckResultTopic:
		for w.more(&n) {
			v.walk(w)
		}
	case *AckResult:
		for w.more(&n) {
			v.walk(w)
		}
	case *FetchResultTopic:
		for w.more(&n) {
			v.walk(w)
		}
	case *FetchResult:
		for w.more(&n) {
			v.walk(w)
		}
	case *AcquiredRecord:
		for w.more(&n) {
			v.walk(w)
		}
	case *NodeEndpoint:
		for w.more(&n) {
			v.walk(w)
		}
	case *Listener:
		for w.more(&n) {
			v.walk(w)
		}
	default:
		panic("codec: an element without a case in walkAll")
	}
}

func (w *walker) more(n *int) bool {
	*n--
	return *n >= 0 && !w.stopped
}

// Array is a view of an array in a frame, or an array built with Append; the zero value is empty. It holds bytes, not elements: the
// elements are read again each time it is iterated, so an array never takes more memory than its bytes. An array of a decoded
// message is valid as long as the bytes of the frame are left alone.
//
// An Array is a value as a slice is: copies share their bytes, and of two copies only one may be appended to.
type Array[T element] struct {
	raw    []byte
	n      int32
	layout layout
}

// Len is the number of elements.
func (a Array[T]) Len() int { return int(a.n) }

// All are the elements in the order of the wire.
func (a Array[T]) All() iter.Seq[T] {
	// Small enough to be inlined, so that the function stays on the caller's stack.
	return func(yield func(T) bool) { each(a, yield) }
}

func each[T element](a Array[T], yield func(T) bool) {
	w := a.reader()
	var e T
	for range a.n {
		walkAll(&w, &e, 1)
		if w.stopped || !yield(e) {
			return
		}
	}
}

func (a Array[T]) reader() walker { return walker{fast: a.raw, in: a.raw, layout: a.layout} }

// Append adds an element at the end. On an array of a decoded message it copies the array first; the frame is never written to.
func (a *Array[T]) Append(e T) {
	if a.layout != builtLayout {
		old := *a
		*a = Array[T]{layout: builtLayout}
		for e := range old.All() {
			a.Append(e)
		}
	}
	w := walker{appending: true, out: a.raw, layout: builtLayout}
	walkAll(&w, &e, 1)
	a.raw = w.out
	a.n++
}

// array walks an array of elements of this shape.
func array[T element](w *walker, name string, a *Array[T], s *shape) {
	if w.appending {
		appendArray(w, a)
		return
	}
	at := w.pos
	n, ok := w.count(name, s[w.layout%layouts].least)
	if !ok {
		return
	}
	start := w.pos
	if w.care != nil {
		w.openArray(Field{Name: name, At: at, Len: w.pos - at, Type: CompactArray, Value: int64(n), elem: s})
		walkCarefully(w, a, n)
		w.leave()
	} else if end, ok := s.skim(w.fast, start, n, w.layout); ok {
		w.pos = end
	} else {
		walkAll(w, new(T), n)
	}
	*a = Array[T]{raw: w.in[start:w.pos:w.pos], n: int32(n), layout: w.layout}
}

func appendArray[T element](w *walker, a *Array[T]) {
	w.out = binary.AppendUvarint(w.out, uint64(a.n)+1)
	for e := range a.All() {
		walkAll(w, &e, 1)
	}
}

// walkCarefully reads n elements and says which one it is at.
func walkCarefully[T element](w *walker, a *Array[T], n int) {
	var e T
	_, plain := any(&e).(*int32)
	here := len(w.care.path) - 1
	for i := 0; i < n && !w.stopped; i++ {
		w.care.path[here].index = i
		if !plain {
			w.openField(Field{At: w.pos, Type: Struct})
		}
		walkAll(w, &e, 1)
		if !plain {
			w.closeField()
		}
	}
	w.care.path[here].index = -1
}

// openArray is undone by leave.
func (w *walker) openArray(f Field) {
	w.openField(f)
	w.care.path = append(w.care.path, level{name: f.Name, index: -1})
}
