package proxy

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

const secret = "sEcReT"

// saslBroker follows SASL as a broker does, believes every client that is not "wrong", and answers acknowledgements.
func saslBroker(c *net.TCPConn) {
	mechanism := ""
	for {
		f, err := readFrame(c)
		if err != nil {
			return
		}
		id, version := idOf(f, false), int16(f[7])
		switch key := int16(f[4])<<8 | int16(f[5]); key {
		case codec.KeySASLHandshake:
			req := kmsg.NewPtrSASLHandshakeRequest()
			req.ReadFrom(f[4+8+2+len("test"):])
			mechanism = req.Mechanism
			m := kmsg.NewPtrSASLHandshakeResponse()
			m.SetVersion(version)
			if mechanism == "REFUSED" {
				m.ErrorCode = 33
			}
			c.Write(reply(m, id))
			if version == 0 && m.ErrorCode == 0 && !bareExchange(c, mechanism) {
				return
			}
		case codec.KeySASLAuthenticate:
			req := kmsg.NewPtrSASLAuthenticateRequest()
			req.SetVersion(version)
			_, body, _, _ := codec.DecodeRequestHeader(f, 0)
			req.ReadFrom(f[body:])
			m := kmsg.NewPtrSASLAuthenticateResponse()
			m.SetVersion(version)
			var ok bool
			if m.SASLAuthBytes, ok = challenge(mechanism, req.SASLAuthBytes); !ok {
				m.ErrorCode = 58
			}
			c.Write(reply(m, id))
		case codec.KeyShareAcknowledge:
			c.Write(shareAckReply(id, 0))
		default:
			c.Write(echo(f))
		}
	}
}

// challenge is what a server says to a client's token.
func challenge(mechanism string, token []byte) ([]byte, bool) {
	switch {
	case bytes.Contains(token, []byte("wrong")):
		return nil, false
	case mechanism == "OAUTHBEARER" && bytes.Contains(token, []byte("expired")):
		return []byte(`{"status":"invalid_token"}`), true // the client is to give up with a token of its own
	case strings.HasPrefix(mechanism, "SCRAM-") && bytes.HasPrefix(token, []byte("n,")):
		return []byte("r=nonce" + secret + ",s=c2FsdA==,i=4096"), true
	case strings.HasPrefix(mechanism, "SCRAM-"):
		return []byte("v=" + secret), true
	}
	return nil, true
}

// bareExchange is what follows a SaslHandshake v0: tokens with nothing but their size. False when the client is refused.
func bareExchange(c net.Conn, mechanism string) bool {
	for range max(1, bareTokens(mechanism)) {
		f, err := readFrame(c)
		if err != nil {
			return false
		}
		answer, ok := challenge(mechanism, f[4:])
		if !ok {
			return false
		}
		c.Write(frameOf(answer))
	}
	return true
}

func handshake(mechanism string, version int16) []byte {
	r := kmsg.NewPtrSASLHandshakeRequest()
	r.Mechanism = mechanism
	return request(r, version, 2147483640)
}

func token(version int16, text string) []byte {
	r := kmsg.NewPtrSASLAuthenticateRequest()
	r.SASLAuthBytes = []byte(text)
	return request(r, version, 2147483641)
}

func jwt(claims string) string {
	return "n,,\x01auth=Bearer e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + "." + secret + "\x01\x01"
}

// heard collects what a server logs, for a look at all of it.
type heard struct {
	mu sync.Mutex
	bytes.Buffer
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.Buffer.Write(p)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.Buffer.String()
}

// told sends frames, one after the other, each followed by its answer, and returns how many were answered.
func told(c net.Conn, frames ...[]byte) int {
	for i, f := range frames {
		c.Write(f)
		if _, err := readFrame(c); err != nil {
			return i
		}
	}
	return len(frames)
}

