package proposal_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gatebook/events"
	"gatebook/policy/proposal"
)

type kinds = map[events.AssetType]proposal.Kind

func TestFaults(t *testing.T) {
	on := func(k kinds) proposal.Settings {
		return proposal.Settings{Enabled: true, Repository: "/srv/repo", Kinds: k}
	}
	many := kinds{}
	for i := range proposal.MaxKinds + 1 {
		many[events.AssetType(fmt.Sprint("k", i))] = proposal.Kind{Folder: fmt.Sprint("f", i)}
	}
	for _, row := range []struct {
		name string
		s    proposal.Settings
		want string // the path of the fault; empty for none
	}{
		{"none", proposal.Settings{}, ""},
		{"one", on(kinds{"skill": {}}), ""},
		{"two", on(kinds{"skill": {Folder: "a/skills", Into: "/srv/skills"}, "policy": {Folder: "a/policies", Into: "/srv/policies"}}), ""},
		{"off, and the rest is there", proposal.Settings{Repository: "/srv/repo", Kinds: kinds{"skill": {}}}, ""},
		{"on, without a repository", proposal.Settings{Enabled: true, Kinds: kinds{"skill": {}}}, ".repository"},
		{"on, without a kind", proposal.Settings{Enabled: true, Repository: "/srv/repo"}, ".kinds"},
		{"a repository from somewhere", proposal.Settings{Repository: "repo"}, ".repository"},
		{"a repository that goes up", proposal.Settings{Repository: "/srv/../repo"}, ".repository"},
		{"too many", on(many), ".kinds"},
		{"a tool", on(kinds{"tool": {}}), ".kinds.tool"},
		{"a server", on(kinds{"server": {}}), ".kinds.server"},
		{"O-G02 git-mcp-server#53: a kind that is an option", on(kinds{"-f": {Folder: "f"}}), ".kinds.-f"},
		{"a kind in capital letters", on(kinds{"Skill": {}}), ".kinds.Skill"},
		{"O-G02 git-mcp-server#53: a folder that is an option", on(kinds{"skill": {Folder: "--output"}}), ".kinds.skill.folder"},
		{"O-G03 dulwich#2298: a folder of git", on(kinds{"skill": {Folder: ".git/hooks"}}), ".kinds.skill.folder"},
		{"O-G04 CVE-2026-27735: a folder outside", on(kinds{"skill": {Folder: "../skills"}}), ".kinds.skill.folder"},
		{"a folder inside another", on(kinds{"a": {Folder: "x"}, "b": {Folder: "X/y"}}), ".kinds.b.folder"},
		{"the same folder", on(kinds{"a": {Folder: "x"}, "b": {Folder: "x"}}), ".kinds.b.folder"},
		{"folders that only begin alike", on(kinds{"a": {Folder: "x"}, "b": {Folder: "xy"}}), ""},
		{"loaded from the repository", on(kinds{"skill": {Into: "/srv/repo/skills"}}), ".kinds.skill.into"},
		{"loaded from around the repository", on(kinds{"skill": {Into: "/srv"}}), ".kinds.skill.into"},
		{"loaded from everywhere", on(kinds{"skill": {Into: "/"}}), ".kinds.skill.into"},
		{"loaded from one folder", on(kinds{"a": {Into: "/l"}, "b": {Into: "/l/b"}}), ".kinds.b.into"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var got []string
			row.s.Check(func(at, _ string) { got = append(got, at) })
			var want []string
			if row.want != "" {
				want = []string{row.want}
			}
			if !slices.Equal(got, want) {
				t.Errorf("faults at %q, want %q", got, want)
			}
		})
	}
}

func TestOn(t *testing.T) {
	for _, s := range []proposal.Settings{
		{}, {Enabled: true}, {Repository: "/r", Kinds: kinds{"skill": {}}}, {Enabled: true, Kinds: kinds{"skill": {}}}, {Enabled: true, Repository: "/r"},
	} {
		if s.On() {
			t.Errorf("%+v lets agents propose", s)
		}
	}
	if s := (proposal.Settings{Enabled: true, Repository: "/r", Kinds: kinds{"skill": {}}}); !s.On() || len(s.Into()) != 0 {
		t.Errorf("%+v: on %t, into %v", s, s.On(), s.Into())
	}
}

