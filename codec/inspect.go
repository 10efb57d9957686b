package codec

// Kind says which way a frame travels.
type Kind uint8

// The kinds of frame.
const (
	Request Kind = iota
	Response
)

// String is "request" or "response".
func (k Kind) String() string {
	if k == Response {
		return "response"
	}
	return "request"
}

// Query says what is known of a frame that is to be inspected.
type Query struct {
	Kind       Kind
	APIKey     int16 // of a response: what it answers; requests say it themselves
	APIVersion int16
	TxnKey     int16 // the key that TxnShareAcknowledge is configured to use; 0 for none
}

// Inspection is what Inspect found.
type Inspection struct {
	Kind       Kind
	API        string // "ShareAcknowledge"; empty when the key is not known
	APIKey     int16
	APIVersion int16
	Header     RequestHeader // of a response: the fields that it has
	Body       int           // where the body begins; 0 when the header could not be read
	Trailing   []byte        // after the body, and ignored by a broker
	Outcome    Outcome       // of header and body together
	Problem    *Problem
}

// Inspect decodes a whole frame, size prefix included, and tells tr, which may be nil, of every field, up to the byte where a bad
// frame stopped.
func Inspect(frame []byte, q Query, tr Tracer) Inspection {
	return Inspection{Kind: q.Kind, Outcome: Opaque}
}
