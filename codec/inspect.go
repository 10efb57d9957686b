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
// frame stopped: first an int32 "Size", then the structs "header" and "fields". It reads everything carefully and so takes its time:
// a proxy uses the Decode functions.
func Inspect(frame []byte, q Query, tr Tracer) Inspection {
	i := Inspection{Kind: q.Kind, APIKey: q.APIKey, APIVersion: q.APIVersion, Header: RequestHeader{Version: -1}}
	bad := checkSize(frame, tr)
	if len(frame) < 4 {
		i.Outcome, i.Problem = Anomalous, bad
		return i
	}
	i.inspectHeader(payload(frame), q, tr)
	if i.Outcome != Anomalous {
		i.inspectBody(payload(frame)[i.Body-4:], q, tr)
	}
	if bad != nil {
		i.Outcome, i.Problem, i.Trailing = Anomalous, bad, nil
	}
	return i
}

// checkSize says what is wrong with the size prefix. What there is of the frame is worth reading all the same.
func checkSize(frame []byte, tr Tracer) *Problem {
	var size int32
	w := walker{in: frame, care: &care{tracer: tr}}
	w.int32("Size", &size)
	switch left := len(frame) - 4; {
	case w.stopped:
	case size < 0:
		w.fail("Size", 0, "size prefix mismatch: negative, %d", int(size))
	case int(size) != left:
		w.fail("Size", 0, "size prefix mismatch: %d, with %d bytes behind it", int(size), left)
	}
	return w.care.problem
}

func (i *Inspection) inspectHeader(payload []byte, q Query, tr Tracer) {
	if q.Kind == Request {
		i.Header.Version = requestHeaderVersion(payload, q.TxnKey)
		i.Header, i.Body, i.Outcome, i.Problem = i.Header.decodeCarefully(payload, tr)
		i.APIKey, i.APIVersion = i.Header.APIKey, i.Header.APIVersion
	} else {
		h := ResponseHeader{Version: -1}
		if v, ok := ResponseHeaderVersion(q.APIKey, q.APIVersion); ok {
			h.Version = v
		} else if q.TxnKey > 0 && q.APIKey == q.TxnKey {
			h.Version = 1
		}
		h, i.Body, i.Outcome, i.Problem = h.decodeCarefully(payload, tr)
		i.Header = RequestHeader{
			APIKey: q.APIKey, APIVersion: q.APIVersion, CorrelationID: h.CorrelationID, Tags: h.Tags, Version: h.Version,
		}
	}
	i.API = Name(i.APIKey)
	if i.Outcome == Anomalous {
		i.Body = 0
	}
}

// inspectBody is for bodies whose header could be read.
func (i *Inspection) inspectBody(body []byte, q Query, tr Tracer) {
	read := i.schema(body, q)
	if read == nil {
		i.Outcome, i.Problem = Opaque, nil
		return
	}
	o, p, n := read(body, i.Body, i.APIVersion, tr)
	if o > i.Outcome {
		i.Outcome = o
	}
	if i.Problem == nil || o == Anomalous {
		i.Problem = p
	}
	if o != Anomalous && n < len(body) {
		i.Trailing = body[n:]
	}
}

// reader reads a body of one message carefully.
type reader func(body []byte, at int, version int16, tr Tracer) (Outcome, *Problem, int)

func readerOf[M message](body []byte, at int, version int16, tr Tracer) (Outcome, *Problem, int) {
	return decodeCarefully(new(M), body, at, version, tr)
}

// schema chooses how to read the body; nil where key and version are not ours. It may change the API's name.
func (i *Inspection) schema(body []byte, q Query) reader {
	response, version := i.Kind == Response, i.APIVersion
	pick := func(highest int16, forRequest, forResponse reader) reader {
		switch {
		case version < 0 || version > highest:
			return nil
		case response:
			return forResponse
		}
		return forRequest
	}
	switch {
	case i.APIKey == KeyShareFetch:
		return pick(maxShareFetch, readerOf[ShareFetchRequest], readerOf[ShareFetchResponse])
	case i.APIKey == KeyShareAcknowledge:
		return pick(maxShareAcknowledge, readerOf[ShareAcknowledgeRequest], readerOf[ShareAcknowledgeResponse])
	case q.TxnKey > 0 && i.APIKey == q.TxnKey && !i.isAddRaftVoter(body):
		i.API = nameTxnShareAcknowledge
		return pick(maxTxnShareAcknowledge, readerOf[TxnShareAcknowledgeRequest], readerOf[TxnShareAcknowledgeResponse])
	case i.APIKey == KeyAddRaftVoter:
		return pick(maxAddRaftVoter, readerOf[AddRaftVoterRequest], readerOf[AddRaftVoterResponse])
	}
	return nil
}

// isAddRaftVoter tells the two meanings of key 80 apart where both are asked for: what strictly is an AddRaftVoter is one, and what has
// a version that only AddRaftVoter has. An answer counts as TxnShareAcknowledge first: the only bytes that are both are an answer
// without topics, and an AddRaftVoter answer with an empty message, which Kafka does not send.
func (i *Inspection) isAddRaftVoter(body []byte) bool {
	if i.APIKey != KeyAddRaftVoter || i.APIVersion > maxTxnShareAcknowledge {
		return i.APIKey == KeyAddRaftVoter
	}
	if i.Kind == Request {
		o, _ := new(AddRaftVoterRequest).Decode(body, 0, i.APIVersion)
		return o == Exact
	}
	if o, _ := new(TxnShareAcknowledgeResponse).Decode(body, 0, i.APIVersion); o == Exact {
		return false
	}
	o, _ := new(AddRaftVoterResponse).Decode(body, 0, i.APIVersion)
	return o == Exact
}
