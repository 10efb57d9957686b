package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ackproxy/ackproxy/codec"
)

// enum is the values that a setting takes, and those that belong to it but are not built yet.
type enum struct{ values, unbuilt []string }

func (e enum) parse(b []byte) (string, error) {
	text := strings.TrimSpace(string(b))
	for _, v := range e.values {
		if v == text {
			return text, nil
		}
	}
	hint := "write " + strings.Join(e.values, " or ")
	if len(e.values) > 2 {
		last := len(e.values) - 1
		hint = "write " + strings.Join(e.values[:last], ", ") + " or " + e.values[last]
	}
	for _, v := range e.unbuilt {
		if v == text {
			return "", bad(hint, "%s is not built yet", text)
		}
	}
	return "", bad(hint, "%q is not a value of this setting", text)
}

// Mode is how clients find the brokers.
type Mode string

// ModePorts serves each broker on a port of its own.
const ModePorts Mode = "ports"

// UnmarshalText checks the value.
func (m *Mode) UnmarshalText(b []byte) error {
	v, err := enum{values: []string{"ports"}, unbuilt: []string{"sni", "redirect"}}.parse(b)
	if err == nil {
		*m = Mode(v)
	}
	return err
}

// UnknownAPIs is what is done about keys that the proxy does not know.
type UnknownAPIs string

// The values of UnknownAPIs.
const (
	UnknownPass UnknownAPIs = "pass"
	UnknownHide UnknownAPIs = "hide"
)

// UnmarshalText checks the value.
func (u *UnknownAPIs) UnmarshalText(b []byte) error {
	v, err := enum{values: []string{"pass", "hide"}}.parse(b)
	if err == nil {
		*u = UnknownAPIs(v)
	}
	return err
}

// SASLv0 is what is done about SaslHandshake v0 with a mechanism that the proxy cannot follow.
type SASLv0 string

// The values of SASLv0.
const (
	SASLKnown SASLv0 = "known"
	SASLRelay SASLv0 = "relay"
)

// UnmarshalText checks the value.
func (s *SASLv0) UnmarshalText(b []byte) error {
	v, err := enum{values: []string{"known", "relay"}}.parse(b)
	if err == nil {
		*s = SASLv0(v)
	}
	return err
}

// Arm says when the configured key is taken for TxnShareAcknowledge.
type Arm string

// ArmAuto arms the key for a broker that lists it and shows share.version 3 or more.
const ArmAuto Arm = "auto"

// UnmarshalText checks the value.
func (a *Arm) UnmarshalText(b []byte) error {
	v, err := enum{values: []string{"auto", "always", "never"}}.parse(b)
	if err == nil {
		*a = Arm(v)
	}
	return err
}

// SinkType is a kind of audit sink.
type SinkType string

// The values of SinkType.
const (
	SinkStdout SinkType = "stdout"
	SinkFile   SinkType = "file"
)

// UnmarshalText checks the value.
func (s *SinkType) UnmarshalText(b []byte) error {
	v, err := enum{values: []string{"stdout", "file"}, unbuilt: []string{"kafka"}}.parse(b)
	if err == nil {
		*s = SinkType(v)
	}
	return err
}

// Level is the least severe level that is logged.
type Level string

// UnmarshalText checks the value.
func (l *Level) UnmarshalText(b []byte) error {
	v, err := enum{values: []string{"trace", "debug", "info", "warn", "error"}}.parse(b)
	if err == nil {
		*l = Level(v)
	}
	return err
}

// Format is the form of log lines.
type Format string

// The values of Format.
const (
	FormatAuto Format = "auto" // text on a terminal, JSON elsewhere
	FormatText Format = "text"
	FormatJSON Format = "json"
)

// UnmarshalText checks the value.
func (f *Format) UnmarshalText(b []byte) error {
	v, err := enum{values: []string{"auto", "text", "json"}}.parse(b)
	if err == nil {
		*f = Format(v)
	}
	return err
}

// integer parses a whole number of low to high.
func integer(b []byte, what string, low, high int) (int, error) {
	text := strings.TrimSpace(string(b))
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, bad("write a whole number", "%q is not a number", text)
	}
	if n < low || n > high {
		return 0, bad(fmt.Sprintf("write %d to %d", low, high), "%s %d is out of range", what, n)
	}
	return n, nil
}

// Port is a TCP port.
type Port int

// UnmarshalText checks the range.
func (p *Port) UnmarshalText(b []byte) error {
	n, err := integer(b, "the port", 1, 65535)
	if err == nil {
		*p = Port(n)
	}
	return err
}

// Count is how many of something there may be; at least one.
type Count int

// UnmarshalText checks the range.
func (c *Count) UnmarshalText(b []byte) error {
	n, err := integer(b, "the number", 1, 1<<20)
	if err == nil {
		*c = Count(n)
	}
	return err
}

// APIKey is the key of TxnShareAcknowledge.
type APIKey int16

// UnmarshalText refuses keys that clients use for something else.
func (k *APIKey) UnmarshalText(b []byte) error {
	n, err := integer(b, "the key", 0, 1<<15-1)
	if err != nil {
		return err
	}
	if n < int(codec.KeyAddRaftVoter) {
		return bad("write 80, or the key that your build of Kafka uses, as 95", "the key %d is %s", n, codec.Name(int16(n)))
	}
	*k = APIKey(n)
	return nil
}

// BuiltinAudit is the built-in policy that writes a further audit log.
const BuiltinAudit = "audit"

// OnFailure is what happens to a request when a policy fails or is late.
type OnFailure string

// The values of OnFailure.
const (
	OnFailureForward OnFailure = "forward" // as if the policy were not there; the default
	OnFailureRespond OnFailure = "respond" // its acknowledgements are withheld, with an error that clients repeat
	OnFailureClose   OnFailure = "close"
)

// UnmarshalText checks the value.
func (f *OnFailure) UnmarshalText(b []byte) error {
	v, err := enum{values: []string{"forward", "respond", "close"}}.parse(b)
	if err == nil {
		*f = OnFailure(v)
	}
	return err
}
