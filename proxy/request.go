package proxy

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/proxy/internal/delivered"
)

// need is what the answer to a request calls for, decided when the request passes.
type need uint8

const (
	needEndpoints need = 1 << iota // it may carry addresses
	needObserve                    // its verdict goes to the observers
	needVersions                   // ApiVersions: keys and versions are clamped
	needSASL                       // it settles a SASL exchange
	needEnd                        // EndTxn: policies learn whether the transaction ended
	bareToken                      // it is a SASL token without a header (SaslHandshake v0)
)

// requests decides about what a client sends. It belongs to the request loop.
type requests struct {
	c        *conn
	h        *half
	started  bool              // the first frame was looked at
	software string            // what the client called itself in ApiVersions
	clientID *string           // of the first request that may be answered with addresses; read for endpoint policies only
	sasl     saslState         // of the exchange under way
	last     *delivered.Member // whose request was seen last; nil where deliveries are not noted
	key      int16             // of the frame that is held whole
	version  int16
}

func (r *requests) headerSize() int {
	if r.sasl.bare > 0 || r.c.relay.Load() {
		return 4
	}
	return 12
}

func (r *requests) check(first []byte, size int32) error {
	if !r.started {
		if err := sniff(first, clientSide); err != nil {
			return err
		}
		r.started = true
	}
	if r.sasl.answered != nil { // what comes next depends on the answer to a SaslHandshake v0
		if err := r.awaitHandshake(); err != nil {
			return err
		}
	}
	least := 10 // key, version, correlation id, and the length of a client id that may be null
	if r.headerSize() == 4 {
		least = 0
	}
	return r.c.srv.limits.frame(size, least)
}

func (r *requests) begin(p []byte, frame int) (action, error) {
	if r.c.relay.Load() {
		return passOn, nil
	}
	if r.sasl.bare > 0 {
		r.sasl.bare--
		return passOn, r.register(exchange{need: bareToken})
	}
	key, version := int16(binary.BigEndian.Uint16(p[4:])), int16(binary.BigEndian.Uint16(p[6:]))
	x := exchange{correlationID: int32(binary.BigEndian.Uint32(p[8:])), key: key, version: version}
	if err := r.c.srv.offered(key, version, r.c.broker); err != nil {
		return undecided, err
	}
	if key == codec.KeyProduce {
		acks, ok, err := produceAcks(p, version, frame)
		if err != nil || !ok {
			return undecided, err
		}
		if acks == 0 { // owed no answer
			count(&r.c.on.counts.requests, key, version)
			count(&r.c.on.counts.forwarded, key, version)
			return passOn, nil
		}
	}
	if len(r.c.srv.cfg.Endpoints) > 0 && carriesEndpoints(key, version) != 0 && !r.learnClientID(p, frame) {
		return undecided, nil
	}
	count(&r.c.on.counts.requests, key, version)
	if r.c.srv.reads(key) || isSASL(key) || key == codec.KeyApiVersions {
		r.key, r.version = key, version
		return holdWhole, nil
	}
	x.need = carriesEndpoints(key, version)
	return passOn, r.register(x)
}

// register enters x into the queue of pending exchanges. Where the queue is full, or the requests in it keep too much, it flushes and waits: that is
// the backpressure.
func (r *requests) register(x exchange) error {
	if err := r.askEndpoints(&x); err != nil {
		return err
	}
	x.kept = x.keeps()
	ok, err := r.c.pending.push(x, false)
	if err == nil && !ok {
		err = r.enterLater(x)
	}
	if err == nil && x.need&bareToken == 0 {
		count(&r.c.on.counts.forwarded, x.key, x.version)
	}
	return err
}

// enterLater is register for a queue that is full.
func (r *requests) enterLater(x exchange) error {
	if err := r.h.readyToWait(); err != nil {
		return err
	}
	defer r.c.guard()()
	_, err := r.c.pending.push(x, true)
	return err
}

