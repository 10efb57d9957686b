package audit

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

const (
	// maxLine bounds a line, line end included.
	maxLine = 8192
	// tailRoom is kept free behind the ranges for the verdict, the note and the end of the line.
	tailRoom = 1536
	// maxTypes bounds the types that are shown of such a batch; their number is shown as well.
	maxTypes = 64
)

// formatter builds lines. It belongs to one goroutine; all its memory is reused.
type formatter struct {
	stream, instance, version string // JSON text
	seq                       uint64 // of the last line that is complete
	ids                       ids
	stamp                     stamper
	topicName                 func(codec.UUID) (string, bool)
	middle                    []byte // of the line in work: from the time to where its ranges begin
	effects                   []byte // of the event in work: the elements of policy that concern the request or the answer
}

// open begins a line: version, type, id, and its place in the stream. part 0 means that the event has one line only.
func (f *formatter) open(dst []byte, typ eventType, part, parts int) []byte {
	dst = append(dst, `{"v":1,"type":"`...)
	dst = append(dst, eventNames[typ]...)
	dst = append(dst, `","id":"`...)
	dst = f.ids.append(dst)
	dst = append(dst, `","stream":{"id":`...)
	dst = append(dst, f.stream...)
	dst = append(dst, `,"seq":`...)
	dst = strconv.AppendUint(dst, f.seq+1, 10)
	if part > 0 {
		dst = append(dst, `,"part":`...)
		dst = strconv.AppendInt(dst, int64(part), 10)
		dst = append(dst, `,"parts":`...)
		dst = strconv.AppendInt(dst, int64(parts), 10)
	}
	return append(dst, '}')
}

// exchange appends when, where, who: what an event says of its request and connection, up to the target.
func (f *formatter) exchange(dst []byte, o *policy.Outcome) []byte {
	r := &o.Request
	dst = append(dst, `,"time":{"request":`...)
	dst = f.stamp.append(dst, r.Received)
	switch at := o.Reply.Received; {
	case at.IsZero():
		dst = append(dst, `,"reply":null,"took_ms":null`...)
	case o.Reply.State == policy.Lost:
		dst = append(dst, `,"reply":null,"took_ms":null,"lost_at":`...)
		dst = f.stamp.append(dst, at)
	default:
		dst = append(dst, `,"reply":`...)
		dst = f.stamp.append(dst, at)
		dst = append(dst, `,"took_ms":`...)
		dst = appendMillis(dst, at.Sub(r.Received))
	}
	dst = append(dst, '}')
	dst = f.proxy(dst, r.Conn)
	return f.actor(dst, r)
}

func (f *formatter) proxy(dst []byte, c *policy.Conn) []byte {
	dst = append(dst, `,"proxy":{"instance":`...)
	dst = append(dst, f.instance...)
	dst = append(dst, `,"version":`...)
	dst = append(dst, f.version...)
	if c != nil {
		dst = append(dst, `,"listener":`...)
		dst = appendText(dst, c.Listener)
	}
	return append(dst, '}')
}

func (f *formatter) actor(dst []byte, r *policy.Request) []byte {
	dst = append(dst, `,"actor":{"principal":`...)
	dst = appendTextOrNull(dst, r.Principal.Name)
	dst = append(dst, `,"principal_source":`...)
	dst = appendText(dst, orElse(r.Principal.Source, "none"))
	dst = append(dst, `,"verified_by":`...)
	dst = appendText(dst, orElse(r.Principal.VerifiedBy, "nobody"))
	if r.Conn != nil {
		dst = append(dst, `,"address":`...)
		dst = appendText(dst, r.Conn.Client)
		dst = append(dst, `,"address_source":"socket"`...)
	}
	dst = append(dst, `,"claimed":{"client_id":`...)
	dst = appendBytes(dst, r.ClientID)
	dst = append(dst, `,"software":`...)
	dst = appendTextOrNull(dst, r.Software)
	dst = append(dst, `},"member_id":`...)
	dst = appendBytes(dst, r.MemberID)
	return append(dst, '}')
}

// target appends which broker and group, and which partition where t is one.
func (f *formatter) target(dst []byte, r *policy.Request, t *target) []byte {
	dst = append(dst, `,"target":{"broker_id":`...)
	if r.Conn == nil || r.Conn.BrokerID < 0 {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendInt(dst, int64(r.Conn.BrokerID), 10)
	}
	if r.Conn != nil {
		dst = append(dst, `,"upstream":`...)
		dst = appendText(dst, r.Conn.Upstream)
	}
	dst = append(dst, `,"group":`...)
	dst = appendBytes(dst, r.GroupID)
	if t == nil {
		return append(dst, '}')
	}
	dst = append(dst, `,"topic":`...)
	name, from := f.topic(t.topic)
	dst = appendTextOrNull(dst, name)
	dst = append(dst, `,"topic_id":"`...)
	dst = base64.RawURLEncoding.AppendEncode(dst, t.topic[:])
	dst = append(dst, `","topic_name_from":"`...)
	dst = append(dst, from...)
	dst = append(dst, `","partition":`...)
	dst = strconv.AppendInt(dst, int64(t.partition), 10)
	return append(dst, '}')
}

