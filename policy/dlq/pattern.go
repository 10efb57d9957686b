package dlq

import (
	"regexp"
	"strings"
)

// Pattern is a text in which * stands for any text and ? for any one character.
type Pattern struct {
	text  string
	whole *regexp.Regexp
}

func newPattern(text string) (*Pattern, error) {
	whole, err := globRegexp(text, ".")
	if err != nil {
		return nil, err
	}
	return &Pattern{text, whole}, nil
}

// globRegexp matches what a pattern does, with any for its question marks.
func globRegexp(text, any string) (*regexp.Regexp, error) {
	quoted := strings.NewReplacer(`\*`, `.*`, `\?`, any).Replace(regexp.QuoteMeta(text))
	return regexp.Compile(`(?s)^` + quoted + `$`)
}

// MatchString says whether the pattern stands for all of a text. A nil one stands for every text.
func (p *Pattern) MatchString(text string) bool { return p == nil || p.whole.MatchString(text) }

// covers says that the pattern stands for all that another one does. It may miss that where they have several stars.
func (p *Pattern) covers(o *Pattern) bool {
	if p == nil {
		return true
	}
	text := "*"
	if o != nil {
		text = o.text
	}
	if text == p.text {
		return true
	}
	// A star of the other's may be any text: only one of ours stands for that.
	all, err := globRegexp(p.text, `[^*]`)
	return err == nil && all.MatchString(text)
}

func (r *Rule) everyone() bool { return r.covers(&Rule{}) }

// covers says that the rule matches all that another one does.
func (r *Rule) covers(o *Rule) bool {
	return r.Group.covers(o.Group) && r.Topic.covers(o.Topic) && r.Principal.covers(o.Principal)
}
