package pattern

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// words are all texts of up to n of some letters.
func words(letters string, n int) []string {
	all := []string{""}
	for from := 0; n > 0; n-- {
		upTo := len(all)
		for _, w := range all[from:upTo] {
			for _, l := range letters {
				all = append(all, w+string(l))
			}
		}
		from = upTo
	}
	return all
}

func asRegexp(p Pattern) *regexp.Regexp {
	return regexp.MustCompile(`(?s)^` + strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(string(p))) + `$`)
}

// Every short pattern does with every short text what a regular expression does.
func TestMatch(t *testing.T) {
	for _, p := range append(words("aé*?", 4), "*a*é*a*", "a*?é*?a", "User:*", "**?**") {
		want := asRegexp(Pattern(p))
		for _, text := range append(words("aé*", 4), "aéaéa", "User:alice", "User:", "a\nb", "\xff", "a\xffé") {
			if got := Pattern(p).Match(text); got != want.MatchString(text) {
				t.Errorf("%q matches %q: %v", p, text, got)
			}
		}
	}
}

// Meets and Covers agree with what all short texts say; what Covers misses has wildcards side by side.
func TestMeetsCovers(t *testing.T) {
	texts := words("abc", 5)
	patterns := words("ab*?", 3)
	fits := make([][]bool, len(patterns))
	for i, p := range patterns {
		for _, text := range texts {
			fits[i] = append(fits[i], Pattern(p).Match(text))
		}
	}
	for i, p := range patterns {
		for k, q := range patterns {
			meets, covers := false, true
			for n := range texts {
				meets = meets || fits[i][n] && fits[k][n]
				covers = covers && (fits[i][n] || !fits[k][n])
			}
			if got := Pattern(p).Meets(Pattern(q)); got != meets {
				t.Errorf("%q meets %q: %v", p, q, got)
			}
			got := Pattern(p).Covers(Pattern(q))
			missed := covers && strings.Contains(p, "?") && strings.Contains(q, "*")
			if got != covers && !missed {
				t.Errorf("%q covers %q: %v", p, q, got)
			}
		}
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("a*b?c", "axxbyc")
	f.Add("*a*a*a*a", strings.Repeat("a", 50)+"b")
	f.Fuzz(func(t *testing.T, p, text string) {
		if !utf8.ValidString(p) || !utf8.ValidString(text) || len(p)+len(text) > 1000 {
			return // no names
		}
		if got := Pattern(p).Match(text); got != asRegexp(Pattern(p)).MatchString(text) {
			t.Errorf("%q matches %q: %v", p, text, got)
		}
		if !Pattern(p).Covers(Pattern(p)) || Pattern(p).Match(text) && !Pattern(p).Meets(Pattern(strings.NewReplacer("*", "?").Replace(text))) {
			t.Errorf("%q, %q", p, text)
		}
	})
}
