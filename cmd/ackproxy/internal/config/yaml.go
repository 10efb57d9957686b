package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// fileReader walks a file's tree and sets the fields of a Config from it. It goes on after a mistake, so that one run shows them all.
type fileReader struct {
	file     string
	problems []Problem
	origins  map[string]origin
	anchors  map[string]ast.Node
	open     map[string]bool // aliases being followed
	left     int             // values that a Raw may still have
}

// readFile sets what the file says in c and notes where each setting came from.
func readFile(file string, c *Config, origins map[string]origin) []Problem {
	text, err := os.ReadFile(file)
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return []Problem{{File: file, Problem: "the file cannot be read: " + err.Error(), Hint: "give an existing file with -c, or none"}}
	}
	r := &fileReader{file: file, origins: origins, anchors: map[string]ast.Node{}, open: map[string]bool{}}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // the byte order mark that some editors write
	tree, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(err)
		return r.problems
	}
	r.document(tree, c)
	return r.problems
}

func (r *fileReader) syntax(err error) {
	p := Problem{File: r.file, Line: 1, Column: 1, Key: "YAML", Problem: err.Error()}
	var ye yaml.Error
	if errors.As(err, &ye) {
		p.Problem = "not valid YAML: " + strings.ReplaceAll(ye.GetMessage(), "'\t'", "tab")
		if t := ye.GetToken(); t != nil && t.Position != nil {
			p.Line, p.Column = t.Position.Line, t.Position.Column
		}
	}
	r.problems = append(r.problems, p)
}

func (r *fileReader) document(tree *ast.File, c *Config) {
	seen := false
	for _, doc := range tree.Docs {
		if doc.Body == nil {
			continue
		}
		if _, comment := doc.Body.(*ast.CommentGroupNode); comment {
			continue
		}
		if seen {
			r.add(doc.Body, "YAML", "a second document in the file", "keep one document, without ---")
			return
		}
		seen = true
		ast.Walk(anchorCollector(r.anchors), doc.Body)
		r.value(doc.Body, reflect.ValueOf(c).Elem(), "")
	}
}

// anchorCollector notes every anchor of a tree by its name.
type anchorCollector map[string]ast.Node

// Visit implements ast.Visitor.
func (a anchorCollector) Visit(n ast.Node) ast.Visitor {
	if anchor, ok := n.(*ast.AnchorNode); ok {
		a[anchor.Name.GetToken().Value] = anchor.Value
	}
	return a
}

func (r *fileReader) add(n ast.Node, path, problem, hint string) {
	p := r.at(n)
	r.problems = append(r.problems, p.problem(path, problem, hint))
}

// at is where a node stands in the file.
func (r *fileReader) at(n ast.Node) origin {
	o := origin{file: r.file, line: 1, column: 1}
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0].Key // the tree gives the first colon
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		n = m.Key
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		o.line, o.column = t.Position.Line, t.Position.Column
	}
	return o
}

// plain takes anchors, tags and aliases off a node. A nil node was reported.
func (r *fileReader) plain(n ast.Node, path string) ast.Node {
	for {
		switch x := n.(type) {
		case *ast.AnchorNode:
			n = x.Value
		case *ast.TagNode:
			r.add(x, path, "tags have no meaning here", "write the value without "+x.GetToken().Value)
			return nil
		case *ast.AliasNode:
			name := x.Value.GetToken().Value
			target, ok := r.anchors[name]
			if !ok {
				r.add(x, path, "there is no anchor "+name, "write the value itself")
				return nil
			}
			if r.open[name] {
				r.add(x, path, "the alias "+name+" holds itself", "write the value itself")
				return nil
			}
			n = target
		default:
			return n
		}
	}
}

// value sets v from node n. path names the setting.
func (r *fileReader) value(n ast.Node, v reflect.Value, path string) {
	if alias, ok := n.(*ast.AliasNode); ok {
		name := alias.Value.GetToken().Value
		if !r.open[name] {
			r.open[name] = true
			defer delete(r.open, name)
			if target, ok := r.anchors[name]; ok {
				r.value(target, v, path)
				return
			}
		}
	}
	n = r.plain(n, path)
	if n == nil {
		return
	}
	r.origins[path] = r.at(n)
	switch {
	case v.Type() == reflect.TypeFor[Raw]():
		r.raw(n, v, path)
	case v.Kind() == reflect.Struct:
		r.section(n, v, path)
	case v.Kind() == reflect.Slice:
		r.list(n, v, path)
	case v.Kind() == reflect.Map:
		r.nodes(n, v, path)
	default:
		r.scalar(n, v, path)
	}
}