func (r *requests) written(int) {}

func (r *requests) stream(*half, int) error {
	return fmt.Errorf("%w: requests are not walked while they stream", errBadFrame)
}

// whole looks at a request that we can read, and returns what to forward instead, or nil.
func (r *requests) whole(frame []byte) ([]byte, error) {
	h, body, outcome, problem := codec.DecodeRequestHeader(frame, r.key) // a key that Kafka has not assigned has a Txn's header
	x := exchange{correlationID: int32(binary.BigEndian.Uint32(frame[8:])), key: r.key, version: r.version, need: carriesEndpoints(r.key, r.version)}
	if r.key == codec.KeyApiVersions {
		x.need = needVersions
	}
	switch {
	case outcome == codec.Anomalous: // the broker will close the connection
		r.undecodable(&x, frame, problem)
	case r.key == codec.KeyApiVersions:
		r.learnSoftware(frame[body:])
	case r.key == codec.KeySASLHandshake:
		r.handshake(&x, frame[body:])
	case r.key == codec.KeySASLAuthenticate:
		r.authenticate(&x, frame[body:])
	case r.key == codec.KeyEndTxn:
		if err := r.endTxn(&x, frame, body); err != nil {
			return nil, err
		}
	case r.key == codec.KeyAddRaftVoter && !r.isTxn(frame, body):
		r.admin(&x, frame, h, body)
	case r.c.srv.carrier(r.key) == policy.TxnShareAcknowledge && (r.key != r.c.srv.cfg.TxnKey || !r.c.broker.armed.Load()):
		r.undecodable(&x, frame, &codec.Problem{Reason: "TxnShareAcknowledge is not armed for this broker (protocol.txn_share_acknowledge)", At: 4})
	default:
		x.txn = r.key == codec.KeyAddRaftVoter
		instead, err := r.share(&x, frame, h, body, outcome, problem)
		if err != nil {
			return nil, err
		}
		return instead, r.enter(x)
	}
	return nil, r.enter(x)
}

// enter registers a request that was read. Where the connection has ended meanwhile, the observers learn that it was not forwarded.
func (r *requests) enter(x exchange) error {
	err := r.register(x)
	if err == nil || x.outcome == nil {
		return err
	}
	return r.gone(x.outcome, err)
}

// share decodes a request that may carry acknowledgements. Where it does, policies decide about it, and the observers' copy is kept.
func (r *requests) share(x *exchange, frame []byte, h codec.RequestHeader, body int, outcome codec.Outcome, problem *codec.Problem) ([]byte, error) {
	x.need = needEndpoints
	local := scratches.Get().(*scratch)
	defer scratches.Put(local)
	req := &local.req
	*req = policy.Request{}
	local.decode(req, r.c.srv.carrier(x.key), frame, body, x.version)
	if req.Decode == codec.Exact && outcome == codec.Tolerated { // the header was
		req.Decode, req.Problem = outcome, problem
	}
	if req.Decode == codec.Opaque { // key 80 again, in a version of AddRaftVoter that the proposal does not have
		req.Problem = &codec.Problem{Reason: "a version of TxnShareAcknowledge that is not known", At: 6}
	}
	if req.Decode == codec.Anomalous || req.Decode == codec.Opaque {
		r.undecodable(x, frame, req.Problem)
		return nil, nil
	}
	if req.Decode == codec.Tolerated {
		r.c.srv.metrics.decode.WithLabelValues(apiName(x.key), "tolerated").Inc()
	}
	r.member(x, req)
	cfg, acknowledges := &r.c.srv.cfg, concernsAcknowledgements(req)
	if len(cfg.Observers) == 0 && cfg.Policies == nil || !req.ClosesSession() && !acknowledges {
		return nil, nil
	}
	x.need |= needObserve
	x.outcome = r.remember(policy.Acknowledgement, frame, h)
	local.decode(&x.outcome.Request, req.Carrier, x.outcome.Request.Frame, body, x.version)
	x.outcome.Request.Decode, x.outcome.Request.Problem = req.Decode, req.Problem
	if cfg.Policies == nil || !acknowledges {
		return nil, nil
	}
	return r.decide(x, body)
}

