package main

import (
	"encoding/binary"
	"strings"
	"time"

	"github.com/ackproxy/ackproxy/codec"
)

// asked is a request that an answer is expected to.
type asked struct{ key, version, txnKey int16 }

// session is what decode remembers of a connection: which requests are open, and whether bare SASL tokens follow.
type session struct {
	txnKey int16
	open   map[int32][]asked // by correlation id, in the order of the requests
	fixed  *asked            // what every answer is to, where no requests are seen
	tokens [2]int            // bare SASL tokens that are still to come, by codec.Kind
	answer int               // as many come from the broker once it has accepted the handshake
}

// allTokens hides the rest of a connection: how many tokens its SASL mechanism exchanges is not known.
const allTokens = 1 << 30

func newSession(txnKey int16) *session { return &session{txnKey: txnKey, open: map[int32][]asked{}} }

// object is one frame as it is printed.
type object struct {
	codec.Inspection
	Offset     int64
	Bytes      int
	Connection string // of a capture: client > server
	Time       time.Time
	Known      bool   // key and version are
	Note       string // why nothing is shown; empty where something is
	tree       *node
}

// inspect decodes one piece of the stream of one direction.
func (s *session) inspect(kind codec.Kind, p piece) object {
	o := object{Offset: p.offset, Bytes: len(p.bytes)}
	o.Kind = kind
	if s.token(kind, p.bytes) {
		o.Outcome = codec.Opaque
		o.Note = "a SASL token, not shown"
		return o
	}
	q := codec.Query{Kind: kind, TxnKey: s.txnKey}
	if kind == codec.Response {
		var a asked
		if a, o.Known = s.match(p.bytes); o.Known {
			q.APIKey, q.APIVersion, q.TxnKey = a.key, a.version, a.txnKey
		} else {
			q.APIKey, q.TxnKey = -1, 0
		}
	}
	var t treeBuilder
	frame := p.bytes
	if p.reason != "" && len(frame) >= 4 && sizeProblem(frame) != "" {
		frame = frame[:4] // nothing says that the rest is of Kafka
	}
	o.Inspection = codec.Inspect(frame, q, &t)
	o.tree = &t.root
	if kind == codec.Request {
		o.Known = o.tree.part("header").part("RequestApiVersion") != nil
	}
	if p.reason != "" {
		o.spoil(p)
	}
	if o.Known && o.API == "" {
		o.API = codec.Name(o.APIKey)
	}
	if kind == codec.Response && !o.Known && o.Outcome == codec.Opaque {
		o.Note = "the request that it answers was not seen"
	}
	s.remember(&o, p.bytes)
	return o
}

// spoil makes an object of what is no whole frame.
func (o *object) spoil(p piece) {
	o.Outcome = codec.Anomalous
	o.Problem = &codec.Problem{Reason: p.reason, At: len(p.bytes)}
	if len(p.bytes) >= 4 && sizeProblem(p.bytes) != "" {
		o.Problem.At, o.Problem.Field = 0, "Size"
	}
	o.Trailing = nil
}

// match finds the request that an answer belongs to. A request that is owed no answer stays open and does no harm.
func (s *session) match(frame []byte) (asked, bool) {
	if s.fixed != nil {
		return *s.fixed, true
	}
	if len(frame) < 8 {
		return asked{}, false
	}
	id := int32(binary.BigEndian.Uint32(frame[4:]))
	list := s.open[id]
	if len(list) == 0 {
		return asked{}, false
	}
	if len(list) == 1 {
		delete(s.open, id)
	} else {
		s.open[id] = list[1:]
	}
	return list[0], true
}

// remember keeps what later frames depend on.
func (s *session) remember(o *object, frame []byte) {
	if len(frame) < 12 && o.Kind == codec.Request || len(frame) < 10 || !o.Known {
		return
	}
	if o.Kind == codec.Request && s.fixed == nil {
		a := asked{key: o.APIKey, version: o.APIVersion}
		if o.API != codec.Name(codec.KeyAddRaftVoter) {
			a.txnKey = s.txnKey
		}
		id := int32(binary.BigEndian.Uint32(frame[8:]))
		s.open[id] = append(s.open[id], a)
	}
	if o.APIKey != codec.KeySASLHandshake || o.APIVersion != 0 {
		return
	}
	switch {
	case o.Kind == codec.Request:
		s.answer = tokensOf(frame[min(o.Body, len(frame)):])
		s.tokens[codec.Request] = s.answer
	case binary.BigEndian.Uint16(frame[8:]) != 0:
		s.tokens[codec.Request] = 0 // refused: requests go on
	case s.fixed != nil:
		s.tokens[codec.Response] = allTokens
	default:
		s.tokens[codec.Response] = s.answer
	}
}

// tokensOf is how many bare tokens each side sends after a SaslHandshake v0 with this body, the name of a mechanism.
func tokensOf(body []byte) int {
	if len(body) < 2 || int(binary.BigEndian.Uint16(body)) != len(body)-2 {
		return allTokens
	}
	switch mechanism := string(body[2:]); {
	case mechanism == "PLAIN":
		return 1
	case strings.HasPrefix(mechanism, "SCRAM-"):
		return 2
	}
	return allTokens
}

// token says whether a frame is a bare SASL token, of which nothing may be shown. Clients of Kafka 0.9 begin with one of Kerberos,
// which no request begins like.
func (s *session) token(kind codec.Kind, frame []byte) bool {
	if kind == codec.Request && len(frame) > 4 && frame[4] == 0x60 {
		s.tokens = [2]int{allTokens, allTokens}
	}
	if s.tokens[kind] == 0 {
		return false
	}
	s.tokens[kind]--
	return true
}
