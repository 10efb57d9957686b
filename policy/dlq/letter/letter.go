// Package letter knows what a dead letter looks like: the headers that say where a record came from and who rejected it, how to read
// them back, and the form in which a letter waits in a spool.
//
// A dead letter is the record as its producer wrote it: key, value, their null-ness and all headers, byte for byte. After the original
// headers come those of one profile, in the words of other tools, then our own, always the same. A reader takes the last header of a name.
package letter

import (
	"strconv"
	"time"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// Reason says why a record is dead-lettered, in the header ackproxy.dlq.reason.
type Reason string

// The reasons.
const (
	ClientReject       Reason = "client_reject"
	ReleaseAtLimit     Reason = "release_at_limit"
	LockExpiredAtLimit Reason = "lock_expired_at_limit" // inferred: nothing crossed the wire
	ByPolicy           Reason = "policy"                // a policy made a Reject of something else
)

// The texts of a broker that dead-letters by itself (KIP-1191, Kafka 4.4).
const (
	MessageRejected = "Offset rejected by client."
	MessageAtLimit  = "Offset delivery count exceeded the threshold."
)

// Payload says where key, value and original headers are from, in the header ackproxy.payload.
type Payload string

// The payloads.
const (
	Full        Payload = "full"        // the record passed by
	Refetched   Payload = "refetched"   // read again from its topic
	Unavailable Payload = "unavailable" // not there: key and value are null
)

// Letter is one record to be dead-lettered, and the facts about its rejection.
type Letter struct {
	Group, Member, ClientID, Principal string

	Topic         string // its name, else the id as text
	TopicID       codec.UUID
	Partition     int32
	Offset        int64
	DeliveryCount int16 // 0 is unknown

	Reason   Reason
	Message  string // what the application said, or a broker's text
	API      string // the message that carried the rejection, "ShareFetch"; empty for what is inferred
	AuditRef string // connection and correlation id, as audit lines have them
	Time     time.Time

	Payload Payload
	Missing string         // why it is Unavailable
	Source  *policy.Record // nil when Unavailable
}

// ID is what to recognise duplicates by: group, topic id, partition and offset with slashes between. A group may have slashes in it; the other
// three cannot.
func (l *Letter) ID() string {
	return l.Group + "/" + l.TopicID.String() + "/" + strconv.Itoa(int(l.Partition)) + "/" + strconv.FormatInt(l.Offset, 10)
}

// Strip turns it into a letter without payload: headers only.
func (l *Letter) Strip(why string) {
	l.Payload, l.Missing, l.Source = Unavailable, why, nil
}
