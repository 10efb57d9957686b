package codec

import "math/bits"

// take is the next n bytes, nil when they are not there.
func (w *walker) take(name string, n int) []byte {
	if w.stopped {
		return nil
	}
	p := w.pos
	if left := len(w.in) - p; n > left {
		w.fail(name, p, "short read: %d bytes wanted, %d left", n, left)
		return nil
	}
	w.pos = p + n
	return w.in[p : p+n : p+n]
}

// uvarint is the next unsigned varint: at most five bytes, of which brokers keep 32 bits.
func (w *walker) uvarint(name string) (uint32, bool) {
	if w.stopped {
		return 0, false
	}
	at := w.pos
	v := uint32(0)
	for i := range 5 {
		if at+i >= len(w.in) {
			w.fail(name, at, "short read: %d bytes wanted, %d left", i+1, i)
			return 0, false
		}
		b := w.in[at+i]
		v |= uint32(b&0x7f) << (7 * i)
		if b >= 0x80 {
			continue
		}
		w.pos = at + i + 1
		switch {
		case i == 4 && b > 0x0f:
			w.tolerate(name, at, "uvarint over 32 bits: %d too many", bits.Len8(b)-4)
		case b == 0 && i > 0:
			w.tolerate(name, at, "uvarint not minimal: %d bytes", i+1)
		}
		return v, !w.stopped
	}
	w.fail(name, at, "uvarint over 32 bits")
	return 0, false
}

// count is the number of elements of a compact array whose elements take at least size bytes each.
func (w *walker) count(name string, size int) (int, bool) {
	if p := w.pos; p < len(w.fast) {
		if n := int(w.fast[p]) - 1; n >= 0 && n < 0x7f && n*size < len(w.fast)-p {
			w.pos = p + 1
			return n, true
		}
	}
	at := w.pos
	n, ok := w.uvarint(name)
	if !ok {
		return 0, false
	}
	switch left := len(w.in) - w.pos; {
	case n == 0:
		w.fail(name, at, "null for a non-nullable array")
	case int(n-1) > left/size:
		w.fail(name, at, "array count over the bytes left: %d elements, %d bytes", int(n-1), left)
	default:
		if n-1 > maxElements {
			w.tolerate(name, at, "array of %d elements, more than %d", int(n-1), maxElements)
		}
		return int(n - 1), !w.stopped
	}
	return 0, false
}

// tolerate notes that brokers take what Append would not write. A strict walk ends here.
func (w *walker) tolerate(name string, at int, format string, args ...int) {
	if w.strict {
		w.stop()
	}
	if w.care != nil {
		w.care.note(Tolerated, name, at, format, args)
	}
}

// fail notes that brokers refuse this, and ends the walk.
func (w *walker) fail(name string, at int, format string, args ...int) {
	if w.care != nil && !w.stopped {
		w.care.note(Anomalous, name, at, format, args)
	}
	w.stop()
}

// stop makes every further read come back empty-handed.
func (w *walker) stop() { w.stopped, w.fast = true, nil }
