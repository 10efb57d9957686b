package letter

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/ackproxy/ackproxy/policy"
)

// Profile is a set of headers that other tools know.
type Profile uint8

// The profiles.
const (
	KIP1191 Profile = iota // what a Kafka 4.4 broker writes: text
	Spring                 // Spring Kafka's dead-letter publisher: numbers are big-endian
	Connect                // a Kafka Connect sink's: text
)

var profileNames = [...]string{"kip1191", "spring", "connect"}

// String is the profile as the configuration spells it.
func (p Profile) String() string { return profileNames[p] }

// ParseProfile is the reverse of String.
func ParseProfile(name string) (Profile, error) {
	for i, n := range profileNames {
		if n == name {
			return Profile(i), nil
		}
	}
	return 0, fmt.Errorf("there is no header profile %q", name)
}

// Names of our own headers, in the order they are written in. All values are UTF-8 text, as far as clients send UTF-8.
const (
	HeaderID            = "ackproxy.dlq.id"
	HeaderReason        = "ackproxy.dlq.reason"
	HeaderHops          = "ackproxy.dlq.hops" // how many times the record was dead-lettered, this one included
	HeaderTime          = "ackproxy.dlq.time" // RFC 3339, UTC, milliseconds
	HeaderTopicID       = "ackproxy.topic.id"
	HeaderTimestamp     = "ackproxy.timestamp" // the record's own, milliseconds since 1970
	HeaderTimestampType = "ackproxy.timestamp.type"
	HeaderMember        = "ackproxy.member"
	HeaderClientID      = "ackproxy.client-id"
	HeaderPrincipal     = "ackproxy.principal"
	HeaderPayload       = "ackproxy.payload"
	HeaderMissing       = "ackproxy.payload.reason" // why the payload is unavailable
	HeaderAPI           = "ackproxy.api"
	HeaderAuditRef      = "ackproxy.audit.ref"
)

// Names of a broker's own headers (KIP-1191).
const (
	kipTopic     = "__dlq.errors.topic"
	kipPartition = "__dlq.errors.partition"
	kipOffset    = "__dlq.errors.offset"
	kipGroup     = "__dlq.errors.group"
	kipCount     = "__dlq.errors.delivery.count"
	kipMessage   = "__dlq.errors.message"
)

// Names of Spring Kafka's headers.
const (
	springTopic         = "kafka_dlt-original-topic"
	springPartition     = "kafka_dlt-original-partition"
	springOffset        = "kafka_dlt-original-offset"
	springTimestamp     = "kafka_dlt-original-timestamp"
	springTimestampType = "kafka_dlt-original-timestamp-type"
	springGroup         = "kafka_dlt-original-consumer-group"
	springMessage       = "kafka_dlt-exception-message"
)

// Names of Kafka Connect's headers.
const (
	connectTopic     = "__connect.errors.topic"
	connectPartition = "__connect.errors.partition"
	connectOffset    = "__connect.errors.offset"
	connectMessage   = "__connect.errors.exception.message"
)

// written are all names that a letter may have from us.
var written = func() map[string]bool {
	names := make(map[string]bool)
	for _, n := range [...]string{
		HeaderID, HeaderReason, HeaderHops, HeaderTime, HeaderTopicID, HeaderTimestamp, HeaderTimestampType, HeaderMember, HeaderClientID,
		HeaderPrincipal, HeaderPayload, HeaderMissing, HeaderAPI, HeaderAuditRef,
		kipTopic, kipPartition, kipOffset, kipGroup, kipCount, kipMessage,
		springTopic, springPartition, springOffset, springTimestamp, springTimestampType, springGroup, springMessage,
		connectTopic, connectPartition, connectOffset, connectMessage,
	} {
		names[n] = true
	}
	return names
}()

// Headers are the letter's: the original ones first, then the profile's, then ours. A record that is a dead letter already has the earlier set
// replaced and its hops counted on.
func (l *Letter) Headers(p Profile) []policy.RecordHeader {
	var original []policy.RecordHeader
	hops := 1
	if l.Source != nil {
		original = l.Source.Headers
		if before, is := Read(original); is && before.ID != "" {
			original, hops = Original(original), before.Hops+1
		}
	}
	b := builder{headers: make([]policy.RecordHeader, 0, len(original)+len(written))}
	b.headers = append(b.headers, original...)
	switch p {
	case KIP1191:
		l.kip1191(&b)
	case Spring:
		l.spring(&b)
	case Connect:
		l.connect(&b)
	}
	l.ours(&b, hops)
	return b.headers
}

func (l *Letter) kip1191(b *builder) {
	b.text(kipTopic, l.Topic)
	b.number(kipPartition, int64(l.Partition))
	b.number(kipOffset, l.Offset)
	b.text(kipGroup, l.Group)
	if l.DeliveryCount > 0 {
		b.number(kipCount, int64(l.DeliveryCount))
	}
	b.known(kipMessage, l.Message)
}

func (l *Letter) spring(b *builder) {
	b.text(springTopic, l.Topic)
	b.add(springPartition, binary.BigEndian.AppendUint32(nil, uint32(l.Partition)))
	b.add(springOffset, binary.BigEndian.AppendUint64(nil, uint64(l.Offset)))
	if l.Source != nil {
		b.add(springTimestamp, binary.BigEndian.AppendUint64(nil, uint64(l.Source.Timestamp)))
		b.text(springTimestampType, timestampType(l.Source))
	}
	b.text(springGroup, l.Group)
	b.known(springMessage, l.Message)
}

func (l *Letter) connect(b *builder) {
	b.text(connectTopic, l.Topic)
	b.number(connectPartition, int64(l.Partition))
	b.number(connectOffset, l.Offset)
	b.known(connectMessage, l.Message)
}

func (l *Letter) ours(b *builder, hops int) {
	b.text(HeaderID, l.ID())
	b.text(HeaderReason, string(l.Reason))
	b.number(HeaderHops, int64(hops))
	b.text(HeaderTime, l.Time.UTC().Format(timeLayout))
	b.text(HeaderTopicID, l.TopicID.String())
	if l.Source != nil {
		b.number(HeaderTimestamp, l.Source.Timestamp)
		b.text(HeaderTimestampType, timestampType(l.Source))
	}
	b.known(HeaderMember, l.Member)
	b.known(HeaderClientID, l.ClientID)
	b.known(HeaderPrincipal, l.Principal)
	b.text(HeaderPayload, string(l.Payload))
	b.known(HeaderMissing, l.Missing)
	b.known(HeaderAPI, l.API)
	b.known(HeaderAuditRef, l.AuditRef)
}

const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// timestampType is Kafka's name for it.
func timestampType(r *policy.Record) string {
	if r.AppendTime {
		return "LogAppendTime"
	}
	return "CreateTime"
}

// builder collects headers.
type builder struct{ headers []policy.RecordHeader }

func (b *builder) add(key string, value []byte) {
	b.headers = append(b.headers, policy.RecordHeader{Key: key, Value: value})
}

func (b *builder) text(key, value string)         { b.add(key, []byte(value)) }
func (b *builder) number(key string, value int64) { b.add(key, strconv.AppendInt(nil, value, 10)) }

// known leaves out what is empty.
func (b *builder) known(key, value string) {
	if value != "" {
		b.text(key, value)
	}
}
