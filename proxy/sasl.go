package proxy

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// saslState is the SASL exchange that a client is in, as the request loop sees it.
type saslState struct {
	mechanism string
	name      string    // who the client says it is; not proven yet
	source    string    // how that is known
	answered  chan bool // the answer to a SaslHandshake v0 is awaited: true when it was accepted
	bare      int       // tokens without a header that the client will still send
}

// saslStep is one request of a SASL exchange, remembered for its answer.
type saslStep struct {
	mechanism string
	answered  chan bool // of a SaslHandshake v0, else nil
	handshake bool
	principal *policy.Principal // who the client is, if the answer accepts this step
}

// handshake follows a SaslHandshake. After v1 tokens travel in SaslAuthenticate; after an accepted v0 they are bare, so that what the
// client sends next can be read only once the answer has been seen.
func (r *requests) handshake(x *exchange, body []byte) {
	m := kmsg.NewPtrSASLHandshakeRequest()
	m.SetVersion(x.version)
	if m.ReadFrom(body) != nil {
		return
	}
	r.sasl = saslState{mechanism: m.Mechanism, source: "sasl:" + m.Mechanism}
	x.need, x.sasl = needSASL, &saslStep{mechanism: m.Mechanism, handshake: true}
	if x.version == 0 {
		r.sasl.answered = make(chan bool, 1)
		x.sasl.answered = r.sasl.answered
	}
}

// bareTokens is how many tokens each side sends after a SaslHandshake v0; 0 for mechanisms that we cannot follow.
func bareTokens(mechanism string) int {
	switch {
	case mechanism == "PLAIN":
		return 1
	case strings.HasPrefix(mechanism, "SCRAM-"):
		return 2
	}
	return 0
}

// awaitHandshake waits for the answer to a SaslHandshake v0, and decides how the next bytes are read.
func (r *requests) awaitHandshake() error {
	if err := r.h.readyToWait(); err != nil {
		return err
	}
	var accepted bool
	select {
	case accepted = <-r.sasl.answered:
	case <-r.c.answered: // or will not be
	case <-r.c.failed:
		return errClosed
	}
	r.sasl.answered = nil
	if !accepted { // the broker goes on reading requests, and so do we
		return nil
	}
	r.sasl.bare = bareTokens(r.sasl.mechanism)
	if r.sasl.bare == 0 && !r.c.relay.Load() {
		return fmt.Errorf("%w: %q", errSASL, r.sasl.mechanism)
	}
	return nil
}

// authenticate reads who a client says it is from a SaslAuthenticate. Only the name is kept, and it counts only once the broker has
// accepted the exchange.
func (r *requests) authenticate(x *exchange, body []byte) {
	m := kmsg.NewPtrSASLAuthenticateRequest()
	m.SetVersion(x.version)
	if m.ReadFrom(body) != nil {
		return
	}
	x.need, x.sasl = needSASL, &saslStep{mechanism: r.sasl.mechanism}
	name, last := saslName(r.sasl.mechanism, m.SASLAuthBytes)
	if strings.HasPrefix(r.sasl.mechanism, "SCRAM-") && delegated(m.SASLAuthBytes) {
		name, r.sasl.source = "", "delegation_token"
	}
	if name != "" {
		r.sasl.name = "User:" + name
	}
	if last {
		x.sasl.principal = &policy.Principal{Name: r.sasl.name, Source: r.sasl.source, VerifiedBy: "broker"}
	}
}

// saslName reads the user's name from a client's token, where the mechanism shows it, and says whether the broker's acceptance of this
// token settles the exchange.
func saslName(mechanism string, token []byte) (name string, last bool) {
	switch {
	case mechanism == "PLAIN": // RFC 4616: authzid NUL authcid NUL password
		if parts := bytes.Split(token, []byte{0}); len(parts) == 3 {
			name = string(parts[1])
		}
		return name, true
	case strings.HasPrefix(mechanism, "SCRAM-"): // RFC 5802
		if bytes.HasPrefix(token, []byte("c=")) {
			return "", true
		}
		for _, field := range strings.Split(string(token), ",") {
			if strings.HasPrefix(field, "n=") {
				return strings.NewReplacer("=2C", ",", "=3D", "=").Replace(field[2:]), false
			}
		}
	case mechanism == "OAUTHBEARER": // RFC 7628
		return tokenSubject(token), true
	default:
		return "", true
	}
	return "", false
}

// delegated says whether a client begins SCRAM with a delegation token (KIP-48). The name in there is the token's id then. Who acts is the token's
// owner, whom brokers alone know.
func delegated(token []byte) bool {
	for field := range strings.SplitSeq(string(token), ",") {
		if key, value, _ := strings.Cut(field, "="); key == "tokenauth" && strings.EqualFold(value, "true") {
			return true
		}
	}
	return false
}

// tokenSubject is the subject of a JWT in an OAUTHBEARER token; empty when the token is opaque: a guess would be worse than nothing.
func tokenSubject(token []byte) string {
	_, after, ok := bytes.Cut(token, []byte("auth=Bearer "))
	jwt, _, _ := bytes.Cut(after, []byte{1})
	parts := bytes.Split(jwt, []byte("."))
	if !ok || len(parts) != 3 {
		return ""
	}
	claims, err := base64.RawURLEncoding.DecodeString(string(parts[1]))
	if err != nil {
		return ""
	}
	var c struct {
		Sub string `json:"sub"`
	}
	if json.Unmarshal(claims, &c) != nil {
		return ""
	}
	return c.Sub
}

// saslAnswer follows the broker's side of the exchange.
func (r *responses) saslAnswer(x exchange, body []byte) error {
	accepted := len(body) >= 2 && binary.BigEndian.Uint16(body) == 0 // the error code comes first in every version of both
	step := x.sasl
	if step.handshake {
		if step.answered == nil {
			return nil
		}
		if accepted && bareTokens(step.mechanism) == 0 && r.c.srv.cfg.SASLv0Relay {
			r.c.relay.Store(true)
			r.c.srv.observe(&policy.Outcome{Kind: policy.CoverageGap, Request: policy.Request{Conn: r.c.info, Principal: *r.c.principal.Load(), Received: r.c.info.Opened},
				Note: "SaslHandshake v0 with " + step.mechanism + ": the rest of the connection is relayed unread (protocol.sasl_v0: relay)"})
		}
		r.handshake, r.accepted = step.answered, accepted // told once the answer is written
		return nil
	}
	if !accepted || step.principal == nil {
		return nil
	}
	m := kmsg.NewPtrSASLAuthenticateResponse()
	m.SetVersion(x.version)
	if m.ReadFrom(body) == nil && (step.mechanism != "OAUTHBEARER" || len(m.SASLAuthBytes) == 0) {
		r.c.principal.Store(step.principal)
	}
	return nil
}

// isSASL says whether a key belongs to a SASL exchange.
func isSASL(key int16) bool { return key == codec.KeySASLHandshake || key == codec.KeySASLAuthenticate }
