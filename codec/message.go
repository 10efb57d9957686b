package codec

// message is what Decode and Append work on.
type message interface {
	ShareFetchRequest | ShareFetchResponse | ShareAcknowledgeRequest | ShareAcknowledgeResponse | AddRaftVoterRequest |
		AddRaftVoterResponse | TxnShareAcknowledgeRequest | TxnShareAcknowledgeResponse
}

// walkMessage is walkAny for messages, with the highest version that each walk knows.
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
		panic("codec: a type without a case in walkAny or walkMessage")
	}
}

// decode reads a body that begins at byte at of its frame: fast and strictly first, and only if that does not go through a second time,
// carefully, to say why. Nothing but Exact and Tolerated leaves anything in m.
func decode[M message](m *M, body []byte, at int, version, highest int16) (Outcome, *Problem) {
	var zero M
	if version < 0 || version > highest {
		*m = zero
		return Opaque, nil
	}
	w := walker{fast: body, in: body, version: version, strict: true}
	walkAny(&w, m)
	if !w.stopped && w.pos == len(body) {
		return Exact, nil
	}
	o, p, _ := decodeCarefully(m, body, at, version, nil)
	return o, p
}

// decodeCarefully also says how many bytes the message took.
func decodeCarefully[M message](m *M, body []byte, at int, version int16, tr Tracer) (Outcome, *Problem, int) {
	var zero M
	*m = zero
	c := &care{at: at, tracer: tr}
	w := walker{in: body, version: version, care: c}
	walkAny(&w, m)
	if left := len(body) - w.pos; left > 0 {
		w.tolerate("", w.pos, "%d bytes left after the body", left)
	}
	if c.outcome == Anomalous {
		*m = zero
	}
	return c.outcome, c.problem, w.pos
}

// encode appends a message's canonical encoding. A version that Decode does not know is a mistake of the caller.
func encode[M message](m *M, dst []byte, version, highest int16) []byte {
	if version < 0 || version > highest {
		panic("codec: Append of a version that does not exist")
	}
	w := walker{appending: true, out: dst, version: version}
	walkAny(&w, m)
	return w.out
}
