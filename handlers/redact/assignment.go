package redact

import "strings"

// assignments finds the values of names that mean a secret: name=value,
// name: value, "name": "value", --name value, <name>value</name>.
func (r *Redactor) assignments(s string, spans []span) []span {
	for at := 0; at < len(s); {
		i := strings.IndexAny(s[at:], "=:>")
		if i < 0 {
			break
		}
		v, next := r.assigned(s, at+i)
		if v.from < v.to {
			spans = append(spans, v)
		}
		at = next
	}
	return r.flags(s, spans)
}

// assigned gives the secret value behind the sign at s[sign], if there is one,
// and where to go on.
func (r *Redactor) assigned(s string, sign int) (v span, next int) {
	next = sign + 1
	for next < len(s) && next < sign+3 && strings.IndexByte("=:>", s[next]) >= 0 {
		next++
	}
	op := s[sign:next]
	k := keyBefore(s, sign)
	if op[0] == '>' && k.before != '<' || strings.HasPrefix(op, "::") {
		return v, next
	}
	k.kind = r.kindOf(k.name)
	if k.kind == 0 || k.kind&notSaid != 0 && op == ":" && !k.quoted {
		return v, next
	}
	code := len(op) > 1 && next < len(s) && isSpace(s[next])
	from := skipBlanks(s, next)
	if from == len(s) || code && !isQuote(s[from]) {
		return v, next
	}
	if v = k.value(s, from); v.from == v.to {
		return v, next
	}
	return v, max(v.to, next)
}

// flags finds --name value.
func (r *Redactor) flags(s string, spans []span) []span {
	each(s, "-", func(at int) int {
		if at > 0 && !isSpace(s[at-1]) && !isQuote(s[at-1]) {
			return at + 1
		}
		end := at
		for end < len(s) && (isWord(s[end]) || s[end] == '.') {
			end++
		}
		from := skipBlanks(s, end)
		if from == end || from == len(s) || isFlag(s[from:]) {
			return end
		}
		k := key{name: s[at:end]}
		if k.kind = r.kindOf(k.name); k.kind == 0 {
			return end
		}
		v := k.value(s, from)
		spans = append(spans, v)
		return max(v.to, end)
	})
	return spans
}

// isFlag says whether s begins with a flag, and so is not the value of one.
func isFlag(s string) bool {
	return len(s) > 2 && s[:2] == "--" && 'a' <= s[2] && s[2] <= 'z'
}

// key is the name before a sign.
type key struct {
	name   string
	kind   nameKind
	quoted bool
	before byte // what stands directly before the name, or 0
}

// keyBefore reads the name that ends before s[sign]. Every step is bounded, so
// that a text full of signs costs no more than its length.
func keyBefore(s string, sign int) key {
	to := sign
	for to > 0 && sign-to < 8 && (s[to-1] == ' ' || s[to-1] == '\t') {
		to--
	}
	if to > 0 && (s[to-1] == '?' || s[to-1] == '+' || s[to-1] == ']') { // NAME ?= value, env["NAME"] = value
		to--
	}
	var k key
	if to > 0 && isQuote(s[to-1]) {
		k.quoted = true
		for to--; to > 0 && sign-to < 16 && s[to-1] == '\\'; {
			to--
		}
	}
	from := to
	for from > 0 && to-from < maxName && (isWord(s[from-1]) || s[from-1] == '.' || s[from-1] == ' ') {
		from--
	}
	k.name = s[from:to]
	if from > 0 {
		k.before = s[from-1]
	}
	return k
}

