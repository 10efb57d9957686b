package codec

// message is what Decode and Append work on.
type message interface {
	ShareFetchRequest | ShareFetchResponse | ShareAcknowledgeRequest | ShareAcknowledgeResponse | AddRaftVoterRequest |
		AddRaftVoterResponse | TxnShareAcknowledgeRequest | TxnShareAcknowledgeResponse
}

// walkMessage is walkAll for messages.
func walkMessage(w *walker, m any) {
	switch m := m.(type) {
	case *ShareFetchRequest:
		m.walk(w)
	case *ShareFetchResponse:
		m.walk(w)
	case *ShareAcknowledgeRequest:
		m.walk(w)
	case *ShareAcknowledgeResponse:
		m.walk(w)
	case *AddRaftVoterRequest:
		m.walk(w)
	case *AddRaftVoterResponse:
		m.walk(w)
	case *TxnShareAcknowledgeRequest:
		m.walk(w)
	case *TxnShareAcknowledgeResponse:
		m.walk(w)
	default:
		panic("codec: a message without a case in walkMessage")
	}
}

// The Decode methods are kept from inlining: in another package the compiler knows only of a method, and not of this generic function, that
// it does not keep m, and would move every message to the heap.

// decode reads a body that begins at byte at of its frame: fast and strictly first, and only if that does not go through a second time,
// carefully, to say why. Nothing but Exact and Tolerated leaves anything in m.
func decode[M message](m *M, body []byte, at int, version, highest int16) (Outcome, *Problem) {
	if version < 0 || version > highest {
		*m = *new(M)
		return Opaque, nil
	}
	w := walker{fast: body, in: body, version: version, strict: true}
	walkMessage(&w, m)
	if !w.stopped && w.pos == len(body) {
		return Exact, nil
	}
	o, p, _ := decodeCarefully(m, body, at, version, nil)
	return o, p
}

// decodeCarefully also says how many bytes the message took.
func decodeCarefully[M message](m *M, body []byte, at int, version int16, tr Tracer) (Outcome, *Problem, int) {
	*m = *new(M)
	w := walker{in: body, version: version, care: &care{at: at, tracer: tr}}
	w.openField(Field{Name: "fields", Type: Struct})
	walkMessage(&w, m)
	w.closeField()
	if left := len(body) - w.pos; left > 0 {
		w.tolerate("", w.pos, "bytes left after the body: %d", left)
	}
	if w.care.outcome == Anomalous {
		*m = *new(M)
	}
	return w.care.outcome, w.care.problem, w.pos
}

// encode appends a message's canonical encoding. A version that Decode does not know is a mistake of the caller.
func encode[M message](m *M, dst []byte, version, highest int16) []byte {
	if version < 0 || version > highest {
		panic("codec: Append of a version that does not exist")
	}
	w := walker{appending: true, out: dst, version: version}
	walkMessage(&w, m)
	return w.out
}
