// Package upstream is the servers whose tools the gate offers: the section of the catalog
// that declares them, and what a server's word about its tools counts.
//
// Start with [Server]. Every function is pure.
//
// What the package promises: a server is started by what a person approved, and any change
// of that is another version ([Server.Launch]); what a server says of its own tools lowers
// nothing unless a person marked it as trusted ([Tier]); a catalog holds no secret.
package upstream

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"gatebook/events"
	"gatebook/policy/outlet"
)

// Bounds.
const (
	MaxServers = 32
	maxWords   = 64
	maxEnv     = 64
	maxText    = 4 << 10 // bytes of a word or a value
)

// Server is a program on this machine that speaks MCP on its standard input and output.
type Server struct {
	// Command is the whole path of the program, and its arguments.
	Command []string `json:"command"`
	// Env is its environment, beside PATH, HOME, LANG and TMPDIR of the engine.
	Env map[string]string `json:"env,omitzero"`
	// Secrets are variables whose values are found elsewhere.
	Secrets map[string]outlet.Source `json:"secrets,omitzero"`
	// ReadOnlyEnv comes to it in phase 1: by it a server that can starts in its own
	// read-only mode.
	ReadOnlyEnv map[string]string `json:"read_only_env,omitzero"`
	// Trusted says that what it says of its tools may lower their tier.
	Trusted bool `json:"trusted,omitzero"`
}

// Launch is everything that says how the server is started, in RFC 8785 form: the digest
// of these bytes is the version that a person approves. Whether it is trusted is not part
// of it, for that does not change what is started.
func (s Server) Launch() []byte {
	raw, err := json.Marshal(struct {
		Command     []string                 `json:"command"`
		Env         map[string]string        `json:"env"`
		ReadOnlyEnv map[string]string        `json:"read_only_env"`
		Secrets     map[string]outlet.Source `json:"secrets"`
	}{s.Command, s.Env, s.ReadOnlyEnv, s.Secrets}, json.Deterministic(true))
	if err != nil {
		panic(err) // these are texts
	}
	return raw
}

// Environment is what the server gets in a phase, beside its secrets.
func (s Server) Environment(phase int) map[string]string {
	env := maps.Clone(s.Env)
	if phase < 2 {
		if env == nil {
			env = map[string]string{}
		}
		maps.Copy(env, s.ReadOnlyEnv)
	}
	return env
}

// Hints are what a server says of one tool; nil is nothing.
type Hints struct{ ReadOnly, Destructive *bool }

// Tier is that of a tool by the hints of its server. What is not said counts as the worst.
func Tier(trusted bool, h Hints) events.Tier {
	switch {
	case !trusted:
	case h.ReadOnly != nil && *h.ReadOnly && (h.Destructive == nil || !*h.Destructive):
		return events.ReadOnly
	case h.Destructive != nil && !*h.Destructive:
		return events.Reversible
	}
	return events.Privileged
}

var (
	idForm  = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)
	envForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
)

// Check says what is wrong with servers, and at which path below them.
func Check(all map[string]Server, fault func(at, text string)) {
	if len(all) > MaxServers {
		fault("", fmt.Sprintf("has %d entries, at most %d", len(all), MaxServers))
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		s, at := all[id], "."+id
		if !idForm.MatchString(id) || id == events.OwnerBuiltin {
			fault(at, "want an id of a-z 0-9 _ - other than "+events.OwnerBuiltin)
		}
		switch {
		case len(s.Command) == 0 || !path.IsAbs(s.Command[0]) || path.Clean(s.Command[0]) != s.Command[0]:
			fault(at+".command", "want the whole path of a program, and its arguments")
		case len(s.Command) > maxWords || slices.ContainsFunc(s.Command, badText):
			fault(at+".command", fmt.Sprintf("want at most %d texts of at most %d bytes, without NUL", maxWords, maxText))
		}
		s.checkEnv(at, fault)
	}
}

func (s Server) checkEnv(at string, fault func(at, text string)) {
	if len(s.Env)+len(s.ReadOnlyEnv)+len(s.Secrets) > maxEnv {
		fault(at+".env", fmt.Sprintf("has, with read_only_env and secrets, more than %d entries", maxEnv))
	}
	for _, of := range []struct {
		at  string
		env map[string]string
	}{{".env", s.Env}, {".read_only_env", s.ReadOnlyEnv}} {
		for _, name := range slices.Sorted(maps.Keys(of.env)) {
			_, double := s.Secrets[name]
			if !envForm.MatchString(name) || badText(of.env[name]) || double {
				fault(at+of.at+"."+name, "want the name of a variable that is no secret too, and a text without NUL")
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Secrets)) {
		if !envForm.MatchString(name) {
			fault(at+".secrets."+name, "want the name of a variable")
		}
		s.Secrets[name].Check(at+".secrets."+name, true, fault)
	}
}

func badText(s string) bool { return len(s) > maxText || strings.ContainsRune(s, 0) }

// Change is one difference between two catalogs' servers.
type Change struct {
	Path, Text string
	Widens     bool
}

// Compare lists the differences. Only less is harmless.
func Compare(a, b map[string]Server) (out []Change) {
	ids := maps.Clone(a)
	if ids == nil {
		ids = map[string]Server{}
	}
	maps.Copy(ids, b)
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		at := "servers." + id
		x, was := a[id]
		y, is := b[id]
		switch {
		case !was:
			out = append(out, Change{at, "added (" + y.String() + ")", true})
			continue
		case !is:
			out = append(out, Change{at, "removed (" + x.String() + ")", false})
			continue
		}
		if string(x.Launch()) != string(y.Launch()) {
			out = append(out, Change{at, "changed from " + x.String() + " to " + y.String(), true})
		}
		if x.Trusted != y.Trusted {
			out = append(out, Change{at + ".trusted", fmt.Sprintf("changed from %t to %t", x.Trusted, y.Trusted), y.Trusted})
		}
	}
	return out
}

// String is s for people, without the values of its variables.
func (s Server) String() string {
	names := slices.Sorted(maps.Keys(s.Env))
	names = append(names, slices.Sorted(maps.Keys(s.ReadOnlyEnv))...)
	names = append(names, slices.Sorted(maps.Keys(s.Secrets))...)
	text := strings.Join(s.Command, " ")
	if len(names) > 0 {
		text += ", with " + strings.Join(names, ", ")
	}
	if s.Trusted {
		text += ", trusted"
	}
	return text
}