// remember begins an outcome, with a copy of the frame and all that does not depend on the message.
func (r *requests) remember(kind policy.Kind, frame []byte, h codec.RequestHeader) *policy.Outcome {
	o := policy.NewOutcome(kind, frame)
	req := &o.Request
	req.ClientID = clientID(req.Frame, h)
	req.Conn, req.Principal, req.Software = r.c.info, *r.c.principal.Load(), r.software
	req.APIKey, req.APIVersion = r.key, r.version
	req.CorrelationID = int32(binary.BigEndian.Uint32(frame[8:]))
	req.Received = time.Now()
	return o
}

// undecodable notes a frame that the broker will answer by closing the connection: it passes as it came.
func (r *requests) undecodable(x *exchange, frame []byte, problem *codec.Problem) {
	r.c.srv.metrics.decode.WithLabelValues(apiName(x.key), "anomalous").Inc()
	if x.key != codec.KeyShareFetch && x.key != codec.KeyShareAcknowledge && !r.c.srv.mayBeTxn(x.key) {
		return
	}
	x.need |= needObserve
	x.outcome = r.remember(policy.Undecodable, frame, codec.RequestHeader{})
	x.outcome.Request.Carrier = r.c.srv.carrier(x.key)
	x.outcome.Request.Decode, x.outcome.Request.Problem = codec.Anomalous, problem
}

// admin notes an AddRaftVoter: it changes the quorum, and shares its key with a proposed acknowledgement. A body that only reads as that
// proposal is one that we were not told to read.
func (r *requests) admin(x *exchange, frame []byte, h codec.RequestHeader, body int) {
	var m codec.AddRaftVoterRequest
	outcome, problem := m.Decode(frame[body:], body, x.version)
	if outcome == codec.Anomalous {
		var txn codec.TxnShareAcknowledgeRequest
		if as, _ := txn.Decode(frame[body:], body, 0); as != codec.Anomalous {
			x.txn = true
			r.undecodable(x, frame, problem)
			return
		}
		r.c.srv.metrics.decode.WithLabelValues(apiName(x.key), "anomalous").Inc()
	}
	x.need |= needObserve
	x.outcome = r.remember(policy.AdminRequest, frame, h)
	x.outcome.Request.Decode, x.outcome.Request.Problem = outcome, problem
}

// isTxn says whether a frame of key 80 is a TxnShareAcknowledge: only where that is armed, and where it does not read strictly as
// AddRaftVoter. What a broker reads as neither counts as the one that carries acknowledgements.
func (r *requests) isTxn(frame []byte, body int) bool {
	if r.c.srv.cfg.TxnKey != codec.KeyAddRaftVoter || !r.c.broker.armed.Load() {
		return false
	}
	var voter codec.AddRaftVoterRequest
	outcome, _ := voter.Decode(frame[body:], body, r.version)
	if outcome != codec.Tolerated {
		return outcome != codec.Exact
	}
	var txn codec.TxnShareAcknowledgeRequest
	as, _ := txn.Decode(frame[body:], body, r.version)
	return as == codec.Exact || as == codec.Tolerated
}

// learnSoftware reads what the client calls itself. ApiVersions itself is the broker's to answer, in any version.
func (r *requests) learnSoftware(body []byte) {
	m := kmsg.NewPtrApiVersionsRequest()
	if r.version < 3 || r.version > m.MaxVersion() {
		return
	}
	m.SetVersion(r.version)
	if m.ReadFrom(body) == nil {
		r.software = m.ClientSoftwareName + "/" + m.ClientSoftwareVersion
	}
}
