package config

import (
	"encoding"
	"reflect"
	"strconv"

	"github.com/goccy/go-yaml/ast"
)

// scalar sets a single value. A type that parses text checks the text as it stands in the file, whatever YAML takes it for; but a
// setting that is a number wants a number, and plain text wants text.
func (r *fileReader) scalar(n ast.Node, v reflect.Value, path string) {
	text, ok := scalarText(n)
	_, null := n.(*ast.NullNode)
	switch {
	case null:
		r.add(n, path, "has no value", "write one, or remove the key")
		return
	case !ok:
		r.add(n, path, "is "+kindOf(n)+" where a single value is expected", "write one value")
		return
	}
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		if _, err := strconv.Atoi(text); err == nil && wantsNumber(v.Type()) {
			r.add(n, path, "is text in quotes where a number is expected", "write "+text+" without quotes")
			return
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		if v.Type() == reflect.TypeFor[string]() {
			r.add(n, path, "is "+kindOf(n)+" where text is expected", "write it in quotes: "+strconv.Quote(text))
			return
		}
	}
	if err := setText(v, text); err != nil {
		problem, hint := explain(err)
		r.add(n, path, problem, hint)
	}
}

// setText sets a scalar field from text.
func setText(v reflect.Value, text string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	v.SetString(text)
	return nil
}

func wantsNumber(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[Port](), reflect.TypeFor[Count](), reflect.TypeFor[APIKey]():
		return true
	}
	return false
}

// scalarText is the text of a scalar node, without quotes.
func scalarText(n ast.Node) (string, bool) {
	switch x := n.(type) {
	case *ast.StringNode:
		return x.Value, true
	case *ast.LiteralNode:
		return x.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	case *ast.MappingNode:
		return unsplit(x)
	}
	return "", false
}

// unsplit mends what the library makes of [kafka:9092] inside braces: a mapping of kafka to 9092. To YAML, and to everyone who writes
// it, a colon without a space after it is text.
func unsplit(m *ast.MappingNode) (string, bool) {
	if m.IsFlowStyle || len(m.Values) != 1 {
		return "", false
	}
	pair := m.Values[0]
	value := pair.Value.GetToken()
	text, ok := scalarText(pair.Value)
	if !ok || value.Position.Offset != pair.Start.Position.Offset+1 {
		return "", false
	}
	return pair.Key.GetToken().Value + ":" + text, true
}

// kindOf names what a node is, for a message.
func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.NullNode:
		return "empty"
	case *ast.BoolNode:
		return "true or false"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	}
	return "something else"
}
