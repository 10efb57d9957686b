package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

var example = filepath.Join("..", "..", "..", "..", "config.example.yaml")

// The example is the defaults, and explains every line.
func TestExample(t *testing.T) {
	c, r := Load(Sources{File: example})
	if len(r.Problems)+len(r.Warnings) > 0 {
		t.Fatal(lines(r.Problems), lines(r.Warnings))
	}
	if !reflect.DeepEqual(c, Defaults()) {
		t.Errorf("the example is %+v\nthe defaults %+v", c, Defaults())
	}
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(text), "\n") {
		section := strings.HasSuffix(line, ":")
		if line != "" && line[0] != '#' && !section && !strings.Contains(line, " # ") {
			t.Errorf("line %d says nothing about why: %s", i+1, line)
		}
	}
}

// The example leaves no setting out.
func TestExampleHasEveryKey(t *testing.T) {
	tree, err := parser.ParseFile(example, 0)
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]bool{}
	collectPaths(tree.Docs[0].Body, "", written)
	var missing []string
	for _, path := range allPaths(reflect.TypeFor[Config](), "") {
		if !written[path] {
			missing = append(missing, path)
		}
	}
	if len(missing) > 0 || len(written) < 30 {
		t.Errorf("missing %v of %d", missing, len(written))
	}
}

func collectPaths(n ast.Node, path string, to map[string]bool) {
	switch x := n.(type) {
	case *ast.MappingNode:
		for _, v := range x.Values {
			p := join(path, v.Key.GetToken().Value)
			to[p] = true
			collectPaths(v.Value, p, to)
		}
	case *ast.SequenceNode:
		for _, v := range x.Values {
			collectPaths(v, path, to)
		}
	}
}

// allPaths are the keys of a struct and of all it holds. The path of a sink depends on its type, and there is no policy by default: both are told of in words.
func allPaths(t reflect.Type, path string) []string {
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		p := join(path, f.Tag.Get("yaml"))
		if p == "audit.sinks.path" || strings.HasPrefix(p, "policies.") {
			continue
		}
		out = append(out, p)
		of := f.Type
		if of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() == reflect.Struct {
			out = slices.Concat(out, allPaths(of, p))
		}
	}
	return out
}
