// Package golden has a few share requests, byte by byte, on both carriers, as clients and brokers of Kafka exchange them. Policies are tried
// with them.
package golden

import (
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

//go:embed requests.json
var requests []byte

// Request is one request that acknowledges records, or closes a session.
type Request struct {
	Name    string
	Request *policy.Request // as the proxy shows it
}

// Requests are fresh copies of all, each in a frame of its own.
func Requests() []Request {
	var in []struct{ Name, Hex string }
	if err := json.Unmarshal(requests, &in); err != nil {
		panic(err) // a test reads them
	}
	out := make([]Request, len(in))
	for i, r := range in {
		frame, err := hex.DecodeString(r.Hex)
		if err != nil {
			panic(err)
		}
		out[i] = Request{r.Name, read(r.Name, frame)}
	}
	return out
}

func read(name string, frame []byte) *policy.Request {
	h, body, outcome, problem := codec.DecodeRequestHeader(frame, -1)
	now := time.Now()
	r := &policy.Request{
		Conn: &policy.Conn{
			ID: "c-1", Listener: "bootstrap", BrokerID: -1, Client: "192.0.2.1:50000", Upstream: "kafka-1.example.com:9092", Opened: now.Add(-time.Minute),
		},
		Principal: policy.Principal{Name: "User:golden", Source: "sasl:PLAIN", VerifiedBy: "broker"}, Software: "golden/1",
		APIKey: h.APIKey, APIVersion: h.APIVersion, CorrelationID: h.CorrelationID, ClientID: h.ClientID, Frame: frame, Received: now,
	}
	switch h.APIKey {
	case codec.KeyShareFetch:
		var m codec.ShareFetchRequest
		r.Carrier = policy.ShareFetch
		r.Decode, r.Problem = m.Decode(frame[body:], body, h.APIVersion)
		r.GroupID, r.MemberID, r.SessionEpoch, r.RenewAck, r.Topics = m.GroupID, m.MemberID, m.ShareSessionEpoch, m.IsRenewAck, m.Topics
	case codec.KeyShareAcknowledge:
		var m codec.ShareAcknowledgeRequest
		r.Carrier = policy.ShareAcknowledge
		r.Decode, r.Problem = m.Decode(frame[body:], body, h.APIVersion)
		r.GroupID, r.MemberID, r.SessionEpoch, r.RenewAck, r.Topics = m.GroupID, m.MemberID, m.ShareSessionEpoch, m.IsRenewAck, m.Topics
	}
	if outcome > codec.Tolerated || r.Decode > codec.Tolerated {
		panic(fmt.Sprintf("golden request %s: %v %v", name, problem, r.Problem))
	}
	return r
}
