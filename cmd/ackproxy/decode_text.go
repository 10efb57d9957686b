package main

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy/audit"
)

// textPrinter prints one object as a tree: position, length, name, wire type, value, meaning.
type textPrinter struct {
	out      *bufio.Writer
	object   *object
	payloads bool
	marked   bool // the problem's line is printed
}

func (t textPrinter) print(number int) {
	o := t.object
	api := ""
	if o.Known {
		api = " " + cmp.Or(o.API, "of an unknown API") + fmt.Sprintf(" v%d (key %d)", o.APIVersion, o.APIKey)
	}
	if number > 1 {
		fmt.Fprintln(t.out)
	}
	fmt.Fprintf(t.out, "#%d %s%s, %d bytes at %d: %s\n", number, o.Kind, api, o.Bytes, o.Offset, o.Outcome)
	if o.Connection != "" {
		fmt.Fprintf(t.out, "   %s %s\n", stamp(o.Time), o.Connection)
	}
	if o.tree != nil {
		for _, n := range o.tree.parts {
			t.node(n, nil, 0)
		}
	}
	switch hidden := o.Bytes - max(o.Body, 4); {
	case o.Note != "":
		fmt.Fprintf(t.out, "   %s\n", o.Note)
	case o.Outcome != codec.Opaque || hidden <= 0:
	case o.APIKey == codec.KeySASLHandshake, o.APIKey == codec.KeySASLAuthenticate:
		fmt.Fprintf(t.out, "   0x%04x %5s body, never shown: SASL\n", o.Body, length(hidden))
	default:
		fmt.Fprintf(t.out, "   0x%04x %5s body, not ours to decode\n", o.Body, length(hidden))
	}
	if n := len(o.Trailing); n > 0 {
		shown := hex.EncodeToString(o.Trailing[:min(n, 32)])
		if n > 32 {
			shown += "…"
		}
		fmt.Fprintf(t.out, "   0x%04x %5s trailing = %s, which a broker ignores\n", o.Bytes-n, length(n), shown)
	}
	if o.Problem != nil && !t.marked {
		t.mark()
	}
}

func length(n int) string { return strconv.Itoa(n) + "B" }

// node prints a field and its parts, and behind it the problem if it was found there.
func (t *textPrinter) node(n, parent *node, depth int) {
	if n.Type == codec.Struct && len(n.parts) == 0 {
		return
	}
	size := ""
	if n.Len > 0 {
		size = length(n.Len)
	}
	line := fmt.Sprintf("   0x%04x %5s %s%s", n.At, size, strings.Repeat("  ", depth), t.title(n, parent))
	if v := t.value(n); v != "" {
		line += " = " + v
	}
	if m := meaning(n, parent, t.object); m != "" {
		line += "  " + m
	}
	fmt.Fprintln(t.out, line)
	for _, p := range n.parts {
		t.node(p, n, depth+1)
	}
	if p := t.object.Problem; p != nil && !t.marked && len(n.parts) == 0 && n.Len > 0 && p.At < n.At+n.Len && t.object.Outcome == codec.Tolerated {
		t.mark()
	}
}

// title is a field's name and type. An element has the name of its array, and its place in it.
func (t *textPrinter) title(n, parent *node) string {
	name := n.Name
	if name == "" && parent != nil {
		name = fmt.Sprintf("%s[%d]", parent.Name, n.Index)
	}
	switch n.Type {
	case codec.Struct:
		switch {
		case n.Depth > 0:
			return name
		case n.Name != "header":
			return "body"
		case t.object.Header.Version < 0:
			return t.object.Kind.String() + " header, version not known"
		}
		return fmt.Sprintf("%s header v%d", t.object.Kind, t.object.Header.Version)
	case codec.CompactInt8Array:
		return name + " []int8"
	case codec.CompactArray:
		return name + " []"
	case codec.TaggedField:
		return name + " tag " + strconv.FormatInt(n.Tag, 10)
	}
	return name + " " + n.Type.String()
}

// mark prints where decoding stopped, or what a broker tolerates.
func (t *textPrinter) mark() {
	o := t.object
	what := "STOPS HERE"
	if o.Outcome == codec.Tolerated {
		what = "TOLERATED"
	}
	line := fmt.Sprintf(">> 0x%04x  %s at byte %d: %s", o.Problem.At, what, o.Problem.At, o.Problem.Reason)
	if o.Problem.Field != "" {
		line += " (" + o.Problem.Field + ")"
	}
	fmt.Fprintln(t.out, line)
	t.marked = true
}

func (t *textPrinter) value(n *node) string {
	switch v := n.Value.(type) {
	case bool:
		return strconv.FormatBool(v)
	case codec.UUID:
		return v.Text36()
	case []byte:
		return t.bytes(n, v)
	case int64:
		switch n.Type {
		case codec.CompactArray:
			return plural(v, "element")
		case codec.TagSection:
			return plural(v, "field")
		case codec.TagHeader:
			return "tag " + strconv.FormatInt(v, 10)
		}
		return strconv.FormatInt(v, 10)
	}
	return ""
}

func plural(n int64, what string) string {
	switch n {
	case 0:
		return "no " + what + "s"
	case 1:
		return "1 " + what
	}
	return strconv.FormatInt(n, 10) + " " + what + "s"
}

// shownTypes is how many acknowledgement types of one batch the text shows.
const shownTypes = 40

func (t *textPrinter) bytes(n *node, v []byte) string {
	switch {
	case n.Type == codec.CompactInt8Array:
		parts := make([]string, 0, min(len(v), shownTypes))
		for i, b := range v {
			if i == shownTypes {
				parts = append(parts, "…")
				break
			}
			parts = append(parts, fmt.Sprintf("%d %s", int8(b), audit.TypeName(int8(b))))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case v == nil:
		return "null"
	case n.Type == codec.TaggedField, n.Type == codec.CompactNullableBytes && t.payloads:
		return hex.EncodeToString(v)
	case n.Type == codec.CompactNullableBytes:
		return plural(int64(len(v)), "byte")
	}
	return strconv.Quote(string(v))
}
