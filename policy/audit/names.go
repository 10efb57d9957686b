package audit

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/ackproxy/ackproxy/policy"
)

// kafkaErrors holds Kafka's names by code + 1.
var kafkaErrors = func() (names [256]string) {
	for i := range names {
		code := int16(i - 1)
		if e := kerr.TypedErrorForCode(code); e != nil && e.Code == code {
			names[i] = e.Message
		}
	}
	names[0+1] = "NONE"
	names[6+1] = "NOT_LEADER_OR_FOLLOWER" // the name since Kafka 2.6
	return names
}()

// ErrorName is Kafka's name of an error code, "NONE" for 0, and "" for a code that this release does not know.
func ErrorName(code int16) string {
	if i := int(code) + 1; i >= 0 && i < len(kafkaErrors) {
		return kafkaErrors[i]
	}
	return ""
}

var typeNames = [...]string{policy.Gap: "gap", policy.Accept: "accept", policy.Release: "release", policy.Reject: "reject", policy.Renew: "renew"}

// TypeName is the name of an acknowledgement type: gap, accept, release, reject, renew, and other(n).
func TypeName(t int8) string {
	if t >= 0 && int(t) < len(typeNames) {
		return typeNames[t]
	}
	return "other(" + strconv.Itoa(int(t)) + ")"
}

func appendType(dst []byte, t int8) []byte {
	dst = append(dst, '"')
	if t >= 0 && int(t) < len(typeNames) {
		dst = append(dst, typeNames[t]...)
	} else {
		dst = append(dst, "other("...)
		dst = strconv.AppendInt(dst, int64(t), 10)
		dst = append(dst, ')')
	}
	return append(dst, '"')
}
