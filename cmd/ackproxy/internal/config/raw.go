package config

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/goccy/go-yaml/ast"
)

// Raw is JSON that belongs to someone else.
type Raw json.RawMessage

// maxTree is how many values a Raw may have: aliases of aliases are many soon.
const maxTree = 100_000

// raw keeps a part of the file as JSON, for a reader that knows what it means, and notes where each of its values stands.
func (r *fileReader) raw(n ast.Node, v reflect.Value, path string) {
	before := len(r.problems)
	r.left = maxTree
	value := r.tree(n, path)
	if len(r.problems) > before {
		return
	}
	text, err := json.Marshal(value)
	if err != nil {
		r.add(n, path, "does not read as JSON: "+err.Error(), "write mappings, lists and single values, with text as keys")
		return
	}
	v.SetBytes(text)
}

// tree is a node as encoding/json has it.
func (r *fileReader) tree(n ast.Node, path string) any {
	if r.left--; r.left < 0 {
		if r.left == -1 {
			r.add(n, path, fmt.Sprintf("there are more than %d values", maxTree), "write fewer")
		}
		return nil
	}
	if alias, ok := n.(*ast.AliasNode); ok {
		name := alias.Value.GetToken().Value
		if target, ok := r.anchors[name]; ok && !r.open[name] {
			r.open[name] = true
			defer delete(r.open, name)
			return r.tree(target, path)
		}
	}
	if n = r.plain(n, path); n == nil {
		return nil
	}
	r.origins[path] = r.at(n)
	switch x := n.(type) {
	case *ast.MappingNode:
		if text, ok := unsplit(x); ok {
			return text
		}
		return r.mapping(x.Values, path)
	case *ast.MappingValueNode:
		return r.mapping([]*ast.MappingValueNode{x}, path)
	case *ast.SequenceNode:
		list := make([]any, len(x.Values))
		for i, item := range x.Values {
			list[i] = r.tree(item, fmt.Sprintf("%s[%d]", path, i))
		}
		return list
	case *ast.IntegerNode:
		return x.Value
	case *ast.FloatNode:
		return x.Value
	case *ast.BoolNode:
		return x.Value
	case *ast.NullNode:
		return nil
	}
	text, ok := scalarText(n)
	if !ok {
		r.add(n, path, "is "+kindOf(n)+" where a value is expected", "write mappings, lists and single values")
	}
	return text
}

func (r *fileReader) mapping(pairs []*ast.MappingValueNode, path string) map[string]any {
	out, first := map[string]any{}, map[string]origin{}
	for _, pair := range pairs {
		name := pair.Key.GetToken().Value
		full := join(path, name)
		if _, merge := pair.Key.(*ast.MergeKeyNode); merge {
			r.add(pair.Key, full, "merging mappings has no meaning here", "write the keys themselves")
		} else if !r.duplicate(first, pair.Key, name, full) {
			out[name] = r.tree(pair.Value, full)
			r.origins[full] = r.at(pair.Key) // its reader may mean either, the key or the value
		}
	}
	return out
}
