package redact

import (
	"bytes"
	"strings"
)

// nameKind says what a name makes of its value; zero is an ordinary name.
type nameKind uint8

const (
	secret  nameKind = 1 << iota
	inside           // also as the end of a longer word: dbpassword
	line             // unquoted, the value goes to the end of its line
	scalar           // a list or object below it is walked, not masked whole
	plural           // several of them, or a count: numbers are kept
	notSaid          // "name: value" in prose is something else
	notPath          // a value that begins with / is something else
)

// nameWords are what the filter looks for; every name below holds one.
var nameWords = []string{
	"pass", "pwd", "secret", "token", "key", "credential", "cookie", "session", "auth",
	"bearer", "signature", "connection", "seed", "mnemonic",
}

// names are folded: lower case, without separators. A name counts as whole, or
// as the last words of a longer one (telegram.token, githubToken).
var names = []struct {
	name string
	kind nameKind
}{
	{"proxyauthorization", inside | line}, {"authorization", inside | line},
	{"setcookie", inside | line}, {"cookie", inside | line},
	{"passphrase", inside | line}, {"seedphrase", inside | line}, {"mnemonic", inside | line},
	{"connectionstring", inside | line},
	{"password", inside}, {"passwd", inside}, {"passcode", inside}, {"dbpass", inside}, {"pass", notSaid}, {"pwd", notPath},
	{"secret", inside}, {"token", inside}, {"credential", inside},
	{"apikey", inside}, {"privatekey", inside}, {"secretkey", inside}, {"accesskey", inside},
	{"secretkeybase", inside}, {"signingkey", inside}, {"encryptionkey", inside}, {"masterkey", inside},
	{"accountkey", inside}, {"sshkey", inside},
	{"nkey", 0}, {"seed", 0}, {"bearer", 0}, {"signature", 0},
	{"session", 0}, {"sessionid", inside}, {"sessionkey", inside},
	{"auth", scalar}, {"oauth", scalar},
}

// kindOf says what name makes of its value.
func (r *Redactor) kindOf(name string) nameKind {
	name = name[max(0, len(name)-maxName):]
	if search(&r.filter, name)&nameSet == 0 {
		return 0
	}
	f := fold(name)
	for _, n := range names {
		if f.endsWith(n.name, n.kind) {
			return n.kind | secret
		}
	}
	if f.n == 0 || f.text[f.n-1] != 's' {
		return 0
	}
	f.n--
	for _, n := range names {
		if n.kind&inside != 0 && f.endsWith(n.name, n.kind) {
			return n.kind | secret | plural
		}
	}
	return 0
}

// plain says that a value gives nothing away, or is already masked.
func (k nameKind) plain(value string) bool {
	switch value {
	case "", Mask, "true", "false", "null", "[]", "{}":
		return true
	}
	return k&plural != 0 && strings.Trim(value, "0123456789.,") == "" || k&notPath != 0 && value[0] == '/'
}

// folded is a name without case, separators and a number at its end.
type folded struct {
	text  [maxName]byte
	start [maxName]bool // a word begins here
	n     int
}

func fold(name string) (f folded) {
	begin, lower := true, false
	for i := range len(name) {
		c := name[i]
		upper := 'A' <= c && c <= 'Z'
		switch {
		case !isAlnum(c):
			begin = true
			continue
		case upper:
			c += 'a' - 'A'
		}
		f.text[f.n], f.start[f.n] = c, begin || upper && lower
		f.n++
		begin, lower = false, !upper
	}
	for f.n > 0 && isDigit(f.text[f.n-1]) {
		f.n--
	}
	return f
}

func (f *folded) endsWith(name string, kind nameKind) bool {
	at := f.n - len(name)
	return at >= 0 && (kind&inside != 0 || f.start[at]) && bytes.Equal(f.text[at:f.n], []byte(name))
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isAlnum(c byte) bool { return isDigit(c) || isUpper(c) || 'a' <= c && c <= 'z' }
func isWord(c byte) bool  { return isAlnum(c) || c == '_' || c == '-' }
func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }
func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }
