package redact

import (
	"encoding/base64"
	"strings"
)

// form is a secret known by how it begins.
type form struct {
	prefix string
	keep   int    // bytes of the prefix that stay readable
	also   string // bytes of the secret beside letters, digits, _ and -
	least  int    // bytes behind the prefix
	upper  bool   // capitals and digits only
	mixed  bool   // needs a digit or capital and must begin a word: the prefix alone says little
}

var forms = []form{
	{prefix: "sk-", least: 8, mixed: true}, {prefix: "sk_live_", least: 8}, {prefix: "rk_live_", least: 8},
	{prefix: "ghp_", least: 16}, {prefix: "gho_", least: 16}, {prefix: "ghu_", least: 16},
	{prefix: "ghs_", least: 16}, {prefix: "ghr_", least: 16}, {prefix: "github_pat_", least: 16},
	{prefix: "glpat-", least: 16},
	{prefix: "AKIA", least: 16, upper: true}, {prefix: "ASIA", least: 16, upper: true},
	{prefix: "xoxb-", least: 8}, {prefix: "xoxp-", least: 8}, {prefix: "xoxa-", least: 8},
	{prefix: "xoxs-", least: 8}, {prefix: "xoxr-", least: 8}, {prefix: "xapp-", least: 8},
	{prefix: "AIza", least: 30},
	{prefix: "AGE-SECRET-KEY-", least: 16},
	{prefix: "sig=", keep: 4, also: "%+/=", least: 20},
	{prefix: "hooks.slack.com/services/", keep: 25, also: "/", least: 8},
}

func prefixLiterals() []string {
	var all []string
	for _, f := range forms {
		all = append(all, strings.ToLower(f.prefix))
	}
	return all
}

func prefixed(s string, spans []span) []span {
	for _, f := range forms {
		each(s, f.prefix, func(at int) int {
			body := at + len(f.prefix)
			end, strong := f.run(s, body)
			begins := at == 0 || !isAlnum(s[at-1])
			if end-body >= f.least && (!f.mixed || begins && strong) {
				spans = append(spans, span{at + f.keep, end})
			}
			return end
		})
	}
	return spans
}

// run gives the end of the bytes that belong to the secret, and whether there
// is a digit or capital among them.
func (f form) run(s string, at int) (end int, strong bool) {
	for ; at < len(s); at++ {
		c := s[at]
		marked := isDigit(c) || isUpper(c)
		if !marked && (f.upper || !isWord(c) && strings.IndexByte(f.also, c) < 0) {
			break
		}
		strong = strong || marked
	}
	return at, strong
}

// each calls found for every place of sub; found says where to go on.
func each(s, sub string, found func(at int) int) {
	for at := 0; ; {
		i := strings.Index(s[at:], sub)
		if i < 0 {
			return
		}
		at = max(found(at+i), at+i+1)
	}
}

// webTokens finds signed and encrypted JSON Web Tokens: three parts or more.
func webTokens(s string, spans []span) []span {
	f := form{also: "."}
	each(s, "eyJ", func(at int) int {
		end, _ := f.run(s, at)
		token := strings.TrimRight(s[at:end], ".")
		if strings.Count(s[at:end], ".") >= 2 && len(token) >= 16 {
			spans = append(spans, span{at, at + len(token)})
		}
		return end
	})
	return spans
}

// pemBlocks finds private keys; one without an end goes to the end of the text.
func pemBlocks(s string, spans []span) []span {
	const begin, end, dashes = "-----BEGIN ", "-----END ", "-----"
	each(s, begin, func(at int) int {
		title := s[at+len(begin) : min(len(s), at+len(begin)+maxName)]
		title, _, closed := strings.Cut(title, dashes)
		if !closed || !strings.Contains(title, "PRIVATE KEY") {
			return at + len(begin)
		}
		to := len(s)
		if i := strings.Index(s[at:], end); i >= 0 {
			if j := strings.Index(s[at+i+len(end):], dashes); j >= 0 {
				to = at + i + len(end) + j + len(dashes)
			}
		}
		spans = append(spans, span{at, to})
		return to
	})
	return spans
}

// seedLen is the length of an nkey seed.
const seedLen = 58

// seeds finds nkey seeds: S, the kind of key, and base32.
func seeds(s string, spans []span) []span {
	for at := 0; at+seedLen <= len(s); at++ {
		run := at
		for run < len(s) && isBase32(s[run]) {
			run++
		}
		for at+seedLen <= run {
			if s[at] == 'S' && strings.IndexByte("UACONX", s[at+1]) >= 0 {
				spans = append(spans, span{at, at + seedLen})
				at += seedLen
				continue
			}
			at++
		}
		at = run
	}
	return spans
}

// botTokens finds Telegram's: the number of the bot, ":AA", and the secret.
func botTokens(s string, spans []span) []span {
	each(s, ":AA", func(at int) int {
		from := at
		for from > 0 && at-from < 12 && isDigit(s[from-1]) {
			from--
		}
		end, _ := form{}.run(s, at+1)
		if at-from >= 6 && end-at > 30 {
			spans = append(spans, span{from, end})
		}
		return end
	})
	return spans
}

// schemes finds what stands behind "Bearer" and "Basic" outside a header too.
// In small letters both are ordinary words, so there the value must look the part.
func schemes(s string, spans []span) []span {
	for _, word := range []string{"Bearer ", "BEARER ", "bearer ", "Basic ", "basic "} {
		each(s, word, func(at int) int {
			from := skipBlanks(s, at+len(word))
			v := bare(s, from, from, 0)
			value := s[v.from:v.to]
			sure := word == "Bearer " || word == "BEARER "
			if word == "bearer " {
				_, strong := form{also: "./+=~"}.run(value, 0)
				sure = strong || len(value) >= 16
			} else if !sure {
				plain, err := base64.StdEncoding.DecodeString(value)
				sure = err == nil && strings.Contains(string(plain), ":")
			}
			if sure {
				spans = append(spans, v)
			}
			return v.to
		})
	}
	return spans
}

// userinfos finds the part of an address before its @. A raw / in a password
// shows as a port that is no number.
func userinfos(s string, spans []span) []span {
	each(s, "://", func(at int) int {
		from := at + len("://")
		host := authority(s, from)
		end := host
		_, port, ok := strings.Cut(s[from:host], ":")
		if ok && s[from] != '[' && strings.Trim(port, "0123456789") != "" {
			end = min(len(s), from+maxUserinfo)
			if i := strings.IndexAny(s[from:end], " \t\r\n\"'`<>\\"); i >= 0 {
				end = from + i
			}
		}
		if i := strings.LastIndexByte(s[from:end], '@'); i > 0 && s[from:from+i] != "git" {
			spans = append(spans, span{from, from + i})
			return from + i
		}
		return host
	})
	return spans
}

// authority gives where the user and host of an address end.
func authority(s string, from int) int {
	for ; from < len(s); from++ {
		switch s[from] {
		case '/', '?', '#', ' ', '\t', '\r', '\n', '"', '\'', '`', '<', '>', '\\':
			return from
		}
	}
	return from
}
