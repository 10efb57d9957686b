package audit

import (
	"strconv"
	"time"
	"unicode/utf8"
)

const (
	hexDigits = "0123456789abcdef"
	// maxText bounds a text in a line, in bytes as escaped, so that a line of them all stays below maxLine.
	maxText = 384
	// maxShort bounds those of policies: their names, reasons and errors.
	maxShort = 192
	// exact is the largest integer up to which every JSON reader agrees.
	exact = 1 << 53
)

// plain marks the bytes that a JSON string holds as they are.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// appendText appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD, and so that no reader or terminal takes one for a line end or
// a command, controls (C1 as well) and the separators U+2028 and U+2029 are escaped. What goes beyond maxText is cut and counted.
func appendText[T ~string | ~[]byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	if len(s) <= maxText {
		i := 0
		for i < len(s) && plain[s[i]] {
			i++
		}
		if i == len(s) { // nearly always
			dst = append(dst, s...)
			return append(dst, '"')
		}
	}
	return appendOdd(dst, s, maxText)
}

// appendShort is appendText for texts of which a line may have several: it cuts at maxShort.
func appendShort(dst []byte, s string) []byte { return appendOdd(append(dst, '"'), s, maxShort) }

// appendOdd is the part of appendText for what is long, or not plain. The text is cut at most bytes.
func appendOdd[T ~string | ~[]byte](dst []byte, s T, most int) []byte {
	start := len(dst)
	for i := 0; i < len(s); {
		if len(dst)-start >= most {
			dst = append(dst, "…(+"...)
			dst = strconv.AppendInt(dst, int64(len(s)-i), 10)
			dst = append(dst, " bytes)"...)
			break
		}
		if plain[s[i]] {
			dst = append(dst, s[i])
			i++
			continue
		}
		r, size := decodeRune(s, i)
		if r < 0xa0 || r == '\u2028' || r == '\u2029' {
			dst = appendEscaped(dst, r)
		} else {
			dst = utf8.AppendRune(dst, r)
		}
		i += size
	}
	return append(dst, '"')
}

// decodeRune reads the rune at s[i], utf8.RuneError where there is none, and its width.
func decodeRune[T ~string | ~[]byte](s T, i int) (rune, int) {
	var b [utf8.UTFMax]byte
	return utf8.DecodeRune(b[:copy(b[:], s[i:])])
}

func appendEscaped(dst []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// appendTextOrNull appends null for an empty text.
func appendTextOrNull[T ~string | ~[]byte](dst []byte, s T) []byte {
	if len(s) == 0 {
		return append(dst, "null"...)
	}
	return appendText(dst, s)
}

// appendBytes appends null for nil: what Kafka sends as a null string.
func appendBytes(dst, s []byte) []byte {
	if s == nil {
		return append(dst, "null"...)
	}
	return appendText(dst, s)
}

// appendOffset appends a number, or a string where a number would lose digits.
func appendOffset(dst []byte, v int64) []byte {
	if v >= -exact && v <= exact {
		return strconv.AppendInt(dst, v, 10)
	}
	dst = append(dst, '"')
	dst = strconv.AppendInt(dst, v, 10)
	return append(dst, '"')
}

// appendMillis appends d in milliseconds with three decimals.
func appendMillis(dst []byte, d time.Duration) []byte {
	us := max(d.Microseconds(), 0)
	dst = strconv.AppendInt(dst, us/1000, 10)
	return append(dst, '.', byte('0'+us/100%10), byte('0'+us/10%10), byte('0'+us%10))
}

// stamper appends wall clock times as RFC 3339 text in UTC with microseconds. It keeps the text of the last second.
type stamper struct {
	second int64
	text   []byte // `"2026-01-15T09:21:07.`
}

func (s *stamper) append(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, "null"...)
	}
	if sec := t.Unix(); s.text == nil || sec != s.second {
		s.second = sec
		s.text = t.UTC().AppendFormat(s.text[:0], `"2006-01-02T15:04:05.`)
	}
	dst = append(dst, s.text...)
	us := t.Nanosecond() / 1000
	for div := 100_000; div > 0; div /= 10 {
		dst = append(dst, byte('0'+us/div%10))
	}
	return append(dst, `Z"`...)
}
