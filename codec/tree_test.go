package codec

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"testing"
)

// treeTracer builds what decode prints, and checks that a Tracer is told of every byte once, in order.
type treeTracer struct {
	t     *testing.T
	root  map[string]any
	stack []any // *map or *[]any of what is open
	next  int   // the byte that the next field has to begin at
}

func newTreeTracer(t *testing.T) *treeTracer {
	tr := &treeTracer{t: t, root: map[string]any{}}
	tr.stack = []any{tr.root}
	return tr
}

func (tr *treeTracer) at(f Field) {
	if f.At != tr.next {
		tr.t.Fatalf("%q (%v) begins at byte %d, want %d", f.Name, f.Type, f.At, tr.next)
	}
	if f.Depth != len(tr.stack)-1 {
		tr.t.Fatalf("%q (%v) at depth %d, want %d", f.Name, f.Type, f.Depth, len(tr.stack)-1)
	}
	tr.next += f.Len
}

func (tr *treeTracer) Field(f Field) {
	tr.at(f)
	switch f.Type {
	case TagSection, TagHeader:
	case TaggedField:
		top := tr.stack[len(tr.stack)-1].(map[string]any)
		tags, ok := top["_tags"].(map[string]any)
		if !ok {
			tags = map[string]any{}
			top["_tags"] = tags
		}
		tags[strconv.FormatInt(f.Tag, 10)] = hex.EncodeToString(f.Value.([]byte))
	default:
		tr.put(f, plain(f))
	}
}

// plain is a value as vectors.json has it.
func plain(f Field) any {
	switch v := f.Value.(type) {
	case UUID:
		return v.Text36()
	case []byte:
		switch {
		case f.Type == CompactInt8Array:
			list := []any{}
			for _, b := range v {
				list = append(list, json.Number(fmt.Sprint(int8(b))))
			}
			return list
		case v == nil:
			return nil
		case f.Type == CompactNullableBytes:
			return hex.EncodeToString(v)
		}
		return string(v)
	case int64:
		return json.Number(fmt.Sprint(v))
	}
	return f.Value
}

func (tr *treeTracer) Open(f Field) {
	tr.at(f)
	var v any = map[string]any{}
	if f.Type == CompactArray {
		v = &[]any{}
	}
	tr.put(f, v)
	tr.stack = append(tr.stack, v)
}

func (tr *treeTracer) put(f Field, v any) {
	switch top := tr.stack[len(tr.stack)-1].(type) {
	case map[string]any:
		if f.Name == "" || f.Index != -1 {
			tr.t.Fatalf("a field of a struct without a name, or with index %d: %+v", f.Index, f)
		}
		top[f.Name] = v
	case *[]any:
		if f.Name != "" || f.Index != len(*top) {
			tr.t.Fatalf("element %d of an array came as %q, index %d", len(*top), f.Name, f.Index)
		}
		*top = append(*top, v)
	}
}

func (tr *treeTracer) Close(end int) {
	if end < tr.next {
		tr.t.Fatalf("closed at byte %d, after byte %d", end, tr.next)
	}
	tr.stack = tr.stack[:len(tr.stack)-1]
}

// done checks the end: n bytes were told of and nothing is open.
func (tr *treeTracer) done(n int) {
	if len(tr.stack) != 1 {
		tr.t.Fatalf("%d levels were not closed", len(tr.stack)-1)
	}
	if tr.next != n {
		tr.t.Fatalf("told of %d bytes, want %d", tr.next, n)
	}
}

// section is "header" or "fields" as decoded JSON has it.
func (tr *treeTracer) section(name string) any { return flat(tr.root[name]) }

func flat(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			out[k] = flat(e)
		}
		return out
	case *[]any:
		return flat(*v)
	case []any:
		out := []any{}
		for _, e := range v {
			out = append(out, flat(e))
		}
		return out
	}
	return v
}

func wantEqual(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}
