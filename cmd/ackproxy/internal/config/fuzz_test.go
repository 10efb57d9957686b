package config

import (
	"os"
	"path/filepath"
	"testing"
)

// Whatever a file holds is either taken or reported with a position.
func FuzzLoad(f *testing.F) {
	for _, s := range []string{"listen: {mode: ports}\n", "upstream: {bootstrap: [a:1], nodes: {1: &a b:2, 2: *a}}\n", "audit:\n  sinks:\n  - type: file\n    path: |\n      x\n",
		"a: &a [*a]\n", "<<: *x\n", "? [a]\n: b\n", "!!map {listen: !x 1}\n", "%YAML 1.2\n---\nlog:\n", "log: {level: \n", "- 1\n", "\"", "state: {dir: >\n  x}",
		"policies: [{name: a, builtin: audit, config: {sinks: [{type: file, path: &p x}, *p], 1: .inf, ? [a] : |\n  b\n}}]\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		_, r := Load(Sources{File: file, Builtins: builtins})
		for _, p := range r.Problems {
			if p.File == file && (p.Line < 1 || p.Problem == "") || p.File == "" {
				t.Errorf("%q: %+v", text, p)
			}
		}
	})
}
