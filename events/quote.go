package events

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Quote shows foreign text safely in an error or on a terminal: everything that
// is not printable, and every format character (bidirectional overrides, zero
// width), is escaped, and a long text is cut to 80 runes with its length said.
func Quote(s string) string {
	const most = 80
	cut := s
	if n := len([]rune(s)); n > most {
		cut = string([]rune(s)[:most])
		return quote(cut) + "… (" + strconv.Itoa(len(s)) + " bytes)"
	}
	return quote(cut)
}

// Escape shows foreign text on a terminal without quotation marks and without
// cutting it.
func Escape(s string) string {
	if strings.IndexFunc(s, unsafeRune) < 0 {
		return s
	}
	q := quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

// EscapeJSON escapes in JSON what stands in its texts and a reader does not see as what
// it is. It is the same value.
func EscapeJSON(raw []byte) []byte {
	hides := func(r rune) bool { return r >= utf8.RuneSelf && Unseen(r) || r == 0x7f }
	if bytes.IndexFunc(raw, hides) < 0 {
		return raw
	}
	out := make([]byte, 0, len(raw)+len(raw)/8)
	for _, r := range string(raw) {
		if !hides(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// Cut is the first most bytes of s at the most, cut between runes, in valid UTF-8:
// what is not becomes U+FFFD. Every foreign text that goes into an event and has a
// bound goes through it.
func Cut(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:max(most, 0)]
}

// quote escapes what is not printable (Cc, Cf, Zl, Zp, and every space but the ASCII
// one), which strconv does, and what is printable and has no shape.
func quote(s string) string {
	q := strconv.Quote(s)
	if strings.IndexFunc(q, Unseen) < 0 {
		return q
	}
	var b strings.Builder
	for _, r := range q {
		if Unseen(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Unseen says that a reader does not see r as what it is: it is not printable, or has no
// shape of its own.
func Unseen(r rune) bool {
	const brailleBlank = 0x2800
	return !unicode.IsPrint(r) || r == brailleBlank || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

func unsafeRune(r rune) bool { return Unseen(r) || r == '\\' || r == unicode.ReplacementChar }