// topic is a topic's name and where it is known from; "" when it is not.
func (f *formatter) topic(id codec.UUID) (name, from string) {
	if f.topicName != nil {
		if name, ok := f.topicName(id); ok && name != "" {
			return name, "metadata-cache"
		}
	}
	return "", "unknown"
}

// request appends what was sent, and the frame's hash where its bytes are not what decoding them would give.
func (f *formatter) request(dst []byte, o *policy.Outcome) []byte {
	r := &o.Request
	dst = append(dst, `,"request":{"api":`...)
	dst = appendTextOrNull(dst, apiName(o))
	if o.Kind != policy.AdminRequest {
		dst = append(dst, `,"carrier":"`...)
		dst = append(dst, r.Carrier.String()...)
		dst = append(dst, '"')
	}
	dst = append(dst, `,"api_key":`...)
	dst = strconv.AppendInt(dst, int64(r.APIKey), 10)
	dst = append(dst, `,"api_version":`...)
	dst = strconv.AppendInt(dst, int64(r.APIVersion), 10)
	dst = append(dst, `,"correlation_id":`...)
	dst = strconv.AppendInt(dst, int64(r.CorrelationID), 10)
	if r.Conn != nil {
		dst = append(dst, `,"connection":`...)
		dst = appendText(dst, r.Conn.ID)
	}
	if o.Kind == policy.Acknowledgement && r.Carrier != policy.TxnShareAcknowledge {
		dst = append(dst, `,"session_epoch":`...)
		dst = strconv.AppendInt(dst, int64(r.SessionEpoch), 10)
		dst = append(dst, `,"closes_session":`...)
		dst = strconv.AppendBool(dst, r.ClosesSession())
		dst = append(dst, `,"renew_ack":`...)
		dst = strconv.AppendBool(dst, r.RenewAck)
	}
	dst = append(dst, `,"decode":"`...)
	dst = append(dst, r.Decode.String()...)
	dst = append(dst, '"')
	if r.Decode != codec.Exact || o.Kind == policy.Undecodable {
		dst = appendProblem(dst, r.Problem)
		dst = append(dst, `,"frame_bytes":`...)
		dst = strconv.AppendInt(dst, int64(len(r.Frame)), 10)
		dst = append(dst, `,"frame_sha256":"`...)
		sum := sha256.Sum256(r.Frame)
		dst = hex.AppendEncode(dst, sum[:])
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

func appendProblem(dst []byte, p *codec.Problem) []byte {
	dst = append(dst, `,"problem":`...)
	if p == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"reason":`...)
	dst = appendText(dst, p.Reason)
	dst = append(dst, `,"at":`...)
	dst = strconv.AppendInt(dst, int64(p.At), 10)
	dst = append(dst, `,"field":`...)
	dst = appendTextOrNull(dst, p.Field)
	return append(dst, '}')
}

// apiName is the schema's name of the request. An acknowledging key is named by its carrier: TxnShareAcknowledge has no key of its own.
func apiName(o *policy.Outcome) string {
	switch {
	case o.Kind == policy.AdminRequest:
		return codec.Name(o.Request.APIKey)
	case o.Request.Carrier == policy.ShareFetch:
		return "ShareFetch"
	case o.Request.Carrier == policy.ShareAcknowledge:
		return "ShareAcknowledge"
	}
	return "TxnShareAcknowledge"
}

func (f *formatter) verdict(dst []byte, v *verdict) []byte {
	dst = append(dst, `,"verdict":{"state":"`...)
	dst = append(dst, stateNames[v.state]...)
	if v.partition {
		dst = append(dst, `","scope":"partition"`...)
	} else {
		dst = append(dst, `","scope":"request"`...)
	}
	dst = append(dst, answererTexts[v.by]...)
	if v.reason != "" {
		dst = append(dst, `null,"error_name":null,"error_message":null,"reason":"`...)
		dst = append(dst, v.reason...)
		return append(dst, `"}`...)
	}
	dst = strconv.AppendInt(dst, int64(v.code), 10)
	dst = append(dst, `,"error_name":`...)
	dst = appendTextOrNull(dst, ErrorName(v.code))
	dst = append(dst, `,"error_message":`...)
	dst = appendTextOrNull(dst, v.message)
	return append(dst, '}')
}

// close ends a line; empty anomalies are none.
func (f *formatter) close(dst []byte, note string, anomalies ...string) []byte {
	if note != "" {
		dst = append(dst, `,"note":`...)
		dst = appendText(dst, note)
	}
	dst = append(dst, `,"anomalies":[`...)
	comma := false
	for _, a := range anomalies {
		if a == "" {
			continue
		}
		if comma {
			dst = append(dst, ',')
		}
		comma = true
		dst = append(append(append(dst, '"'), a...), '"')
	}
	return append(dst, "]}\n"...)
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// eventTime is when an event became known: with the reply, else with the request.
func eventTime(o *policy.Outcome) time.Time {
	if !o.Reply.Received.IsZero() {
		return o.Reply.Received
	}
	return o.Request.Received
}
