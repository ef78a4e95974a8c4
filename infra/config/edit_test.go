package config

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"gatebook/events"
	"gatebook/policy"
)

func TestAddGolden(t *testing.T) {
	data, err := AddAgent(firstFile(), "alice", policy.Agent{Role: "worker", Key: key(10)})
	if err != nil {
		t.Fatal(err)
	}
	data, err = AddChannel(data, "bot", policy.Channel{
		Key: key(11), Agents: []string{"alice"}, Guest: policy.Guest{Kind: events.PrincipalGroup, Profile: "guest"},
		Senders: map[string]policy.Sender{
			"12345":      {Principal: "anna", Kind: events.PrincipalUser, Profile: "work"},
			"Zoë: \"#\"": {Principal: "zoe", Kind: events.PrincipalUser, Profile: "none"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	data, err = AddPerson(data, "sven", policy.Person{Key: key(12), Supervisor: true, ObservableAgents: []string{"alice"}})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "added.yaml", data)
	again, err := AddPerson(data, "sven", policy.Person{Key: key(12), Supervisor: true, ObservableAgents: []string{"alice"}})
	if err != nil || !bytes.Equal(again, data) {
		t.Errorf("the same entry twice: %v", err)
	}
	if _, err := AddAgent(data, "alice", policy.Agent{Role: "worker", Key: key(99)}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("another entry: %v", err)
	}
	if _, err := RemoveAgent(data, "alice"); !errors.Is(err, policy.ErrCatalog) {
		t.Errorf("an agent that a channel names: %v", err)
	}
	if _, err := RemoveAgent(data, "bob"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nobody: %v", err)
	}
}

func TestAddRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, yaml string
		id         events.AgentID
		agent      policy.Agent
		want       error
	}{
		{"unknown role", "schema: 1\n", "alice", policy.Agent{Role: "gone", Key: key(1)}, policy.ErrCatalog},
		{"malformed id", "schema: 1\nroles: {r: {version: 1}}\n", "A b", policy.Agent{Role: "r", Key: key(1)}, policy.ErrCatalog},
		{"id that would be YAML", "schema: 1\nroles: {r: {version: 1}}\n", "a:\n  b", policy.Agent{Role: "r", Key: key(1)}, policy.ErrCatalog},
		{"a key with a letter changed", "schema: 1\nroles: {r: {version: 1}}\n", "alice", policy.Agent{Role: "r", Key: events.PublicKey(wrongKey(key(1)))}, policy.ErrCatalog},
		{"a key in use", "schema: 1\nroles: {r: {version: 1}}\npeople: {p: {key: " + string(key(1)) + "}}\n", "alice", policy.Agent{Role: "r", Key: key(1)}, policy.ErrCatalog},
		{"file with a fault", "schema: 2\n", "alice", policy.Agent{}, policy.ErrCatalog},
		{"written in one line", "{schema: 1, roles: {r: {version: 1}}}\n", "alice", policy.Agent{Role: "r", Key: key(1)}, ErrByHand},
		{"section in one line", "schema: 1\nroles: {r: {version: 1}}\nagents: {b: {role: r, key: " + string(key(2)) + "}}\n", "alice", policy.Agent{Role: "r", Key: key(1)}, ErrByHand},
		{"section is null", "schema: 1\nroles: {r: {version: 1}}\nagents: ~\n", "alice", policy.Agent{Role: "r", Key: key(1)}, nil},
	} {
		out, err := AddAgent([]byte(tc.yaml), tc.id, tc.agent)
		if tc.want == nil && err == nil {
			continue // whatever it does, it was read again and means what was asked
		}
		if tc.want == nil {
			tc.want = policy.ErrCatalog
			if !errors.Is(err, tc.want) {
				tc.want = ErrByHand
			}
		}
		if !errors.Is(err, tc.want) || out != nil {
			t.Errorf("%s: %v\n%s", tc.name, err, out)
		}
	}
}

func TestEditsKeepTheRest(t *testing.T) {
	k := string(key(1))
	entry := func(indent string) string {
		return indent + "bob:\n" + indent + "  role: r\n" + indent + "  key: " + string(key(2)) + "\n"
	}
	const head = "schema: 1 # one\nroles: {r: {version: 1}}\n"
	for _, tc := range []struct{ name, before, after string }{
		{"section missing", head, head + "agents:\n" + entry("  ")},
		{"no line end at the end", strings.TrimSuffix(head, "\n"), head + "agents:\n" + entry("  ")},
		{"empty braces", head + "agents: {} # none\nphase: 1\n", head + "agents: # none\n" + entry("  ") + "phase: 1\n"},
		{"nothing after the colon", head + "agents: # none\nphase: 1\n", head + "agents: # none\n" + entry("  ") + "phase: 1\n"},
		{"four spaces, comments inside and after",
			head + "agents:\n    # first\n    a:\n        role: r # x\n        key: " + k + "\n    # last of the section\n\n# of the phase\nphase: 1\n",
			head + "agents:\n    # first\n    a:\n        role: r # x\n        key: " + k + "\n    # last of the section\n" + entry("    ") + "\n# of the phase\nphase: 1\n"},
		{"section at the end", "agents:\n  a: {role: r, key: " + k + "}\n" + head, "agents:\n  a: {role: r, key: " + k + "}\n" + entry("  ") + head},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, end := range []string{"\n", "\r\n"} {
				before, after := strings.ReplaceAll(tc.before, "\n", end), strings.ReplaceAll(tc.after, "\n", end)
				got, err := AddAgent([]byte(before), "bob", policy.Agent{Role: "r", Key: key(2)})
				if err != nil || string(got) != after {
					t.Errorf("%v\ngot\n%q\nwant\n%q", err, got, after)
				}
			}
		})
	}
}

func TestRemoveKeepsTheRest(t *testing.T) {
	a, b := "  a:\n    role: r\n    key: "+string(key(1))+" # of a\n", "  b:\n    role: r\n\n    # deep in b\n    key: "+string(key(2))+"\n"
	const head = "schema: 1\nroles: {r: {version: 1}}\nagents:\n"
	const tail = "\n# of the phase\nphase: 1\n"
	for _, tc := range []struct{ name, id, before, after string }{
		{"first", "a", head + a + "  # of b\n" + b + tail, head + "  # of b\n" + b + tail},
		{"last", "b", head + a + "  # of b\n" + b + tail, head + a + "  # of b\n" + tail},
		{"only", "a", head + a + tail, head + tail},
		{"at the end of the file", "b", head + a + b, head + a},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := RemoveAgent([]byte(tc.before), events.AgentID(tc.id))
			if err != nil || string(got) != tc.after {
				t.Errorf("%v\ngot\n%s\nwant\n%s", err, got, tc.after)
			}
		})
	}
}

// An edit that reads back as something else than was asked is not given out.
func TestEditsAreProved(t *testing.T) {
	data := []byte("schema: 1\nphase: 1\n")
	if out, err := textOf(data).proved(policy.Catalog{Schema: 1, Phase: 2}, nil); !errors.Is(err, ErrByHand) || out != nil {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := textOf(data).proved(policy.Catalog{Schema: 1, Phase: 1}, nil); err != nil || !bytes.Equal(out, data) {
		t.Errorf("%q, %v", out, err)
	}
}
