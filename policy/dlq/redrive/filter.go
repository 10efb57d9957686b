package redrive

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ackproxy/ackproxy/policy/dlq/letter"
)

// Filter chooses letters. The zero value takes all.
type Filter struct {
	terms []term
}

// term is one key=value.
type term struct {
	text  string
	match func(info *letter.Info, now time.Time) bool
	older bool // what does not match now will later
}

// texts are the keys whose values are patterns.
var texts = map[string]func(*letter.Info) string{
	"topic": func(i *letter.Info) string { return i.Topic }, "group": func(i *letter.Info) string { return i.Group },
	"reason": func(i *letter.Info) string { return string(i.Reason) }, "message": func(i *letter.Info) string { return i.Message },
	"member": func(i *letter.Info) string { return i.Member }, "client-id": func(i *letter.Info) string { return i.ClientID },
	"principal": func(i *letter.Info) string { return i.Principal }, "payload": func(i *letter.Info) string { return string(i.Payload) },
	"id": func(i *letter.Info) string { return i.ID },
}

// numbers are the keys whose values are numbers.
var numbers = map[string]func(*letter.Info) int64{
	"partition": func(i *letter.Info) int64 { return int64(i.Partition) }, "offset": func(i *letter.Info) int64 { return i.Offset },
	"hops": func(i *letter.Info) int64 { return int64(i.Hops) },
}

// Keys are what a filter may look at.
func Keys() []string {
	keys := []string{"older", "newer"}
	for k := range texts {
		keys = append(keys, k)
	}
	for k := range numbers {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// ParseFilter reads terms of the form key=value, all of which a letter must meet. Values of text are patterns with *, ? and [a-z], which
// match the whole text; older and newer take a duration, such as 90m or 36h, since the record was dead-lettered. All mistakes are joined.
func ParseFilter(all []string) (Filter, error) {
	var f Filter
	var mistakes []error
	for _, text := range all {
		key, value, ok := strings.Cut(text, "=")
		var match func(*letter.Info, time.Time) bool
		err := fmt.Errorf("not of the form key=value")
		if ok {
			match, err = parseTerm(key, value)
		}
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("filter %q: %w", text, err))
		}
		f.terms = append(f.terms, term{text, match, key == "older"})
	}
	return f, errors.Join(mistakes...)
}

func parseTerm(key, value string) (func(*letter.Info, time.Time) bool, error) {
	if of := texts[key]; of != nil {
		if _, err := path.Match(value, ""); err != nil {
			return nil, fmt.Errorf("%q is not a pattern", value)
		}
		return func(i *letter.Info, _ time.Time) bool { return like(value, of(i)) }, nil
	}
	if of := numbers[key]; of != nil {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a number", value)
		}
		return func(i *letter.Info, _ time.Time) bool { return of(i) == n }, nil
	}
	if key != "older" && key != "newer" {
		return nil, fmt.Errorf("there is no key %q (write one of %s)", key, strings.Join(Keys(), ", "))
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		return nil, fmt.Errorf("%q is not a duration (write 90m or 36h)", value)
	}
	return func(i *letter.Info, now time.Time) bool {
		return !i.Time.IsZero() && (now.Sub(i.Time) >= d) == (key == "older")
	}, nil
}

// like says whether a pattern matches a text. Ids, principals and groups have slashes in them, which path.Match takes for more than characters.
func like(pattern, text string) bool {
	const other = "\x00"
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", other), strings.ReplaceAll(text, "/", other))
	return err == nil && ok
}

// Match says whether a letter is chosen.
func (f Filter) Match(info *letter.Info, now time.Time) bool {
	for _, t := range f.terms {
		if !t.match(info, now) {
			return false
		}
	}
	return true
}

// Young says whether a letter is not chosen for one reason only: it is not old enough yet.
func (f Filter) Young(info *letter.Info, now time.Time) (young bool) {
	for _, t := range f.terms {
		if t.match(info, now) {
			continue
		}
		if !t.older || info.Time.IsZero() {
			return false
		}
		young = true
	}
	return young
}

// String is the filter with its terms in order, the same for filters that mean the same; empty for that which takes all.
func (f Filter) String() string {
	var all []string
	for _, t := range f.terms {
		all = append(all, t.text)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}
