// Package policy is the contract between the proxy and whatever looks at acknowledgements: who asked what, on which carrier,
// and what the broker said. The proxy fills these types in; policies and observers read them. They are data: a policy may live in
// another process, and nothing here points back into the proxy.
//
// Acknowledgements travel on three messages: ShareAcknowledge, ShareFetch (where most of them ride) and, where it is armed,
// TxnShareAcknowledge. To a policy all three are one Request. Offsets are ranges everywhere: nothing expands a range that a peer sent.
package policy

import (
	"time"

	"github.com/ackproxy/ackproxy/codec"
)

// Observer sees every exchange that concerns acknowledgements once the broker has answered, or will not.
//
// Observe is called on the connection's response loop: it must return at once and do its work elsewhere. The outcome is the observer's for
// the length of the call; one that needs it longer says Retain, and Release when it is done. It never changes meanwhile.
type Observer interface {
	Observe(*Outcome)
}

// Conn is what is known of a client connection for its whole life.
type Conn struct {
	ID       string    // unique in this process, "c-17"
	Listener string    // "bootstrap" or "broker-2"
	BrokerID int32     // -1 where the listener leads to any bootstrap broker
	Client   string    // the client's address as the socket shows it, host:port
	Upstream string    // the broker's address as it was dialled, host:port
	Opened   time.Time // wall clock
}

// Principal is who a client proved to be, and who verified it.
type Principal struct {
	Name       string // "User:alice"; empty when unknown
	Source     string // "sasl:PLAIN", "sasl:SCRAM-SHA-256", "none"
	VerifiedBy string // "broker" or "nobody"
}

// Carrier is the message that acknowledgements ride on.
type Carrier uint8

// The carriers.
const (
	ShareFetch Carrier = iota
	ShareAcknowledge
	TxnShareAcknowledge
)

// String is the carrier's name in audit lines and metrics.
func (c Carrier) String() string {
	return [...]string{"share_fetch", "share_acknowledge", "txn_share_acknowledge"}[c]
}

// Acknowledgement types (KIP-932, KIP-1222).
const (
	Gap     int8 = 0
	Accept  int8 = 1
	Release int8 = 2
	Reject  int8 = 3
	Renew   int8 = 4
)

// Request is one request that may carry acknowledgements. Policies get it before it is forwarded, observers afterwards.
type Request struct {
	Conn      *Conn
	Principal Principal // as of this request: re-authentication may change it
	Software  string    // what the client calls itself in ApiVersions, "apache-kafka-java/4.4.0"; empty when unknown

	APIKey, APIVersion int16
	CorrelationID      int32
	ClientID           []byte // nil is null
	Carrier            Carrier
	Decode             codec.Outcome
	Problem            *codec.Problem // why Decode is not Exact
	Frame              []byte         // the whole frame, size prefix included; the views below point into it

	GroupID, MemberID []byte // nil is null
	SessionEpoch      int32  // 0 opens, -1 closes; 0 for TxnShareAcknowledge, which has none
	RenewAck          bool
	TransactionalID   []byte // of a TxnShareAcknowledge, as are the two that follow; nil is null
	ProducerID        int64
	ProducerEpoch     int16
	Topics            codec.Array[codec.AckTopic] // as the client sent it

	// Partitions is what there is to decide about: what is asked, as earlier policies left it. It is filled in for policies only.
	Partitions []Partition
	// Records are the records that were delivered, for policies whose Traits ask for them; nil for others.
	Records Records
	// Deliveries is where the chain finds what it shows policies as Acquired and Records; nil where nothing is kept.
	Deliveries Deliveries

	Received time.Time // with a monotonic reading
}

// ClosesSession says whether the request ends the member's share session (epoch -1, on either carrier).
func (r *Request) ClosesSession() bool {
	return r.Carrier != TxnShareAcknowledge && r.SessionEpoch == -1
}

// ReplyState says how an exchange ended.
type ReplyState uint8

// The ways an exchange ends.
const (
	Answered   ReplyState = iota // the broker's answer was read
	Lost                         // the connection ended first, or the answer could not be read: the verdict is unknown
	Unreadable                   // the answer came and was passed on, but did not decode: the verdict is unknown
)

// PartitionResult is the broker's verdict about one partition's acknowledgements: the only scope below the request that the
// protocol has.
type PartitionResult struct {
	TopicID      codec.UUID
	Partition    int32
	ErrorCode    int16  // ErrorCode of ShareAcknowledge, AcknowledgeErrorCode of ShareFetch
	ErrorMessage string // empty when null
}

// Reply is the broker's answer, as far as it concerns acknowledgements.
type Reply struct {
	State         ReplyState
	Received      time.Time // with a monotonic reading; when the connection ended for Lost
	ErrorCode     int16     // top level
	ErrorMessage  string
	LockTimeoutMs int32 // 0 where the version has none
	Partitions    []PartitionResult
}
