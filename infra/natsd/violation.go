package natsd

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"gatebook/events"
	"gatebook/policy"
)

// Action is what somebody tried.
type Action string

// What can be refused.
const (
	ActionConnect   Action = "connect"
	ActionPublish   Action = "publish"
	ActionSubscribe Action = "subscribe"
)

// Violation is one refusal of the server.
type Violation struct {
	// Identity is whose connection it was; the zero value for a login, and for
	// a connection that was cut in the meantime.
	Identity policy.Identity
	Action   Action
	// Subject that was refused, as the client wrote it; empty for a login.
	Subject string
	// Remote is the client's address without its port.
	Remote string
	// Claimed is the key that a refused login named, where it has the form of a
	// key. Whether the client holds it is not known.
	Claimed events.PublicKey
}

// clientBytes is where the server's parser begins to quote what a client sent,
// which may be a secret.
const clientBytes = "proto="

// logger takes the server's lines. Refusals go to the caller, once, and not to
// the log: a client can cause any number of them.
type logger struct {
	cfg    Config
	logins *logins
	// failed keeps the first fatal line of the start; size 1.
	failed chan string
}

func (l *logger) Noticef(format string, v ...any) { l.write("info", format, v) }
func (l *logger) Warnf(format string, v ...any)   { l.write("warn", format, v) }
func (l *logger) Debugf(string, ...any)           {}
func (l *logger) Tracef(string, ...any)           {}

// Fatalf does not end the process: the start reports it, and later the engine
// finds that the bus does not answer.
func (l *logger) Fatalf(format string, v ...any) {
	select {
	case l.failed <- fmt.Sprintf(format, v...):
	default:
	}
	l.write("fatal", format, v)
}

func (l *logger) Errorf(format string, v ...any) {
	line, ok := parseLine(format)
	if !ok {
		l.write("error", format, v)
		return
	}
	if strings.HasPrefix(line.text, "authentication error") || strings.HasPrefix(line.text, "%v - %s") {
		return // a refused login: the authenticator has told
	}
	action, subject, ok := parseRefusal(line.text, v)
	if !ok {
		l.write("error", format, v)
		return
	}
	id, _ := l.logins.get(line.cid)
	l.cfg.OnViolation(Violation{Identity: id, Action: action, Subject: subject, Remote: line.remote})
}

func (l *logger) write(level, format string, v []any) {
	text := fmt.Sprintf(format, v...)
	if at := strings.Index(text, clientBytes); at >= 0 {
		text = text[:at] + "(the client's bytes are left out)"
	}
	l.cfg.Log(level, events.Escape(text))
}

// clientLine is a line that the server writes about one connection:
//
//	<address> - cid:<n>[ - "<version:language:name>"][ - "<account/user>"] - <text>
//
// The quoted parts hold what the client says about itself and are skipped as
// quoted strings, so that nothing in them is taken for the text. The line is
// read before it is formatted for the same reason: a name may hold "%s".
type clientLine struct {
	remote string
	cid    uint64
	text   string
}

func parseLine(format string) (clientLine, bool) {
	addr, rest, ok := strings.Cut(format, " - cid:")
	if !ok || strings.ContainsAny(addr, " \"") {
		return clientLine{}, false
	}
	number, rest, ok := strings.Cut(rest, " - ")
	if !ok {
		return clientLine{}, false
	}
	cid, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return clientLine{}, false
	}
	for strings.HasPrefix(rest, `"`) {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return clientLine{}, false
		}
		if rest, ok = strings.CutPrefix(rest[len(quoted):], " - "); !ok {
			return clientLine{}, false
		}
	}
	if h, _, err := net.SplitHostPort(addr); err == nil {
		addr = h
	}
	return clientLine{remote: addr, cid: cid, text: rest}, true
}

// parseRefusal reads the text of a refusal. The subject of a publication is an
// argument, that of a subscription is quoted in the text.
func parseRefusal(text string, v []any) (Action, string, bool) {
	switch {
	case strings.HasPrefix(text, "Publish Violation - "):
		if len(v) != 1 {
			return ActionPublish, "", true
		}
		subject, ok := v[0].([]byte)
		if !ok {
			return ActionPublish, fmt.Sprint(v[0]), true
		}
		return ActionPublish, string(subject), true
	case strings.HasPrefix(text, "Subscription Violation"):
		_, rest, _ := strings.Cut(text, "Subject ")
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return ActionSubscribe, "", true
		}
		subject, _ := strconv.Unquote(quoted)
		return ActionSubscribe, subject, true
	}
	return "", "", false
}
