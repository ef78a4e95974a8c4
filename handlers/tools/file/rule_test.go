package file_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nkeys"

	"gatebook/events"
	"gatebook/handlers/tools"
	"gatebook/policy"
	"gatebook/policy/paths"
)

// gate decides calls of alice under one rule on paths, as the engine asks it.
type gate struct {
	t *testing.T
	c *policy.Compiled
}

// newGate allows the tools, in role and profile; the rule is a denial to everybody or
// the limit of every grant.
func newGate(t *testing.T, names []string, denied, granted []string) gate {
	grants := []policy.Rule{{Scope: "files", Paths: granted}}
	c := policy.Catalog{
		Schema: 1, Phase: 2,
		Scopes:   map[string]policy.Scope{"files": {Tools: names}},
		Profiles: map[string]policy.Profile{"work": {Tools: names}},
		Roles:    map[string]policy.Role{"worker": {Version: 1, Grants: grants}},
		Agents:   map[events.AgentID]policy.Agent{"alice": {Role: "worker", Key: publicKey(t)}},
	}
	if len(denied) > 0 {
		c.Baseline.Deny = []policy.Rule{{Scope: "files", Paths: denied}}
	}
	compiled, err := policy.Compile(c)
	if err != nil {
		t.Fatal(err)
	}
	return gate{t, compiled}
}

func publicKey(t *testing.T) events.PublicKey {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	key, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return events.PublicKey(key)
}

// asks says whether a call of a tool with these paths is allowed; a refusal is the
// error "<layer> <rule>".
func (g gate) asks(tool, arguments string, given []paths.Path) error {
	g.t.Helper()
	const handle = events.Digest("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	d := policy.DecideCall(g.c, policy.CallRequest{
		Agent: "alice", Round: "R", HandleHash: handle, Paths: given, Args: jsontext.Value(arguments),
		Tool: events.ToolKey{Owner: events.OwnerBuiltin, Name: tool},
	}, policy.CallFacts{
		Agent: policy.AgentFacts{Enrolled: true},
		Round: policy.RoundFacts{
			Round: "R", Agent: "alice", Channel: "terminal", HandleHash: handle, Open: true, Session: "work",
			Principal: events.Principal{ID: "anna", Kind: events.PrincipalUser},
		},
		Tool: policy.ToolFacts{Known: true},
	}).Decided
	if d.Verdict != events.Allow {
		return errors.New(string(d.Layer) + " " + d.Rule)
	}
	return nil
}

// call asks the gate and runs what it allows.
func (g gate) call(h *house, tool, arguments string) (string, error) {
	decoded, err := h.tools[tool].Decode(jsontext.Value(arguments))
	g.must(err)
	if err := g.asks(tool, arguments, decoded.Paths); err != nil {
		return "", err
	}
	h.calls++
	found := func(p paths.Path) error { return g.asks(tool, arguments, append(decoded.Paths, p)) }
	result, err := h.tools[tool].Run(g.t.Context(), tools.Env{May: found, Agent: "alice", Call: callID(h.calls), Now: 1}, decoded.Args)
	return string(result), err
}

func (g gate) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// byPath are the tools that name paths.
func byPath() (names []string) {
	seen := map[string]bool{}
	for _, w := range append(ways(), restoring("")) {
		if !seen[w.tool()] {
			seen[w.tool()] = true
			names = append(names, w.tool())
		}
	}
	return names
}

// restoring brings an entry back to a path.
func restoring(id events.CallID) way {
	return way{"file.restore path", "path", func(p string) string { return args("id", id, "path", p) }}
}

// ruleHouse has a secret in deep/private, one like it in the trash, and what is free.
func ruleHouse(t *testing.T) (*house, way) {
	h := newHouse(t)
	h.put(h.ws+"/other.txt", "old")
	h.put(h.ws+"/deep/public.txt", "old")
	h.put(h.ws+"/deep/private/secret.txt", canary)
	id := ok[deleted](t, h, "file.delete", `{"path":"ok.txt"}`).ID
	h.put(h.ws+"/ok.txt", "ok")
	return h, restoring(id)
}

// TestOneRuleForEveryTool: whichever tool reaches for it, and by whichever argument,
// what a rule keeps is kept.
func TestOneRuleForEveryTool(t *testing.T) {
	below := map[string]bool{"file.search": true, "file.delete": true, "file.copy from": true, "file.copy to": true,
		"file.move from": true, "file.move to": true, "file.restore path": true}
	deny := newGate(t, byPath(), []string{"deep/private/**"}, nil)
	grant := newGate(t, byPath(), nil, []string{"deep/*.txt", "ok.txt", "copied", "moved"})
	for _, row := range []struct {
		path             string
		gate             gate
		refused, onBelow string // by what; onBelow is for tools that act on all below a folder
	}{
		{"deep/private/secret.txt", deny, "baseline deny", "baseline deny"},
		{"Deep/PRIVATE/secret.txt", deny, "baseline deny", "baseline deny"},
		{"deep/x/../private/./secret.txt", deny, "baseline deny", "baseline deny"},
		{"deep/private", deny, "baseline deny", "baseline deny"},
		{"deep/private/new/file", deny, "baseline deny", "baseline deny"},
		{"deep", deny, "", "baseline deny"},
		{".", deny, "", "baseline deny"},
		{"deep/public.txt", deny, "", ""},
		{"deep/public.txt", grant, "", ""},
		{"deep/private/secret.txt", grant, "role paths", "role paths"},
		{"other.txt", grant, "role paths", "role paths"},
		{"deep", grant, "role paths", "role paths"},
	} {
		_, restore := ruleHouse(t)
		for _, w := range append(ways(), restore) {
			h, _ := ruleHouse(t)
			want := row.refused
			if below[w.name] {
				want = row.onBelow
			}
			before := h.inside()
			result, err := row.gate.call(h, w.tool(), w.args(row.path))
			got := ""
			if err != nil && (strings.HasPrefix(err.Error(), "baseline ") || strings.HasPrefix(err.Error(), "role ")) {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%s %s: %q, want %q (%v)", w.name, row.path, got, want, err)
			}
			if want != "" && h.inside() != before {
				t.Errorf("%s %s was refused and changed the workspace", w.name, row.path)
			}
			if kept, err := os.ReadFile(h.ws + "/deep/private/secret.txt"); string(kept) != canary || err != nil {
				t.Errorf("%s %s: the secret is %q %v", w.name, row.path, kept, err)
			}
			if strings.Contains(result, canary) {
				t.Errorf("%s %s shows %s", w.name, row.path, result)
			}
		}
	}
}

// TestRuleOnWhatIsFound: a thing from a path that is denied is not brought back to
// another one.
func TestRuleOnWhatIsFound(t *testing.T) {
	h, _ := ruleHouse(t)
	id := ok[deleted](t, h, "file.delete", `{"path":"deep/private"}`).ID
	before := h.inside()
	_, err := newGate(t, byPath(), []string{"deep/private/**"}, nil).call(h, "file.restore", args("id", id, "path", "free"))
	if err == nil || err.Error() != "baseline deny" || h.inside() != before {
		t.Errorf("%v", err)
	}
}
