package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Setting is one scalar setting, or list of scalars, that a variable or a flag can set.
type Setting struct {
	Path    string // "listen.broker_ports.base"
	Env     string // "ACKPROXY_LISTEN_BROKER_PORTS_BASE"
	Default string
}

// Prefix is what every environment variable of a setting begins with.
const Prefix = "ACKPROXY_"

// Settings lists what the environment can set, in the order of the file.
func Settings() []Setting {
	d := Defaults()
	var out []Setting
	walkSettings(reflect.ValueOf(d), "", func(path string, v reflect.Value) {
		out = append(out, Setting{Path: path, Env: envName(path), Default: defaultText(v)})
	})
	return out
}

// walkSettings calls f for every leaf that one variable can hold.
func walkSettings(v reflect.Value, path string, f func(string, reflect.Value)) {
	for i := range v.NumField() {
		t := v.Type().Field(i)
		if t.Tag.Get("env") == "-" {
			continue
		}
		full := join(path, t.Tag.Get("yaml"))
		if t.Type.Kind() == reflect.Struct {
			walkSettings(v.Field(i), full, f)
		} else {
			f(full, v.Field(i))
		}
	}
}

func defaultText(v reflect.Value) string {
	if v.Kind() == reflect.Slice {
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = fmt.Sprint(v.Index(i).Interface())
		}
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(v.Interface())
}

func envName(path string) string {
	return Prefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func pathOr(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

func fieldNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		names = append(names, t.Field(i).Tag.Get("yaml"))
	}
	return names
}

func fieldNamed(v reflect.Value, name string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("yaml") == name {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// nearest is the hint for an unknown key of a section: the key of that section that looks most like it, or the setting of that name
// elsewhere in the tree.
func nearest(path, name string, names []string) string {
	best, far := closest(name, names)
	if far <= max(2, len(name)/3) {
		return "the nearest known key is " + join(path, best)
	}
	for _, s := range Settings() {
		if s.Path == name || strings.HasSuffix(s.Path, "."+name) {
			return "the nearest known key is " + s.Path
		}
	}
	return "the nearest known key is " + join(path, best) + ", the keys here are " + strings.Join(names, ", ")
}

// closest returns the candidate with the fewest edits to name, and how many.
func closest(name string, candidates []string) (string, int) {
	best, far := "", 1<<30
	for _, c := range candidates {
		if d := distance(strings.ToLower(name), strings.ToLower(c)); d < far {
			best, far = c, d
		}
	}
	return best, far
}

// distance is the number of single-character edits from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
