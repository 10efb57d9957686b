package audit

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/ackproxy/ackproxy/policy"
)

// Field is one member of a control event's "control" object. Value is anything that encoding/json takes.
type Field struct {
	Name  string
	Value any
}

// control is a control event in the queue.
type control struct {
	kind string
	at   time.Time
	body []byte // `,"name":value…`
}

// maxControl bounds the fields of a control event, so that its line stays below maxLine.
const maxControl = 6 << 10

// newControl encodes the fields. What does not encode, or finds no room, is left out and named in "omitted".
func newControl(kind string, at time.Time, fields []Field) *control {
	c := &control{kind: kind, at: at}
	var omitted []byte
	for _, f := range fields {
		value, err := marshal(f.Value)
		name := appendText(nil, f.Name)
		if err != nil || len(c.body)+len(name)+len(value)+2 > maxControl {
			if len(omitted)+len(name) < maxText {
				omitted = append(append(omitted, ','), name...)
			}
			continue
		}
		c.body = append(append(append(append(c.body, ','), name...), ':'), value...)
	}
	if omitted != nil {
		c.body = append(append(append(c.body, `,"omitted":[`...), omitted[1:]...), ']')
	}
	return c
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// control begins an audit.control event up to its kind.
func (f *formatter) control(dst []byte, kind string, at time.Time) []byte {
	f.ids.next(at)
	dst = f.open(dst, auditControl, 0, 0)
	dst = append(dst, `,"time":{"event":`...)
	dst = f.stamp.append(dst, at)
	dst = append(dst, '}')
	dst = f.proxy(dst, nil)
	dst = append(dst, `,"control":{"kind":`...)
	return appendText(dst, kind)
}

// gap says what was lost, and why: "queue_full", or "sink_error" with the sink's name.
func (f *formatter) gap(dst []byte, l *loss, sink string, at time.Time) []byte {
	dst = f.control(dst, "gap", at)
	if sink == "" {
		dst = append(dst, `,"reason":"queue_full","lost":{`...)
	} else {
		dst = append(dst, `,"reason":"sink_error","sink":`...)
		dst = appendText(dst, sink)
		dst = append(dst, `,"first_seq":`...)
		dst = strconv.AppendUint(dst, l.firstSeq, 10)
		dst = append(dst, `,"last_seq":`...)
		dst = strconv.AppendUint(dst, l.lastSeq, 10)
		dst = append(dst, `,"lost":{`...)
	}
	comma := false
	for typ, n := range l.counts {
		if n == 0 {
			continue
		}
		if comma {
			dst = append(dst, ',')
		}
		comma = true
		dst = appendText(dst, eventNames[typ])
		dst = append(dst, ':')
		dst = strconv.AppendUint(dst, n, 10)
	}
	dst = append(dst, `},"from":`...)
	dst = f.stamp.append(dst, l.from)
	dst = append(dst, `,"to":`...)
	dst = f.stamp.append(dst, l.to)
	dst = append(dst, `,"groups":[`...)
	for i, g := range l.groups {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, g)
	}
	dst = append(dst, `],"groups_truncated":`...)
	dst = strconv.AppendBool(dst, l.moreGroups)
	return append(dst, "}}\n"...)
}

// coverage says that a connection, or the rest of one, was not read.
func (f *formatter) coverage(dst []byte, o *policy.Outcome, at time.Time) []byte {
	f.ids.next(at)
	dst = f.open(dst, auditControl, 0, 0)
	dst = append(dst, `,"time":{"event":`...)
	dst = f.stamp.append(dst, at)
	dst = append(dst, '}')
	dst = f.proxy(dst, o.Request.Conn)
	dst = f.actor(dst, &o.Request)
	dst = f.target(dst, &o.Request, nil)
	dst = append(dst, `,"control":{"kind":"coverage","reason":`...)
	dst = appendTextOrNull(dst, o.Note)
	if c := o.Request.Conn; c != nil {
		dst = append(dst, `,"connection":`...)
		dst = appendText(dst, c.ID)
	}
	return append(dst, "}}\n"...)
}
