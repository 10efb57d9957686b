package codec

import "encoding/binary"

// RequestHeader is what every request begins with.
type RequestHeader struct {
	APIKey, APIVersion int16
	CorrelationID      int32
	ClientID           []byte // nil is null; from version 1 on
	Tags               Tags   // from version 2 on
	Version            int8   // of the header itself, 1 or 2; -1 where the key is not known, and nothing after the correlation id is
}

// DecodeRequestHeader reads the header of a request frame, which may be the head of a longer one; body is where its body begins. The
// outcome is about the header alone. Of a key that is neither Known nor txnKey, that of TxnShareAcknowledge (0 for none), the header
// has an unknown version: then the outcome is Opaque, body is 12, and only key, version and correlation id are filled in.
func DecodeRequestHeader(frame []byte, txnKey int16) (h RequestHeader, body int, o Outcome, p *Problem) {
	payload := payload(frame)
	h.Version = requestHeaderVersion(payload, txnKey)
	w := walker{fast: payload, in: payload, strict: true}
	h.walk(&w)
	if w.stopped {
		return h.decodeCarefully(payload, nil)
	}
	return h, 4 + w.pos, h.outcome(Exact), nil
}

func (h RequestHeader) decodeCarefully(payload []byte, tr Tracer) (RequestHeader, int, Outcome, *Problem) {
	h = RequestHeader{Version: h.Version}
	w := walkHeader(payload, tr, h.walk)
	return h, 4 + w.pos, h.outcome(w.care.outcome), w.care.problem
}

func (h *RequestHeader) outcome(o Outcome) Outcome {
	if h.Version < 0 && o == Exact {
		return Opaque
	}
	return o
}

// walkHeader reads a header carefully.
func walkHeader(payload []byte, tr Tracer, walk func(*walker)) *walker {
	w := &walker{in: payload, care: &care{at: 4, tracer: tr}}
	w.openField(Field{Name: "header", Type: Struct})
	walk(w)
	w.closeField()
	return w
}

// requestHeaderVersion is -1 for keys that are not known.
func requestHeaderVersion(payload []byte, txnKey int16) int8 {
	if len(payload) < 4 {
		return 1
	}
	key, version := int16(binary.BigEndian.Uint16(payload)), int16(binary.BigEndian.Uint16(payload[2:]))
	if v, ok := RequestHeaderVersion(key, version); ok {
		return v
	}
	if key == txnKey && !Known(key) {
		return 2
	}
	return -1
}

// Append appends the header, without a size prefix.
func (h *RequestHeader) Append(dst []byte) []byte {
	w := walker{appending: true, out: dst}
	h.walk(&w)
	return w.out
}

func (h *RequestHeader) walk(w *walker) {
	w.int16("RequestApiKey", &h.APIKey)
	w.int16("RequestApiVersion", &h.APIVersion)
	w.int32("CorrelationId", &h.CorrelationID)
	if h.Version >= 1 {
		w.oldNullable("ClientId", &h.ClientID)
	}
	if h.Version >= 2 {
		w.tags(&h.Tags)
	}
}

// ResponseHeader is what every response begins with.
type ResponseHeader struct {
	CorrelationID int32
	Tags          Tags // from version 1 on
	Version       int8 // of the header itself: what ResponseHeaderVersion says of the request that it answers
}

// DecodeResponseHeader reads the header, of this version, of a response frame, which may be the head of a longer one; body is where
// its body begins. The outcome is about the header alone.
func DecodeResponseHeader(frame []byte, version int8) (h ResponseHeader, body int, o Outcome, p *Problem) {
	payload := payload(frame)
	h.Version = version
	w := walker{fast: payload, in: payload, strict: true}
	h.walk(&w)
	if w.stopped {
		return h.decodeCarefully(payload, nil)
	}
	return h, 4 + w.pos, Exact, nil
}

func (h ResponseHeader) decodeCarefully(payload []byte, tr Tracer) (ResponseHeader, int, Outcome, *Problem) {
	h = ResponseHeader{Version: h.Version}
	w := walkHeader(payload, tr, h.walk)
	return h, 4 + w.pos, w.care.outcome, w.care.problem
}

// Append appends the header, without a size prefix.
func (h *ResponseHeader) Append(dst []byte) []byte {
	w := walker{appending: true, out: dst}
	h.walk(&w)
	return w.out
}

func (h *ResponseHeader) walk(w *walker) {
	w.int32("CorrelationId", &h.CorrelationID)
	if h.Version >= 1 {
		w.tags(&h.Tags)
	}
}

// payload is what follows the size prefix, and belongs to it.
func payload(frame []byte) []byte {
	if len(frame) < 4 {
		return nil
	}
	size := int32(binary.BigEndian.Uint32(frame))
	return frame[4 : 4+min(max(int(size), 0), len(frame)-4)]
}

// SetSize writes the size prefix of a whole frame into its first four bytes.
func SetSize(frame []byte) { binary.BigEndian.PutUint32(frame, uint32(len(frame)-4)) }
