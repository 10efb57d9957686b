package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/ackproxy/ackproxy/codec"
)

// node is one field of a frame with its parts.
type node struct {
	codec.Field
	end   int // byte after the last part
	parts []*node
}

// part is the part of that name, or nil.
func (n *node) part(name string) *node {
	if n == nil {
		return nil
	}
	for _, p := range n.parts {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// number is the value of the integer part of that name.
func (n *node) number(name string) (int64, bool) {
	if p := n.part(name); p != nil {
		v, ok := p.Value.(int64)
		return v, ok
	}
	return 0, false
}

// treeBuilder keeps what it is told of. It implements codec.Tracer.
type treeBuilder struct {
	root  node
	stack []*node
}

func (t *treeBuilder) top() *node {
	if len(t.stack) == 0 {
		return &t.root
	}
	return t.stack[len(t.stack)-1]
}

func (t *treeBuilder) add(f codec.Field) *node {
	n := &node{Field: f, end: f.At + f.Len}
	top := t.top()
	top.parts = append(top.parts, n)
	return n
}

// Field implements codec.Tracer.
func (t *treeBuilder) Field(f codec.Field) { t.add(f) }

// Open implements codec.Tracer.
func (t *treeBuilder) Open(f codec.Field) { t.stack = append(t.stack, t.add(f)) }

// Close implements codec.Tracer.
func (t *treeBuilder) Close(end int) {
	t.top().end = end
	t.stack = t.stack[:len(t.stack)-1]
}

// json is the object on one line.
func (o *object) json(payloads bool) []byte {
	var w jsonWriter
	w.payloads = payloads
	w.str(`{"offset":`, strconv.FormatInt(o.Offset, 10), `,"frame_bytes":`, strconv.Itoa(o.Bytes), `,"kind":`)
	w.quote(o.Kind.String())
	if o.Known {
		w.str(`,"api":`)
		if o.API == "" {
			w.str("null")
		} else {
			w.quote(o.API)
		}
		w.str(`,"api_key":`, strconv.Itoa(int(o.APIKey)), `,"api_version":`, strconv.Itoa(int(o.APIVersion)))
	} else {
		w.str(`,"api":null,"api_key":null,"api_version":null`)
	}
	for _, name := range []string{"header", "fields"} {
		w.str(`,"`, name, `":`)
		if n := o.tree.part(name); n == nil || len(n.parts) == 0 {
			w.str("null")
		} else {
			w.value(n)
		}
	}
	w.str(`,"decode":`)
	w.quote(o.Outcome.String())
	w.problem(o.Problem)
	if len(o.Trailing) > 0 {
		w.str(`,"trailing":"`, hex.EncodeToString(o.Trailing), `"`)
	}
	for _, m := range [][2]string{{"note", o.Note}, {"connection", o.Connection}, {"time", stamp(o.Time)}} {
		if m[1] != "" {
			w.str(`,"`, m[0], `":`)
			w.quote(m[1])
		}
	}
	w.str("}\n")
	return w.Bytes()
}

// jsonWriter writes JSON whose members keep their order.
type jsonWriter struct {
	bytes.Buffer
	payloads bool
}

func (w *jsonWriter) str(parts ...string) {
	for _, p := range parts {
		w.WriteString(p)
	}
}

func (w *jsonWriter) quote(s string) {
	e := json.NewEncoder(&w.Buffer)
	e.SetEscapeHTML(false)
	if e.Encode(s) == nil {
		w.Truncate(w.Len() - 1) // the line end
	}
}

func (w *jsonWriter) problem(p *codec.Problem) {
	if p == nil {
		w.str(`,"error":null`)
		return
	}
	w.str(`,"error":{"reason":`)
	w.quote(p.Reason)
	w.str(`,"at":`, strconv.Itoa(p.At), `,"field":`)
	w.quote(p.Field)
	w.str("}")
}

// value writes a field as the message schemas show it.
func (w *jsonWriter) value(n *node) {
	switch v := n.Value.(type) {
	case bool:
		w.str(strconv.FormatBool(v))
	case codec.UUID:
		w.quote(v.Text36())
	case []byte:
		w.bytes(n, v)
	case int64:
		if n.Type == codec.CompactArray {
			w.elements(n)
		} else {
			w.str(strconv.FormatInt(v, 10))
		}
	default:
		w.members(n)
	}
}

func (w *jsonWriter) bytes(n *node, v []byte) {
	switch {
	case n.Type == codec.CompactInt8Array:
		w.str("[")
		for i, b := range v {
			if i > 0 {
				w.str(",")
			}
			w.str(strconv.Itoa(int(int8(b))))
		}
		w.str("]")
	case v == nil:
		w.str("null")
	case n.Type == codec.TaggedField, n.Type == codec.CompactNullableBytes && w.payloads:
		w.str(`"`, hex.EncodeToString(v), `"`)
	case n.Type == codec.CompactNullableBytes:
		w.str(`{"bytes":`, strconv.Itoa(len(v)), `}`)
	default:
		w.quote(string(v))
	}
}

func (w *jsonWriter) elements(n *node) {
	w.str("[")
	for i, p := range n.parts {
		if i > 0 {
			w.str(",")
		}
		w.value(p)
	}
	w.str("]")
}

// members writes a struct. Of a tag that is there twice the last counts, as for a broker.
func (w *jsonWriter) members(n *node) {
	w.str("{")
	comma := ""
	tags := map[int64]*node{}
	var order []int64
	for _, p := range n.parts {
		switch p.Type {
		case codec.TagSection, codec.TagHeader:
			continue
		case codec.TaggedField:
			if tags[p.Tag] == nil {
				order = append(order, p.Tag)
			}
			tags[p.Tag] = p
			continue
		}
		w.str(comma, `"`, p.Name, `":`)
		w.value(p)
		comma = ","
	}
	if len(order) > 0 {
		w.str(comma, `"_tags":{`)
		for i, tag := range order {
			if i > 0 {
				w.str(",")
			}
			w.str(`"`, strconv.FormatInt(tag, 10), `":`)
			w.value(tags[tag])
		}
		w.str("}")
	}
	w.str("}")
}
