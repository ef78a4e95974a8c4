// Package outlet is where people are told of what happens: the destinations that a catalog
// declares for alerts, and the Telegram bot by which approvers decide.
//
// Start with [Destination] and [Telegram]. A catalog holds no secret: an address, a key
// and a token are named by where they are found, a variable of the engine's environment or
// a file, and are read there by the wiring.
package outlet

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"gatebook/events"
)

// Format is the shape of what a destination gets.
type Format string

// The formats.
const (
	JSON  Format = "json" // also where absent
	Slack Format = "slack"
)

// Bounds.
const (
	MaxDestinations = 20
	MaxChats        = 100
)

// Source is where a text that must not be in a catalog is found: in a variable of the
// engine's environment, or in a file. One of both.
type Source struct {
	Env  string `json:"env,omitzero"`
	File string `json:"file,omitzero"`
}

func (s Source) String() string {
	switch {
	case s.Env != "":
		return "variable " + s.Env
	case s.File != "":
		return "file " + s.File
	}
	return ""
}

// Destination gets every alert by HTTP.
type Destination struct {
	Format Format `json:"format,omitzero"`
	URL    Source `json:"url"`
	// Secret is the key of the signature; without one nothing is signed.
	Secret Source `json:"secret,omitzero"`
}

// String is d for people.
func (d Destination) String() string {
	out := string(d.Form()) + " to what is in " + d.URL.String()
	if d.Secret != (Source{}) {
		out += ", signed by what is in " + d.Secret.String()
	}
	return out
}

// Form is the format that counts.
func (d Destination) Form() Format {
	if d.Format == "" {
		return JSON
	}
	return d.Format
}

// Telegram is a bot, and the chats where it answers.
type Telegram struct {
	Token Source `json:"token,omitzero"`
	// Server is the address of the API, where it is not Telegram's own.
	Server string          `json:"server,omitzero"`
	Chats  map[string]Chat `json:"chats,omitzero"`
}

// Chat is one user in one chat, and who that is.
type Chat struct {
	Chat   int64           `json:"chat"`
	User   int64           `json:"user"`
	Person events.PersonID `json:"person"`
	// Alerts says that the chat gets the alerts too.
	Alerts bool `json:"alerts,omitzero"`
}

// String is c for people.
func (c Chat) String() string {
	out := fmt.Sprintf("user %d in chat %d is %s", c.User, c.Chat, c.Person)
	if c.Alerts {
		out += ", with alerts"
	}
	return out
}

// On says whether there is a bot.
func (t Telegram) On() bool { return t.Token != (Source{}) }

// Who says whom a user in a chat stands for.
func (t Telegram) Who(chat, user int64) (events.PersonID, bool) {
	for _, c := range t.Chats {
		if c.Chat == chat && c.User == user {
			return c.Person, true
		}
	}
	return "", false
}

// All is everything that a catalog declares here.
type All struct {
	Alerts   map[string]Destination
	Telegram Telegram
}

// Any says whether anybody is told of anything.
func (a All) Any() bool {
	for _, c := range a.Telegram.Chats {
		if c.Alerts {
			return true
		}
	}
	return len(a.Alerts) > 0
}

// Equal says that b declares the same.
func (a All) Equal(b All) bool { return len(Compare(a.Alerts, b.Alerts, a.Telegram, b.Telegram)) == 0 }

var (
	envForm  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)
)

// Check says what is wrong with a source, and at which path. needed says that there must
// be one.
func (s Source) Check(at string, needed bool, fault func(at, text string)) {
	switch {
	case s == (Source{}) && !needed:
	case (s.Env == "") == (s.File == ""):
		fault(at, "want one of env and file")
	case s.Env != "" && !envForm.MatchString(s.Env):
		fault(at+".env", "want the name of a variable, not its value")
	case s.File != "" && (!path.IsAbs(s.File) || path.Clean(s.File) != s.File || strings.ContainsRune(s.File, 0)):
		fault(at+".file", "want the whole path of a file")
	}
}

// CheckDestinations says what is wrong with destinations, and at which path below them.
func CheckDestinations(all map[string]Destination, fault func(at, text string)) {
	if len(all) > MaxDestinations {
		fault("", fmt.Sprintf("has %d entries, at most %d", len(all), MaxDestinations))
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		d := all[name]
		if !nameForm.MatchString(name) {
			fault("."+name, "want a name of a-z 0-9 _ -")
		}
		if d.Format != "" && d.Format != JSON && d.Format != Slack {
			fault("."+name+".format", "want json or slack")
		}
		d.URL.Check("."+name+".url", true, fault)
		d.Secret.Check("."+name+".secret", false, fault)
	}
}

// Check says what is wrong with the bot. approver says who may decide.
func (t Telegram) Check(approver func(events.PersonID) bool, fault func(at, text string)) {
	t.Token.Check(".token", len(t.Chats) > 0 || t.Server != "", fault)
	if len(t.Chats) > MaxChats {
		fault(".chats", fmt.Sprintf("has %d entries, at most %d", len(t.Chats), MaxChats))
	}
	near := func(prefix string) bool { return strings.HasPrefix(t.Server, prefix) }
	if t.Server != "" && !slices.ContainsFunc([]string{"https://", "http://127.0.0.1:", "http://[::1]:", "http://localhost:"}, near) {
		fault(".server", "want an address with https, or with http on this machine")
	}
	seen := map[[2]int64]string{}
	for _, name := range slices.Sorted(maps.Keys(t.Chats)) {
		c, at := t.Chats[name], ".chats."+name
		if !nameForm.MatchString(name) {
			fault(at, "want a name of a-z 0-9 _ -")
		}
		if c.Chat == 0 {
			fault(at+".chat", "want the id of a chat")
		}
		if c.User <= 0 {
			fault(at+".user", "want the id of a user")
		}
		if !approver(c.Person) {
			fault(at+".person", "want a person of people who is an approver")
		}
		if other, double := seen[[2]int64{c.Chat, c.User}]; double {
			fault(at, "is the same chat and user as "+other)
		}
		seen[[2]int64{c.Chat, c.User}] = name
	}
}

// Change is one difference between what two catalogs declare.
type Change struct{ Path, Text string }

// Compare lists the differences. Less of it hides something from people, so that none of
// them is harmless.
func Compare(a, b map[string]Destination, s, t Telegram) (out []Change) {
	was, is := texts(a, s), texts(b, t)
	paths := maps.Clone(was)
	maps.Copy(paths, is)
	for _, at := range slices.Sorted(maps.Keys(paths)) {
		switch x, y := was[at], is[at]; {
		case x == y:
		case x == "":
			out = append(out, Change{at, "added (" + y + ")"})
		case y == "":
			out = append(out, Change{at, "removed (" + x + ")"})
		default:
			out = append(out, Change{at, "changed from " + x + " to " + y})
		}
	}
	return out
}

// texts are the entries by their path, for people.
func texts(all map[string]Destination, t Telegram) map[string]string {
	out := map[string]string{}
	for name, d := range all {
		out["alerts."+name] = d.String()
	}
	for name, c := range t.Chats {
		out["telegram.chats."+name] = c.String()
	}
	if t.On() {
		out["telegram.token"] = t.Token.String()
	}
	if t.Server != "" {
		out["telegram.server"] = t.Server
	}
	return out
}
