package upstream

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gatebook/events"
	"gatebook/policy/outlet"
)

func TestFaults(t *testing.T) {
	good := Server{Command: []string{"/bin/files", "--root", "/srv"}}
	with := func(edit func(*Server)) map[string]Server {
		s := good
		edit(&s)
		return map[string]Server{"files": s}
	}
	many, words, env := map[string]Server{}, make([]string, maxWords), map[string]string{}
	for i := range MaxServers + 1 {
		many[fmt.Sprint("s", i)] = good
	}
	for i := range maxEnv + 1 {
		env[fmt.Sprint("V", i)] = "x"
	}
	for _, row := range []struct {
		name string
		all  map[string]Server
		want string // the path of the fault; empty for none
	}{
		{"none", nil, ""},
		{"one", with(func(*Server) {}), ""},
		{"with everything", with(func(s *Server) {
			s.Env, s.ReadOnlyEnv = map[string]string{"A": "x"}, map[string]string{"A": "y"}
			s.Secrets = map[string]outlet.Source{"TOKEN": {File: "/etc/token"}}
		}), ""},
		{"too many", many, ""},
		{"O-R16 qwen-code#10199: foo.bar", map[string]Server{"foo.bar": good}, ".foo.bar"},
		{"O-R16 qwen-code#10199: Sales Force", map[string]Server{"Sales Force": good}, ".Sales Force"},
		{"O-R16 qwen-code#10199: Sales:Force", map[string]Server{"Sales:Force": good}, ".Sales:Force"},
		{"the engine's own", map[string]Server{events.OwnerBuiltin: good}, "." + events.OwnerBuiltin},
		{"no command", with(func(s *Server) { s.Command = nil }), ".files.command"},
		{"a command from somewhere", with(func(s *Server) { s.Command = []string{"files"} }), ".files.command"},
		{"a command that goes up", with(func(s *Server) { s.Command = []string{"/bin/../files"} }), ".files.command"},
		{"too many words", with(func(s *Server) { s.Command = append(words, "/x"); s.Command[0] = "/bin/files" }), ".files.command"},
		{"a NUL", with(func(s *Server) { s.Command = []string{"/bin/files", "a\x00b"} }), ".files.command"},
		{"no name of a variable", with(func(s *Server) { s.Env = map[string]string{"A=B": "x"} }), ".files.env.A=B"},
		{"a value that is too long", with(func(s *Server) { s.ReadOnlyEnv = map[string]string{"A": strings.Repeat("x", maxText+1)} }), ".files.read_only_env.A"},
		{"too many variables", with(func(s *Server) { s.Env = env }), ".files.env"},
		{"a secret in two places", with(func(s *Server) {
			s.Env, s.Secrets = map[string]string{"T": "x"}, map[string]outlet.Source{"T": {Env: "T"}}
		}), ".files.env.T"},
		{"a secret from nowhere", with(func(s *Server) { s.Secrets = map[string]outlet.Source{"T": {}} }), ".files.secrets.T"},
		{"a secret itself", with(func(s *Server) { s.Secrets = map[string]outlet.Source{"T": {Env: "sk-123"}} }), ".files.secrets.T.env"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var got []string
			Check(row.all, func(at, _ string) { got = append(got, at) })
			want := []string{row.want}
			if row.want == "" && row.name != "too many" {
				want = nil
			}
			if !slices.Equal(got, want) {
				t.Errorf("faults at %q, want %q", got, want)
			}
		})
	}
}

// O-R19 qwen-code#6924: what a server says lowers nothing where nobody trusts it, and what
// it does not say counts as the worst.
func TestTier(t *testing.T) {
	yes, no := true, false
	for _, row := range []struct {
		name    string
		trusted bool
		hints   Hints
		want    events.Tier
	}{
		{"reads, does not destroy", false, Hints{&yes, &no}, events.Privileged},
		{"says nothing", false, Hints{}, events.Privileged},
		{"says both", false, Hints{&yes, &yes}, events.Privileged},
		{"trusted, says nothing", true, Hints{}, events.Privileged},
		{"trusted, reads", true, Hints{ReadOnly: &yes}, events.ReadOnly},
		{"trusted, reads and destroys", true, Hints{&yes, &yes}, events.Privileged},
		{"trusted, does not destroy", true, Hints{Destructive: &no}, events.Reversible},
		{"trusted, does not only read, and does not destroy", true, Hints{&no, &no}, events.Reversible},
		{"trusted, destroys", true, Hints{&no, &yes}, events.Privileged},
	} {
		if got := Tier(row.trusted, row.hints); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

// Everything that says how a server is started makes another version, and nothing else.
func TestLaunch(t *testing.T) {
	base := Server{Command: []string{"/bin/files"}, Env: map[string]string{"A": "1"}}
	for _, row := range []struct {
		name string
		edit func(*Server)
		same bool
	}{
		{"trusted", func(s *Server) { s.Trusted = true }, true},
		{"O-A15 CVE-2025-54136: another command", func(s *Server) { s.Command = []string{"/bin/other"} }, false},
		{"O-A15 CVE-2025-54136: an argument", func(s *Server) { s.Command = []string{"/bin/files", "--all"} }, false},
		{"a variable", func(s *Server) { s.Env = map[string]string{"A": "2"} }, false},
		{"a variable of phase 1", func(s *Server) { s.ReadOnlyEnv = map[string]string{"A": "1"} }, false},
		{"a secret", func(s *Server) { s.Secrets = map[string]outlet.Source{"T": {Env: "T"}} }, false},
		{"a secret from elsewhere", func(s *Server) { s.Secrets = map[string]outlet.Source{"T": {Env: "U"}} }, false},
		{"words that are one", func(s *Server) { s.Command = []string{"/bin/files A"} }, false},
	} {
		s := base
		row.edit(&s)
		if same := string(s.Launch()) == string(base.Launch()); same != row.same {
			t.Errorf("%s: the same version: %t", row.name, same)
		}
		changes := Compare(map[string]Server{"files": base}, map[string]Server{"files": s})
		if len(changes) != 1 || !changes[0].Widens {
			t.Errorf("%s: the change is %+v", row.name, changes)
		}
	}
	if got := Compare(nil, map[string]Server{"files": base}); len(got) != 1 || !got[0].Widens {
		t.Errorf("a new one: %+v", got)
	}
	if got := Compare(map[string]Server{"files": base}, nil); len(got) != 1 || got[0].Widens {
		t.Errorf("one less: %+v", got)
	}
	trusted := base
	trusted.Trusted = true
	if got := Compare(map[string]Server{"files": trusted}, map[string]Server{"files": base}); len(got) != 1 || got[0].Widens {
		t.Errorf("trusted no more: %+v", got)
	}
	if got := Compare(map[string]Server{"files": base}, map[string]Server{"files": base}); len(got) != 0 {
		t.Errorf("nothing: %+v", got)
	}
	if text := trusted.String(); text != "/bin/files, with A, trusted" {
		t.Errorf("for people it is %q", text)
	}
}

func TestEnvironment(t *testing.T) {
	s := Server{Env: map[string]string{"A": "1", "B": "1"}, ReadOnlyEnv: map[string]string{"A": "2"}}
	if got := fmt.Sprint(s.Environment(2), s.Environment(1), s.Environment(0)); got != "map[A:1 B:1] map[A:2 B:1] map[A:2 B:1]" {
		t.Error(got)
	}
	if got := (Server{ReadOnlyEnv: map[string]string{"A": "2"}}).Environment(1); got["A"] != "2" || s.Env["A"] != "1" {
		t.Errorf("%v, %v", got, s.Env)
	}
}