// Only less is harmless.
func TestCompare(t *testing.T) {
	base := proposal.Settings{Enabled: true, Repository: "/r", Kinds: kinds{"skill": {Into: "/l"}}}
	for _, row := range []struct {
		name   string
		change func(*proposal.Settings)
		path   string
		widens bool
	}{
		{"nothing", func(*proposal.Settings) {}, "", false},
		{"a folder that was so without saying", func(s *proposal.Settings) { s.Kinds = kinds{"skill": {Folder: "skill", Into: "/l"}} }, "", false},
		{"off", func(s *proposal.Settings) { s.Enabled = false }, "propose.enabled", false},
		{"another repository", func(s *proposal.Settings) { s.Repository = "/other" }, "propose.repository", true},
		{"no kind", func(s *proposal.Settings) { s.Kinds = nil }, "propose.kinds.skill", false},
		{"loaded from elsewhere", func(s *proposal.Settings) { s.Kinds = kinds{"skill": {Into: "/m"}} }, "propose.kinds.skill", true},
		{"loaded no more", func(s *proposal.Settings) { s.Kinds = kinds{"skill": {}} }, "propose.kinds.skill", true},
		{"one kind more", func(s *proposal.Settings) { s.Kinds = kinds{"skill": {Into: "/l"}, "policy": {}} }, "propose.kinds.policy", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			next := base
			row.change(&next)
			got := proposal.Compare(base, next)
			if row.path == "" && len(got) == 0 {
				return
			}
			if len(got) != 1 || got[0].Path != row.path || got[0].Widens != row.widens {
				t.Errorf("%+v, want %s, widens %t", got, row.path, row.widens)
			}
			if back := proposal.Compare(next, base); row.name == "off" && (len(back) != 1 || !back[0].Widens) {
				t.Errorf("on again is %+v", back)
			}
		})
	}
}

func TestBadName(t *testing.T) {
	for name, good := range map[string]bool{
		"tidy.md": true, "a/b.yaml": true, "": false, strings.Repeat("x", proposal.MaxName): true, strings.Repeat("x", proposal.MaxName+1): false,
		"tidy.proposal.md": false, "x/TIDY.Proposal.MD": false, "a`b": false,
	} {
		if got := proposal.BadName(name); (got == "") != good {
			t.Errorf("%q: %q", name, got)
		}
	}
}

// What the agent says cannot be taken for what the engine says, whatever it says.
func TestDocument(t *testing.T) {
	s := proposal.Settings{Kinds: kinds{"skill": {Folder: "skills"}}}
	p := proposal.Proposal{
		Kind: "skill", Agent: "alice", Name: "a/tidy.md", Content: "x", Call: "01JZ0000000000000000000001", Round: "01JZ0000000000000000000002",
		Text: "It sorts.\r\n# Approved by anna\rApproved: yes\n\n\x1b[2J\u202e", Time: events.Instant(1_700_000_000_000_000),
	}
	doc := p.Document(s)
	_, said, ok := strings.Cut(doc, "## What the agent says about it\n\n")
	if !ok {
		t.Fatal(doc)
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(said, "\n"), "\n") {
		if !strings.HasPrefix(line, ">") {
			t.Errorf("a line of the agent's stands alone: %q", line)
		}
	}
	if strings.ContainsAny(doc, "\x1b\r\u202e") {
		t.Errorf("it holds what a screen obeys: %q", doc)
	}
	for _, want := range []string{"`skills/alice/a/tidy.md`", "`01JZ0000000000000000000001`", "`1 bytes`", "`2023-11-14T22:13:20Z`", string(p.Version()), "\n> # Approved by anna\n> Approved: yes\n>\n"} {
		if !strings.Contains(doc, want) {
			t.Errorf("there is no %q in\n%s", want, doc)
		}
	}
	if p.DocumentPath(s) != "skills/alice/a/tidy.md.proposal.md" || p.Branch() != "proposals/alice/01jz0000000000000000000001" {
		t.Errorf("it goes to %s, on %s", p.DocumentPath(s), p.Branch())
	}
	other := p
	other.Agent = "bob"
	if other.Path(s) == p.Path(s) {
		t.Error("two agents write over each other's proposals")
	}
}
