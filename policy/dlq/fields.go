package dlq

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ackproxy/ackproxy/policy"
)

// reader reads a configuration field by field, so that all its mistakes are found in one go.
type reader struct{ mistakes []error }

// field reads the value of a key, whose path is given.
type field func(path string, raw json.RawMessage)

func (r *reader) add(path, problem, hint string) {
	r.mistakes = append(r.mistakes, &policy.ConfigError{Key: path, Problem: problem, Hint: hint})
}

// object reads the keys of a JSON object. Keys that are not there leave what they would set alone; so does null.
func (r *reader) object(path string, raw json.RawMessage, fields map[string]field) {
	var values map[string]json.RawMessage
	if !r.decode(path, raw, &values, "an object") {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		read, known := fields[key]
		if !known {
			r.add(join(path, key), "there is no such key", "known are "+strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
			continue
		}
		if !bytes.Equal(values[key], []byte("null")) {
			read(join(path, key), values[key])
		}
	}
}

// list reads the elements of a JSON array.
func (r *reader) list(path string, raw json.RawMessage, element field) {
	var values []json.RawMessage
	if !r.decode(path, raw, &values, "a list") {
		return
	}
	for i, v := range values {
		element(path+"["+strconv.Itoa(i)+"]", v)
	}
}

func (r *reader) decode(path string, raw json.RawMessage, into any, want string) bool {
	err := json.Unmarshal(raw, into)
	if syntax := new(json.SyntaxError); errors.As(err, &syntax) {
		r.add(path, "not JSON: "+syntax.Error(), "")
	} else if err != nil {
		r.add(path, "the value is not "+want, "")
	}
	return err == nil
}

func (r *reader) text(into *string) field {
	return func(path string, raw json.RawMessage) { r.decode(path, raw, into, "a text") }
}

func (r *reader) boolean(into *bool) field {
	return func(path string, raw json.RawMessage) { r.decode(path, raw, into, "true or false") }
}

func (r *reader) texts(into *[]string) field {
	return func(path string, raw json.RawMessage) {
		*into = nil
		r.list(path, raw, func(path string, raw json.RawMessage) {
			var s string
			if r.decode(path, raw, &s, "a text") {
				*into = append(*into, s)
			}
		})
	}
}

// integer reads a whole number within bounds, both included.
func (r *reader) integer(into *int, low, high int) field {
	return func(path string, raw json.RawMessage) {
		var n int
		if !r.decode(path, raw, &n, "a whole number") {
			return
		}
		if n < low || n > high {
			r.add(path, fmt.Sprintf("%d is out of range", n), fmt.Sprintf("write %d to %d", low, high))
			return
		}
		*into = n
	}
}

// choice reads a text that is one of a few; set gets its index.
func (r *reader) choice(set func(int), names ...string) field {
	return func(path string, raw json.RawMessage) {
		var s string
		if !r.decode(path, raw, &s, "a text") {
			return
		}
		if i := slices.Index(names, s); i >= 0 {
			set(i)
			return
		}
		r.add(path, fmt.Sprintf("there is no %q", s), "write "+strings.Join(names, ", "))
	}
}

// duration reads "2s", "1h30m", "14d": Go's form, and whole days in front.
func (r *reader) duration(into *time.Duration, low time.Duration) field {
	return func(path string, raw json.RawMessage) {
		var s string
		if !r.decode(path, raw, &s, "a duration, like \"30s\"") {
			return
		}
		d, err := parseDuration(s)
		switch {
		case err != nil:
			r.add(path, fmt.Sprintf("%q is not a duration", s), "write 500ms, 30s, 5m, 2h, 14d")
		case d < low:
			r.add(path, fmt.Sprintf("%s is too short", s), "write "+low.String()+" or more")
		default:
			*into = d
		}
	}
}

func parseDuration(s string) (time.Duration, error) {
	const day = 24 * time.Hour
	days, rest, has := strings.Cut(s, "d")
	if !has {
		return time.ParseDuration(s)
	}
	n, err := strconv.ParseInt(days, 10, 64)
	if err != nil || n < 0 || n > int64(math.MaxInt64/day) {
		return 0, errors.New("not a number of days")
	}
	d := time.Duration(n) * day
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || more < 0 || more > math.MaxInt64-d {
		return 0, errors.New("not a duration")
	}
	return d + more, nil
}

// size reads a number of bytes, or "64KiB", "16MiB", "1GiB".
func (r *reader) size(into *int64, low, high int64) field {
	return func(path string, raw json.RawMessage) {
		n, ok := parseSize(strings.Trim(string(raw), `"`))
		switch {
		case !ok:
			r.add(path, string(raw)+" is not a size", "write bytes, or a whole number of KiB, MiB or GiB")
		case n < low || n > high:
			r.add(path, string(raw)+" is out of range", fmt.Sprintf("write %d to %d bytes", low, high))
		default:
			*into = n
		}
	}
}

func parseSize(s string) (int64, bool) {
	unit := int64(1)
	for suffix, u := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if number, is := strings.CutSuffix(s, suffix); is {
			s, unit = strings.TrimSpace(number), u
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return 0, false
	}
	return n * unit, true
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
