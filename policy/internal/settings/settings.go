// Package settings reads the configuration of a policy, JSON, and says all that is wrong with it by key: what is misspelt must not be
// silently without effect.
package settings

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/internal/pattern"
)

// Mistakes are those found so far.
type Mistakes []error

// Add notes what is wrong with a key. The hint may be empty.
func (m *Mistakes) Add(key, problem, hint string) {
	*m = append(*m, &policy.ConfigError{Key: key, Problem: problem, Hint: hint})
}

// Has says whether something is wrong with a key, or with what is below it.
func (m Mistakes) Has(key string) bool {
	for _, err := range m {
		at, ok := strings.CutPrefix(err.(*policy.ConfigError).Key, key)
		if ok && (at == "" || at[0] == '.' || at[0] == '[') {
			return true
		}
	}
	return false
}

// Possible notes a pattern that fits none of what there can be, which other patterns stand for.
func (m *Mistakes) Possible(key string, p pattern.Pattern, problem, hint string, all ...pattern.Pattern) {
	if !m.Has(key) && !slices.ContainsFunc(all, p.Meets) {
		m.Add(key, fmt.Sprintf("%q fits %s", p, problem), hint)
	}
}

// Principal notes a pattern that fits no principal.
func (m *Mistakes) Principal(key string, p pattern.Pattern) {
	m.Possible(key, p, "no principal: they are called User:name, and nothing without SASL", "write User:alice, or User:*", "User:*", "")
}

// Err joins them; nil where there is none.
func (m Mistakes) Err() error { return errors.Join(m...) }

// Read sets *to, a struct with json tags, from config. Empty is like {}. Fields may be structs, slices, maps with text as keys, pointers,
// strings, numbers (int), booleans, and whatever unmarshals text. A text may stand for a list of one. Keys are matched exactly. What is wrong is left as it was.
func Read(config []byte, to any) (m Mistakes) {
	if len(bytes.TrimSpace(config)) == 0 {
		return nil
	}
	var tree any
	d := json.NewDecoder(bytes.NewReader(config))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		m.Add("", "is not JSON: "+err.Error(), "")
		return m
	}
	if tree != nil {
		m.value(tree, reflect.ValueOf(to).Elem(), "")
	}
	return m
}

func (m *Mistakes) value(in any, v reflect.Value, key string) {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		m.text(in, u, key)
		return
	}
	switch x := in.(type) {
	case map[string]any:
		switch v.Kind() {
		case reflect.Struct:
			m.section(x, v, key)
			return
		case reflect.Map:
			m.entries(x, v, key)
			return
		}
	case []any:
		if v.Kind() == reflect.Slice {
			m.list(x, v, key)
			return
		}
	case string:
		if v.Kind() == reflect.String {
			v.SetString(x)
			return
		}
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.String {
			one := reflect.MakeSlice(v.Type(), 1, 1)
			one.Index(0).SetString(x)
			v.Set(one)
			return
		}
	case bool:
		if v.Kind() == reflect.Bool {
			v.SetBool(x)
			return
		}
	case json.Number:
		if n, err := x.Int64(); err == nil && v.CanInt() && !v.OverflowInt(n) {
			v.SetInt(n)
			return
		}
	}
	if v.Kind() == reflect.Pointer {
		p := reflect.New(v.Type().Elem())
		before := len(*m)
		if m.value(in, p.Elem(), key); len(*m) == before {
			v.Set(p)
		}
		return
	}
	m.Add(key, "is "+kind(in)+" where "+wanted(v.Kind())+" is expected", "")
}

func (m *Mistakes) text(in any, u encoding.TextUnmarshaler, key string) {
	var text string
	switch x := in.(type) {
	case string:
		text = x
	case json.Number:
		text = x.String()
	default:
		m.Add(key, "is "+kind(in)+" where text is expected", "")
		return
	}
	err := u.UnmarshalText([]byte(text))
	var mistake *policy.ConfigError
	switch {
	case errors.As(err, &mistake):
		m.Add(key, mistake.Problem, mistake.Hint)
	case err != nil:
		m.Add(key, err.Error(), "")
	}
}

func (m *Mistakes) section(in map[string]any, v reflect.Value, key string) {
	fields := map[string]reflect.Value{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			fields[name] = v.Field(i)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		f, ok := fields[name]
		if !ok {
			m.Add(Join(key, name), "unknown key", "the keys here are "+strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
			continue
		}
		m.value(in[name], f, Join(key, name))
	}
}

func (m *Mistakes) entries(in map[string]any, v reflect.Value, key string) {
	out := reflect.MakeMap(v.Type())
	for _, name := range slices.Sorted(maps.Keys(in)) {
		k := reflect.New(v.Type().Key()).Elem()
		e := reflect.New(v.Type().Elem()).Elem()
		before := len(*m)
		if k.Kind() == reflect.String {
			k.SetString(name)
		} else {
			m.value(json.Number(name), k, Join(key, name)) // which is not, where it does not parse
		}
		if m.value(in[name], e, Join(key, name)); len(*m) == before {
			out.SetMapIndex(k, e)
		}
	}
	v.Set(out)
}

func (m *Mistakes) list(in []any, v reflect.Value, key string) {
	out := reflect.MakeSlice(v.Type(), len(in), len(in))
	for i, e := range in {
		m.value(e, out.Index(i), fmt.Sprintf("%s[%d]", key, i))
	}
	v.Set(out)
}

// Join is the path of a key below another.
func Join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

func kind(in any) string {
	switch in.(type) {
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	case string:
		return "text"
	case bool:
		return "true or false"
	case nil:
		return "empty"
	}
	return "a number"
}

func wanted(k reflect.Kind) string {
	names := map[reflect.Kind]string{
		reflect.Struct: "a mapping", reflect.Map: "a mapping", reflect.Slice: "a list", reflect.String: "text", reflect.Bool: "true or false",
	}
	return cmp.Or(names[k], "a whole number")
}
