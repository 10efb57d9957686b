package letter

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// Info is what a dead letter's headers say. What they do not say, or say in a way that cannot be read, is zero, and -1 for numbers of a place.
type Info struct {
	ID        string // empty: not one of ours, a broker's or another tool's
	Group     string
	Topic     string
	TopicID   codec.UUID
	Partition int32
	Offset    int64

	DeliveryCount int16
	Reason        Reason
	Message       string
	Hops          int
	Time          time.Time // when it was dead-lettered
	Timestamp     time.Time // the record's own
	AppendTime    bool      // Timestamp is the broker's

	Member, ClientID, Principal, API, AuditRef string

	Payload Payload
	Missing string
}

// Read reads the headers of a dead letter, whoever wrote it, and says whether they are of one: of our own set, or of a profile's. Where a
// name repeats, the last counts.
func Read(headers []policy.RecordHeader) (info Info, is bool) {
	info.Partition, info.Offset = -1, -1
	for _, h := range headers {
		if written[h.Key] {
			is = true
			info.profile(h.Key, h.Value)
			info.facts(h.Key, string(h.Value))
			info.actor(h.Key, string(h.Value))
		}
	}
	info.place()
	return info, is
}

// Original are the headers without those that any letter of ours may have: what a redriven record is to carry.
func Original(headers []policy.RecordHeader) []policy.RecordHeader {
	return slices.DeleteFunc(slices.Clone(headers), func(h policy.RecordHeader) bool { return written[h.Key] })
}

// profile takes what the profiles say.
func (i *Info) profile(key string, value []byte) {
	text := string(value)
	switch key {
	case kipTopic, springTopic, connectTopic:
		i.Topic = text
	case kipPartition, connectPartition:
		i.Partition = int32(number(text, 32, -1))
	case kipOffset, connectOffset:
		i.Offset = number(text, 64, -1)
	case springPartition:
		if len(value) == 4 {
			i.Partition = max(int32(binary.BigEndian.Uint32(value)), -1)
		}
	case springOffset:
		if len(value) == 8 {
			i.Offset = max(int64(binary.BigEndian.Uint64(value)), -1)
		}
	case springTimestamp:
		if len(value) == 8 {
			i.Timestamp = time.UnixMilli(int64(binary.BigEndian.Uint64(value))).UTC()
		}
	case kipGroup, springGroup:
		i.Group = text
	case kipCount:
		i.DeliveryCount = int16(number(text, 16, 0))
	case kipMessage, springMessage, connectMessage:
		i.Message = text
	}
}

// facts takes what our own headers say about the letter.
func (i *Info) facts(key, text string) {
	switch key {
	case HeaderID:
		i.ID = text
	case HeaderReason:
		i.Reason = Reason(text)
	case HeaderHops:
		i.Hops = int(number(text, 31, 0))
	case HeaderTime:
		i.Time, _ = time.Parse(timeLayout, text)
	case HeaderTopicID:
		i.TopicID, _ = topicID(text)
	case HeaderTimestamp:
		i.Timestamp = time.UnixMilli(number(text, 64, 0)).UTC()
	case HeaderTimestampType, springTimestampType:
		i.AppendTime = text == "LogAppendTime"
	case HeaderPayload:
		i.Payload = Payload(text)
	case HeaderMissing:
		i.Missing = text
	}
}

// actor takes what our own headers say about who rejected the record.
func (i *Info) actor(key, text string) {
	switch key {
	case HeaderMember:
		i.Member = text
	case HeaderClientID:
		i.ClientID = text
	case HeaderPrincipal:
		i.Principal = text
	case HeaderAPI:
		i.API = text
	case HeaderAuditRef:
		i.AuditRef = text
	}
}

// place reads the id, which is there whatever the profile, and wins.
func (i *Info) place() {
	rest, offset, ok1 := cutLast(i.ID)
	rest, partition, ok2 := cutLast(rest)
	group, topic, ok3 := cutLast(rest)
	if !ok1 || !ok2 || !ok3 {
		return
	}
	if id, ok := topicID(topic); ok {
		i.TopicID = id
	}
	i.Group, i.Partition, i.Offset = group, int32(number(partition, 32, -1)), number(offset, 64, -1)
}

func cutLast(s string) (before, after string, found bool) {
	at := strings.LastIndexByte(s, '/')
	if at < 0 {
		return s, "", false
	}
	return s[:at], s[at+1:], true
}

// topicID is the reverse of codec.UUID's String.
func topicID(text string) (id codec.UUID, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != len(id) {
		return id, false
	}
	return codec.UUID(raw), true
}

// number reads a decimal number of so many bits that is not negative.
func number(text string, bits int, otherwise int64) int64 {
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil || n < 0 {
		return otherwise
	}
	return n
}
