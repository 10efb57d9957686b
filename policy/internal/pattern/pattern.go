// Package pattern is how rules name groups, topics, principals and the like: texts in which * stands for any text and ? for any one character.
// It also says which patterns are of no use, so that a rule that can never be used is refused instead of silently ignored.
package pattern

import "unicode/utf8"

// Pattern is a text with stars and question marks. The empty one stands for the empty text only.
type Pattern string

// All stands for every text.
const All Pattern = "*"

// Match says whether the pattern stands for all of a text. It takes no longer than the product of their lengths.
func (p Pattern) Match(text string) bool {
	star, again := -1, 0 // after the last star that was passed, and where in the text what follows it was tried last
	at := 0
	for i := 0; i < len(text); {
		if at < len(p) && p[at] == '*' {
			at++
			star, again = at, i
			continue
		}
		if at < len(p) {
			_, width := utf8.DecodeRuneInString(text[i:])
			if p[at] == '?' {
				at, i = at+1, i+width
				continue
			}
			if p[at] == text[i] {
				at, i = at+1, i+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		_, width := utf8.DecodeRuneInString(text[again:])
		again += width
		at, i = star, again
	}
	for at < len(p) && p[at] == '*' {
		at++
	}
	return at == len(p)
}

// Meets says whether there is a text that both patterns stand for.
func (p Pattern) Meets(q Pattern) bool { return p.walk(q, false) }

// Covers says that the pattern stands for all that another one does. It may miss that where wildcards follow each other in both.
func (p Pattern) Covers(q Pattern) bool { return p.walk(q, true) }

// walk says whether two patterns can be walked side by side, where a star takes what it likes of the other one; only p's stars and question marks
// do where it is to cover q, which has the other's wildcards for characters.
func (p Pattern) walk(q Pattern, covers bool) bool {
	a, b := []rune(p), []rune(q)
	ends := make([][]bool, len(a)+1) // ends[i][j]: i characters of a and j of b can be
	for i := range ends {
		ends[i] = make([]bool, len(b)+1)
		for j := range ends[i] {
			var x, y rune // those that were walked last
			if i > 0 {
				x = a[i-1]
			}
			if j > 0 {
				y = b[j-1]
			}
			star := x == '*' || y == '*' && !covers
			one := x == y || x == '?' && (y != '*' || !covers) || y == '?' && !covers
			ends[i][j] = i+j == 0 || star && (i > 0 && ends[i-1][j] || j > 0 && ends[i][j-1]) || one && i > 0 && j > 0 && ends[i-1][j-1]
		}
	}
	return ends[len(a)][len(b)]
}