// value gives the secret that begins at s[from]; an empty span if there is none.
func (k key) value(s string, from int) span {
	stop := byte(0)
	if isQuote(k.before) && !k.quoted || k.before == '<' {
		stop = k.before
	}
	v := span{from, from}
	switch inner, end, quoted := quotedAt(s, from); {
	case quoted:
		v = span{inner, end}
	case (s[from] == '[' || s[from] == '{') && !strings.HasPrefix(s[from:], Mask):
		if k.kind&scalar != 0 {
			return v
		}
		v = k.open(s, from, closing(s, from), stop)
	default:
		v = k.open(s, from, from, stop)
	}
	if k.kind.plain(s[v.from:v.to]) {
		return span{from, from}
	}
	return v
}

// open gives a value without quotes. What is before least belongs to it.
func (k key) open(s string, from, least int, stop byte) span {
	if k.kind&line == 0 {
		return bare(s, from, least, stop)
	}
	to := masked(s, from, least)
	for to < len(s) && s[to] != '\n' && s[to] != '\r' && (stop == 0 || s[to] != stop) {
		to++
	}
	for to > least && (s[to-1] == ' ' || s[to-1] == '\\') {
		to--
	}
	return span{from, to}
}

// bare gives a value of one word. It ends at a space or quote, and at , ; & #
// only where another item follows, because passwords hold such signs too.
func bare(s string, from, least int, stop byte) span {
	least = masked(s, from, least)
	to := least
	for to < len(s) && !isSpace(s[to]) && (stop == 0 || s[to] != stop) {
		if isQuote(s[to]) {
			if inner, end, ok := prefixQuote(s, from, to); ok {
				return span{inner, end}
			}
			break
		}
		if strings.IndexByte(",;&#", s[to]) >= 0 && itemFollows(s, to+1) {
			break
		}
		to++
	}
	for to > least && strings.IndexByte(`)]},;.\`, s[to-1]) >= 0 {
		to--
	}
	return span{from, to}
}

// masked moves least behind a mask, so that none is ever cut.
func masked(s string, from, least int) int {
	if strings.HasPrefix(s[from:], Mask) {
		return max(least, from+len(Mask))
	}
	return least
}

// itemFollows says whether a space, the end or "name=" comes next.
func itemFollows(s string, at int) bool {
	end := at
	for end < len(s) && end-at < maxName && (isWord(s[end]) || s[end] == '.') {
		end++
	}
	return end == len(s) && end == at || end < len(s) && (end == at && isSpace(s[end]) || end > at && (s[end] == '=' || s[end] == ':'))
}

// prefixQuote reads b'secret' and its like, when s[quote] is a quote.
func prefixQuote(s string, from, quote int) (inner, end int, ok bool) {
	if n := quote - from; n == 0 || n > 2 || strings.Trim(s[from:quote], "bBfFrRuU@$") != "" {
		return 0, 0, false
	}
	inner, end, ok = quotedAt(s, quote)
	return inner, end, ok
}

// quotedAt reads a quoted value, of which the quotes may be escaped because
// the text is itself quoted. One that is not closed goes to the end of its line.
func quotedAt(s string, at int) (inner, end int, ok bool) {
	quote := at
	for quote < len(s) && s[quote] == '\\' {
		quote++
	}
	if quote == len(s) || quote-at > maxQuoting || !isQuote(s[quote]) {
		return 0, 0, false
	}
	depth, inner := quote-at, quote+1
	for i, slashes := inner, 0; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			slashes++
			continue
		case s[i] == s[quote] && slashes%(2*(depth+1)) == depth:
			return inner, i - depth, true
		}
		slashes = 0
	}
	end = len(s)
	if i := strings.IndexByte(s[inner:], '\n'); i >= 0 {
		end = inner + i
	}
	return inner, end, true
}

// closing gives the end of the list or object that opens at s[at]; one that is
// not closed goes to the end of the text.
func closing(s string, at int) int {
	depth := 0
	for i := at; i < len(s); i++ {
		switch s[i] {
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(s)
}

// skipBlanks skips spaces and tabs.
func skipBlanks(s string, at int) int {
	for at < len(s) && (s[at] == ' ' || s[at] == '\t') {
		at++
	}
	return at
}