// entries lists the pairs of a mapping. Nothing written under a key (null) is an empty mapping.
func (r *fileReader) entries(n ast.Node, path, hint string) ([]*ast.MappingValueNode, bool) {
	switch x := n.(type) {
	case *ast.NullNode:
		return nil, true
	case *ast.MappingNode:
		return x.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{x}, true
	}
	r.add(n, pathOr(path), "is "+kindOf(n)+" where keys are expected", hint)
	return nil, false
}

func (r *fileReader) section(n ast.Node, v reflect.Value, path string) {
	names := fieldNames(v.Type())
	pairs, ok := r.entries(n, path, "write "+strings.Join(names, ", ")+" below it")
	if !ok {
		return
	}
	first := map[string]origin{}
	for _, pair := range pairs {
		name := pair.Key.GetToken().Value
		full := join(path, name)
		if r.duplicate(first, pair.Key, name, full) {
			continue
		}
		f, ok := fieldNamed(v, name)
		if _, merge := pair.Key.(*ast.MergeKeyNode); merge {
			r.add(pair.Key, full, "merging mappings has no meaning here", "write the keys themselves")
		} else if !ok {
			r.add(pair.Key, full, "unknown key", nearest(path, name, names))
		} else if _, empty := pair.Value.(*ast.NullNode); empty && f.Kind() != reflect.Struct && full != "policies" {
			r.add(pair.Key, full, "has no value", "write one, or remove the key")
		} else {
			r.value(pair.Value, f, full)
		}
	}
}

func (r *fileReader) duplicate(first map[string]origin, key ast.Node, name, full string) bool {
	if o, twice := first[name]; twice {
		r.add(key, full, "the key is written twice", fmt.Sprintf("keep one, the first is in line %d", o.line))
		return true
	}
	first[name] = r.at(key)
	return false
}

func (r *fileReader) elements(n ast.Node, path, hint string) ([]ast.Node, bool) {
	if s, ok := n.(*ast.SequenceNode); ok {
		return s.Values, true
	}
	r.add(n, path, "is "+kindOf(n)+" where a list is expected", hint)
	return nil, false
}

func (r *fileReader) list(n ast.Node, v reflect.Value, path string) {
	if _, null := n.(*ast.NullNode); null {
		return
	}
	items, ok := r.elements(n, path, "write [a, b], or one - a line")
	if !ok {
		return
	}
	out := reflect.MakeSlice(v.Type(), 0, len(items))
	for i, item := range items {
		e := reflect.New(v.Type().Elem()).Elem()
		before := len(r.problems)
		r.value(item, e, fmt.Sprintf("%s[%d]", path, i))
		if len(r.problems) == before || e.Kind() == reflect.Struct { // those are told of by their place
			out = reflect.Append(out, e)
		}
	}
	v.Set(out)
}

// nodes reads a mapping of broker ids to addresses.
func (r *fileReader) nodes(n ast.Node, v reflect.Value, path string) {
	pairs, ok := r.entries(n, path, "write {1: kafka-1:9092}")
	if !ok {
		return
	}
	out := reflect.MakeMap(v.Type())
	first := map[string]origin{}
	for _, pair := range pairs {
		name := pair.Key.GetToken().Value
		full := join(path, name)
		id, err := integer([]byte(name), "the node id", 0, 1<<31-1)
		if err != nil {
			problem, hint := explain(err)
			r.add(pair.Key, full, problem, hint)
			continue
		}
		if r.duplicate(first, pair.Key, strconv.Itoa(id), full) { // 01 is 1
			continue
		}
		e := reflect.New(v.Type().Elem()).Elem()
		r.value(pair.Value, e, full)
		out.SetMapIndex(reflect.ValueOf(int32(id)), e)
	}
	v.Set(out)
}
