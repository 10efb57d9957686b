package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// Protocol errors: each closes the connection, is counted by its reason, and names the rule that was broken.
var (
	errBadFrame  = errors.New("bad frame")
	errTooLarge  = errors.New("frame above the limit (protocol.max_frame)")
	errBuffered  = errors.New("no memory left for frames that are held whole, and unanswered requests (protocol.max_buffered)")
	errSlow      = errors.New("too slow (protocol.header_timeout)")
	errNotKafka  = errors.New("not the Kafka protocol")
	errOutOfStep = errors.New("answer out of step")
	errUnread    = errors.New("an answer that may carry addresses cannot be read")
	errVersion   = errors.New("request in a version that was not offered")
	errSASL      = errors.New("SaslHandshake v0 with a mechanism that cannot be followed (protocol.sasl_v0)")
	errPolicy    = errors.New("closed by a policy")
	errDrained   = errors.New("still open at the end of drain.timeout")
)

// reasons are the values of the label reason, the first that fits.
var reasons = []struct {
	err  error
	name string
}{
	{errUnread, "unreadable_answer"}, {errBadFrame, "frame"}, {errTooLarge, "frame_limit"}, {errBuffered, "buffer_limit"}, {errSlow, "slow"}, {errNotKafka, "not_kafka"},
	{errOutOfStep, "correlation"}, {errVersion, "version"}, {errSASL, "sasl_v0"}, {errDrained, "drained"}, {errDecision, "decision"}, {errPolicy, "policy"},
}

// reason names what ended a connection: a protocol rule, "io" for a socket's error, "" for a clean end.
func reason(err error) string {
	if err == nil {
		return ""
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.name
		}
	}
	return "io"
}

// everyday says whether err is how connections end all day: a reset, a broken pipe, a closed socket.
func everyday(err error) bool {
	for _, e := range []error{syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed, os.ErrDeadlineExceeded, io.ErrUnexpectedEOF, errClosed, context.Canceled, syscall.ENOTCONN} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
