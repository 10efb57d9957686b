package proxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/proxy/internal/delivered"
)

// responses decides about what a broker answers. It belongs to the response loop. All it needs to know was decided with the request.
type responses struct {
	c       *conn
	h       *half
	started bool
	x       exchange          // whose answer is being looked at
	came    time.Time         // when that began to come; where it delivers records
	session *delivered.Member // the last that was opened on this connection

	handshake chan bool // of the request loop, which waits for the answer to a SaslHandshake v0 to be written
	accepted  bool
}

func (r *responses) headerSize() int { return 4 }

func (r *responses) check(first []byte, size int32) error {
	if !r.started {
		if err := sniff(first, brokerSide); err != nil {
			return err
		}
		r.started = true
	}
	return r.c.srv.limits.frame(size, 0)
}

func (r *responses) begin(p []byte, frame int) (action, error) {
	if r.c.relay.Load() {
		return passOn, nil
	}
	if len(p) < min(8, frame) {
		return undecided, nil
	}
	id := int32(0)
	if frame >= 8 {
		id = int32(binary.BigEndian.Uint32(p[4:]))
	}
	x, err := r.c.pending.match(id)
	if err != nil {
		return undecided, err
	}
	r.x = x
	if frame < 8 && x.need&bareToken == 0 {
		return undecided, fmt.Errorf("%w: an answer of %d bytes", errBadFrame, frame-4)
	}
	if x.delivers() {
		r.came = time.Now()
	}
	if x.need&bareToken == 0 {
		count(&r.c.on.counts.responses, x.key, x.version)
	}
	switch {
	case x.need&^bareToken == 0:
		return passOn, nil
	case x.verdict != nil || r.keeps(&x, frame):
		return holdWhole, nil
	case streams(x.key):
		return walkForward, nil
	}
	return holdWhole, nil
}

func (r *responses) written(n int) {
	r.c.spoke.Store(true)
	if r.handshake != nil {
		r.handshake <- r.accepted
		r.handshake = nil
	}
	if !r.c.relay.Load() {
		r.c.pending.finish(n)
	}
}

// whole looks at an answer that is all there, and returns what to send instead, or nil.
func (r *responses) whole(frame []byte) ([]byte, error) {
	x := r.x
	if x.end != nil {
		r.endTxn(x, frame)
		return nil, nil
	}
	body, err := responseBody(frame, x)
	if err != nil {
		return nil, r.unread(err)
	}
	m := r.mapper()
	var instead []byte
	switch {
	case x.need&needVersions != 0:
		return r.versions(frame, body)
	case x.need&needSASL != 0:
		return nil, r.saslAnswer(x, frame[body:])
	case streams(x.key):
		instead, err = r.tailed(m, frame, body)
	case x.key == codec.KeyShareAcknowledge:
		instead, err = r.shareAcknowledge(m, frame, body)
	case hasAddresses(x.key):
		instead, err = m.addresses(x, frame, body)
	case x.key == codec.KeyAddRaftVoter && !x.txn:
		err = r.addRaftVoter(frame, body)
	default:
		instead, err = r.txnShareAcknowledge(m, frame, body)
	}
	if err != nil {
		return nil, r.unread(err)
	}
	if x.verdict != nil {
		return r.carryOut(x, frame, body, instead)
	}
	return instead, nil
}

func (r *responses) mapper() *mapper {
	return &mapper{srv: r.c.srv, told: r.c.advertised.Load(), api: apiName(r.x.key)}
}

// hasAddresses names the answers that kmsg reads for us.
func hasAddresses(key int16) bool {
	return key == codec.KeyMetadata || key == codec.KeyFindCoordinator || key == codec.KeyDescribeCluster
}

// addresses rewrites an answer that lists brokers.
func (m *mapper) addresses(x exchange, frame []byte, body int) ([]byte, error) {
	var answer kmsg.Response
	var err error
	switch x.key {
	case codec.KeyMetadata:
		answer, err = m.metadata(x.version, frame[body:])
	case codec.KeyFindCoordinator:
		answer, err = m.findCoordinator(x.version, frame[body:])
	case codec.KeyDescribeCluster:
		answer, err = m.describeCluster(x.version, frame[body:])
	}
	if err != nil {
		return nil, err
	}
	return sized(answer.AppendTo(append(make([]byte, 0, len(frame)+64), frame[:body]...))), nil
}