// TestPrincipal follows SaslAuthenticate exchanges: who a client is counts when the broker has accepted it, not before.
func TestPrincipal(t *testing.T) {
	plain := "\x00%s\x00" + secret
	scram := func(user string) [][]byte {
		return [][]byte{handshake("SCRAM-SHA-512", 1), token(2, "n,,n="+user+",r=nonce"+secret), token(2, "c=biws,r=nonce,p="+secret)}
	}
	none := policy.Principal{Source: "none", VerifiedBy: "nobody"}
	who := func(name, mechanism string) policy.Principal {
		return policy.Principal{Name: name, Source: "sasl:" + mechanism, VerifiedBy: "broker"}
	}
	for what, c := range map[string]struct {
		frames [][]byte
		want   policy.Principal
	}{
		"nothing":        {nil, none},
		"handshake only": {[][]byte{handshake("PLAIN", 1)}, none},
		"PLAIN":          {[][]byte{handshake("PLAIN", 1), token(0, fmt.Sprintf(plain, "alice"))}, who("User:alice", "PLAIN")},
		"PLAIN, authzid": {[][]byte{handshake("PLAIN", 1), token(1, "alice"+fmt.Sprintf(plain, "alice"))}, who("User:alice", "PLAIN")},
		"PLAIN, wrong":   {[][]byte{handshake("PLAIN", 1), token(2, fmt.Sprintf(plain, "wrong"))}, none},
		"PLAIN, odd":     {[][]byte{handshake("PLAIN", 1), token(2, "alice "+secret)}, who("", "PLAIN")},
		"SCRAM":          {scram("alice"), who("User:alice", "SCRAM-SHA-512")},
		"SCRAM, delegation token": {
			[][]byte{handshake("SCRAM-SHA-256", 1), token(2, "n,,n=tokenId,r=nonce"+secret+",tokenauth=true"), token(2, "c=biws,r=nonce,p="+secret)},
			policy.Principal{Source: "delegation_token", VerifiedBy: "broker"},
		},
		"SCRAM after one": {
			append([][]byte{handshake("SCRAM-SHA-256", 1), token(2, "n,,n=tokenId,r=nonce"+secret+",tokenauth=true"), token(2, "c=biws,r=nonce,p="+secret)},
				scram("alice")...),
			who("User:alice", "SCRAM-SHA-512"),
		},
		"SCRAM, escapes":     {scram("a=2Cb=3Dc"), who("User:a,b=c", "SCRAM-SHA-512")},
		"SCRAM, first only":  {scram("alice")[:2], none},
		"SCRAM, wrong proof": {append(scram("alice")[:2], token(2, "c=biws,r=nonce,p=wrong")), none},
		"JWT":                {[][]byte{handshake("OAUTHBEARER", 1), token(2, jwt(`{"sub":"alice","exp":1}`))}, who("User:alice", "OAUTHBEARER")},
		"opaque token":       {[][]byte{handshake("OAUTHBEARER", 1), token(2, "n,,\x01auth=Bearer "+secret+"\x01\x01")}, who("", "OAUTHBEARER")},
		"token of 3 parts":   {[][]byte{handshake("OAUTHBEARER", 1), token(2, "n,,\x01auth=Bearer a."+secret+".c\x01\x01")}, who("", "OAUTHBEARER")},
		"expired":            {[][]byte{handshake("OAUTHBEARER", 1), token(2, jwt(`{"sub":"expired"}`)+"expired"), token(2, "wrong")}, none},
		"again as another": {append(append(scram("alice"), handshake("PLAIN", 1)), token(2, fmt.Sprintf(plain, "bob"))),
			who("User:bob", "PLAIN")},
		"again, refused": {append(scram("alice"), handshake("PLAIN", 1), token(2, fmt.Sprintf(plain, "wrong"))), who("User:alice", "SCRAM-SHA-512")},
		"again, opaque":  {append(scram("alice"), handshake("OAUTHBEARER", 1), token(2, "n,,\x01auth=Bearer "+secret+"\x01\x01")), who("", "OAUTHBEARER")},
		"refused":        {[][]byte{handshake("REFUSED", 1), handshake("PLAIN", 1), token(2, fmt.Sprintf(plain, "alice"))}, who("User:alice", "PLAIN")},
		"another":        {[][]byte{handshake("GSSAPI", 1), token(2, "\x60ticket of alice")}, who("", "GSSAPI")},
	} {
		t.Run(what, func(t *testing.T) {
			seen, log := new(recorder), new(heard)
			s := start(t, Config{Upstream: []string{script(t, saslBroker)}, Observers: []policy.Observer{seen}, Log: zerolog.New(log).Level(zerolog.DebugLevel)}, nil)
			client := dial(t, s)
			if n := told(client, append(c.frames, shareAck(7, 1, 1))...); n != len(c.frames)+1 {
				t.Fatalf("%d of %d answered", n, len(c.frames)+1)
			}
			if o := seen.seen(); len(o) != 1 || o[0].Request.Principal != c.want {
				t.Fatalf("%d outcomes, %+v, want %+v", len(o), o[0].Request.Principal, c.want)
			}
			client.Close()
			eventually(t, "the end of the connection", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.conns) == 0 })
			eventually(t, "its line in the log", func() bool { return strings.Contains(log.String(), "connection ended") })
			if text := log.String() + fmt.Sprintf("%+v %q", seen.seen()[0], seen.seen()[0].Request.Frame); strings.Contains(text, secret) {
				t.Errorf("a secret got out: %s", text)
			}
		})
	}
}

