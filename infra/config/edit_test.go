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
	if left, err := RemoveAgent(data, "alice"); err != nil || !strings.Contains(string(left), "    agents: []\n    senders:\n      \"12345\"") {
		t.Errorf("an agent that a channel names: %v\n%s", err, left)
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

// An agent goes out of the lists of channels too, however they are written.
func TestRemoveFromLists(t *testing.T) {
	const head = "schema: 1\nroles: {r: {version: 1}}\nchannels:\n  c:\n    key: KEY1\n"
	const tail = "    guest: {profile: none} # g\nagents:\n  a: {role: r, key: KEY2}\n  b: {role: r, key: KEY3}\n"
	for _, tc := range []struct{ name, before, after string }{
		{"first", "    agents: [b, a] # x\n", "    agents: [a] # x\n"},
		{"last", "    agents: [ a, b ] # x\n", "    agents: [ a ] # x\n"},
		{"only", "    agents: [b]\n", "    agents: []\n"},
		{"twice, quoted", "    agents: [\"b\", a, 'b']\n", "    agents: [a]\n"},
		{"nothing but twice", "    agents: [b, b,]\n", "    agents: []\n"},
		{"every agent", "    agents: [\"*\"]\n", "    agents: [\"*\"]\n"},
		{"brackets over lines", "    agents: [\n      a, # of a\n      b # of b\n    ]\n", "    agents: [\n      a, # of a\n    ]\n"},
		{"brackets over lines, first", "    agents: [b, # of b\n      a]\n", "    agents: [ # of b\n      a]\n"},
		{"dashes", "    agents: # who\n      # one\n      - a # of a\n      # two\n      - b # of b\n", "    agents: # who\n      # one\n      - a # of a\n      # two\n"},
		{"dashes, first", "    agents:\n    - \"b\"\n    - a\n", "    agents:\n    - a\n"},
		{"dashes, only", "    agents: # who\n      # one\n      - b\n      - b\n", "    agents: [] # who\n      # one\n"},
		{"a second channel", "    agents: [b]\n  d: {key: KEY4, agents: [b, a]}\n  e:\n    key: KEY5\n    agents:\n      - b\n", "    agents: []\n  d: {key: KEY4, agents: [a]}\n  e:\n    key: KEY5\n    agents: []\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, end := range []string{"\n", "\r\n"} {
				keys := strings.NewReplacer("KEY1", string(key(1)), "KEY2", string(key(2)), "KEY3", string(key(3)), "KEY4", string(key(4)), "KEY5", string(key(5)), "\n", end)
				before := keys.Replace(head + tc.before + tail)
				after := keys.Replace(head + tc.after + strings.TrimSuffix(tail, "  b: {role: r, key: KEY3}\n"))
				got, err := RemoveAgent([]byte(before), "b")
				if err != nil || string(got) != after {
					t.Errorf("%v\ngot\n%q\nwant\n%q", err, got, after)
				}
			}
		})
	}
}

// What cannot be edited is told place by place.
func TestRemoveByHand(t *testing.T) {
	a, b := "a: {role: r, key: "+string(key(2))+"}", "b: {role: r, key: "+string(key(3))+"}"
	agents := "agents:\n  " + a + "\n  " + b + "\n"
	const head = "schema: 1\nroles: {r: {version: 1}}\n"
	channel := "channels:\n  c:\n    key: " + string(key(1)) + "\n    agents: "
	for _, tc := range []struct{ name, yaml, want string }{
		{"entries in one line", head + "agents: {" + a + ", " + b + "}\n" + channel + "[b]\n", "3:87 7:14"},
		{"a comma before the next item", head + channel + "[b\n      , a]\n" + agents, "6:14 10:3"},
		{"an escape", head + channel + "[a, \"\\x62\"]\n" + agents, "6:17 9:3"},
	} {
		out, err := RemoveAgent([]byte(tc.yaml), "b")
		if !errors.Is(err, ErrByHand) || places(err) != tc.want || out != nil {
			t.Errorf("%s: faults at %q, want %q\n%v\n%s", tc.name, places(err), tc.want, err, tc.yaml)
		}
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