// responseBody is where the body of an answer starts.
func responseBody(frame []byte, x exchange) (int, error) {
	s := &scanner{p: frame}
	err := skipHeader(s, x)
	return s.at, err
}

// skipHeader takes s from the first byte of an answer to that of its body.
func skipHeader(s *scanner, x exchange) error {
	s.skip(8) // size and correlation id
	if version, ok := codec.ResponseHeaderVersion(x.key, x.version); !ok || version > 0 {
		s.tags(nil) // of our keys only TxnShareAcknowledge may be one that Kafka has not assigned
	}
	return s.err
}

// unread ends a connection on whose answers we cannot keep our word: an address might be in there.
func (r *responses) unread(err error) error {
	r.c.srv.metrics.decode.WithLabelValues(apiName(r.x.key), "response").Inc()
	r.verdict(policy.Reply{State: policy.Unreadable})
	return fmt.Errorf("%w: %s v%d: %w", errUnread, apiName(r.x.key), r.x.version, err)
}

// verdict hands what became of the request to the observers, once.
func (r *responses) verdict(reply policy.Reply) {
	o := r.x.outcome
	if o == nil {
		return
	}
	reply.Received = time.Now()
	o.Reply, r.x.outcome = reply, nil
	if r.x.member != nil {
		r.x.member.Settle(o, r.c.broker.addr)
	}
	r.c.srv.observe(o)
}

// tailed looks at a Produce, Fetch or ShareFetch answer in memory.
func (r *responses) tailed(m *mapper, frame []byte, body int) ([]byte, error) {
	a := r.newAnswer()
	s := &scanner{p: frame, at: body}
	if err := a.walk(s, r.x.key, r.x.version); err != nil {
		return nil, err
	}
	instead, err := m.rewriteTail(frame, s.at, r.x.key, a)
	if err != nil {
		return nil, err
	}
	r.verdict(a.reply)
	r.delivered(a)
	return instead, nil
}

// stream walks an answer that does not fit the buffer: its records pass as they come, and its endpoints are rewritten at equal size,
// since the size has been sent by then.
func (r *responses) stream(h *half, frame int) error {
	a := r.newAnswer()
	s, rest := h.scan(frame)
	err := skipHeader(s, r.x)
	if err == nil {
		err = a.walk(s, r.x.key, r.x.version)
	}
	if err == nil {
		err = r.streamTail(h, s, rest, a)
	}
	if errors.Is(err, errBadFrame) {
		err = r.unread(err)
	}
	return err
}

// streamTail rewrites the end of a streamed answer where it lies in the buffer.
func (r *responses) streamTail(h *half, s *scanner, rest func() int, a *answer) error {
	size := rest()
	if size > bufferSize {
		return fmt.Errorf("%w: %d bytes after the last topic", errBadFrame, size)
	}
	if size > 0 && !s.need(size) {
		return s.err
	}
	at := h.r + s.at
	t, err := readTail(r.x.key, h.buf[at:at+size])
	if err != nil {
		return err
	}
	m := r.mapper()
	if m.mapTail(t) {
		fitted, ok := t.fit(size)
		if !ok {
			return fmt.Errorf("%w: no room for an answer's end of %d bytes", errBadFrame, size)
		}
		copy(h.buf[at:], fitted)
	}
	h.r = at + size
	r.verdict(a.reply)
	r.delivered(a)
	return nil
}

// readable is the error of an answer that cannot be read. A tolerated one is read, but other readers may find more in it than we do, so
// that only what we have read of it is passed on.
func readable(outcome codec.Outcome, problem *codec.Problem) error {
	switch outcome {
	case codec.Anomalous:
		return problem
	case codec.Opaque:
		return fmt.Errorf("%w: no version that is read", errBadFrame)
	}
	return nil
}