// A request that is under way when its client authenticates anew is still the former principal's; the next one is not.
func TestPrincipalChangesBehindRequests(t *testing.T) {
	seen := new(recorder)
	c := dial(t, start(t, Config{Upstream: []string{script(t, saslBroker)}, Observers: []policy.Observer{seen}}, nil))
	told(c, handshake("PLAIN", 1), token(2, "\x00alice\x00"+secret))
	c.Write(bytes.Join([][]byte{shareAck(7, 1, 1), opaque(8, 3), handshake("PLAIN", 1), token(2, "\x00bob\x00"+secret)}, nil))
	for range 4 {
		if _, err := readFrame(c); err != nil {
			t.Fatal(err)
		}
	}
	told(c, shareAck(9, 2, 1))
	if o := seen.seen(); len(o) != 2 || o[0].Request.Principal.Name != "User:alice" || o[1].Request.Principal.Name != "User:bob" {
		t.Errorf("%d outcomes: %+v", len(o), o)
	}
}

// TestHandshakeV0 follows exchanges whose tokens come without a header, to the requests after them.
func TestHandshakeV0(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		scram := [][]byte{handshake("SCRAM-SHA-256", 0), frameOf([]byte("n,,n=alice,r=nonce" + secret)), frameOf([]byte("c=biws,r=nonce,p=" + secret))}
		for what, frames := range map[string][][]byte{
			"PLAIN":         {handshake("PLAIN", 0), frameOf([]byte("\x00alice\x00" + secret))},
			"no token":      {handshake("PLAIN", 0), frameOf(nil)},
			"a short token": {handshake("PLAIN", 0), frameOf([]byte("a"))},
			"SCRAM":         scram,
			"refused":       {handshake("REFUSED", 0), opaque(3, 10)},
			"refused first": append([][]byte{handshake("REFUSED", 0)}, scram...),
		} {
			seen, log := new(recorder), new(heard)
			s := start(t, Config{Upstream: []string{script(t, saslBroker)}, Observers: []policy.Observer{seen}, Log: zerolog.New(log).Level(zerolog.DebugLevel)}, src)
			frames = append(frames, shareAck(7, 1, 1), opaque(8, 5))
			client := dial(t, s)
			if n := told(client, frames...); n != len(frames) {
				t.Fatalf("%s: %d of %d answered; %s", what, n, len(frames), log)
			}
			pipelined := dial(t, s) // all at once: the tokens wait for the answer to the handshake
			pipelined.Write(bytes.Join(frames, nil))
			for i := range frames {
				if _, err := readFrame(pipelined); err != nil {
					t.Fatalf("%s, pipelined: %d of %d answered: %v; %s", what, i, len(frames), err, log)
				}
			}
			if o := seen.seen(); len(o) != 2 || o[0].Kind != policy.Acknowledgement || o[0].Request.CorrelationID != 7 || strings.Contains(log.String(), secret) {
				t.Errorf("%s: %d outcomes; %s", what, len(o), log)
			}
		}
	})
}

// A mechanism whose tokens cannot be counted closes the connection, or is relayed unread, which the observers are told.
func TestHandshakeV0Unknown(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		s := start(t, Config{Upstream: []string{script(t, saslBroker)}}, src)
		c := dial(t, s)
		c.Write(append(handshake("GSSAPI", 0), frameOf([]byte("\x60ticket"))...))
		if f, err := readFrame(c); err != nil || idOf(f, true) != 2147483640 {
			t.Error(err, f)
		}
		if p, err := closedBy(c); err != nil || len(p) > 0 {
			t.Errorf("%v, %x", err, p)
		}
		eventually(t, "the counter", func() bool { return testutil.ToFloat64(s.metrics.ended.WithLabelValues("sasl_v0")) == 1 })
		seen := new(recorder)
		s = start(t, Config{Upstream: []string{script(t, saslBroker)}, SASLv0Relay: true, Observers: []policy.Observer{seen}}, src)
		c = dial(t, s)
		frames := [][]byte{handshake("GSSAPI", 0), frameOf([]byte("\x60ticket")), shareAck(7, 1, 1), opaque(8, 100_000)}
		if n := told(c, frames...); n != len(frames) {
			t.Errorf("%d of %d answered", n, len(frames))
		}
		if o := seen.seen(); len(o) != 1 || o[0].Kind != policy.CoverageGap || !strings.Contains(o[0].Note, "GSSAPI") {
			t.Errorf("%d outcomes, want the gap alone", len(o))
		}
		c.CloseWrite()
		if _, err := readFrame(c); err != io.EOF {
			t.Error(err)
		}
	})
}

// A broker that goes instead of answering a handshake does not leave a connection behind that waits for it.
func TestHandshakeV0Unanswered(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		s := start(t, Config{Upstream: []string{script(t, func(c *net.TCPConn) { readFrame(c) })}}, src)
		c := dial(t, s)
		c.Write(append(handshake("PLAIN", 0), frameOf([]byte("\x00a\x00"+secret))...))
		if p, err := closedBy(c); err != nil || len(p) > 0 {
			t.Errorf("%v, %x", err, p)
		}
		c.Close()
		eventually(t, "no connection left", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.conns) == 0 })
	})
}
