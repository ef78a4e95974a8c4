package propose_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/handlers/engine"
	"gatebook/handlers/tools"
	"gatebook/handlers/tools/propose"
	"gatebook/infra/gitrepo"
	"gatebook/infra/pebblekv"
	"gatebook/policy"
	"gatebook/policy/proposal"
	"gatebook/projections/projectionstest"
	"gatebook/projections/rebuild"
)

const (
	content = "Sort the invoices.\n"
	commit  = "4f0c2d0f7a2d8f4a3f3b0f8f9c1d2e3f4a5b6c7d"
)

// desk is everything around the tool: a loop that answers, and a repository.
type desk struct {
	settings proposal.Settings
	answer   any
	writeErr error
	spoil    string // the path of a file of which the repository holds something else

	commits []propose.Commit
	asked   []*engine.ProposeAsset
	logged  []string
}

func (d *desk) Submit(_ context.Context, cmd engine.Command) error {
	p := cmd.(*engine.ProposeAsset)
	d.asked = append(d.asked, p)
	p.Answer(d.answer)
	return nil
}

func (d *desk) write(_ context.Context, _ string, c propose.Commit) (string, error) {
	d.commits = append(d.commits, c)
	return commit, d.writeErr
}

func (d *desk) read(_ context.Context, _, id, path string) ([]byte, error) {
	for _, f := range d.commits[len(d.commits)-1].Files {
		if id == commit && f.Path == path && path != d.spoil {
			return []byte(f.Content), nil
		}
	}
	return []byte("something else"), nil
}

// tool is over views in which alice has proposed before.md.
func (d *desk) tool(t *testing.T) tools.Tool {
	t.Helper()
	store, err := pebblekv.Open("views", pebblekv.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	book := projectionstest.NewBook(t, []events.Draft{
		eventstest.Draft(1, "", events.EngineStarted{Incarnation: eventstest.ID[events.Incarnation](0), Version: "test"}),
		eventstest.Draft(2, "alice", events.AssetRegistered{
			Asset: "A1", Type: "skill", Owner: "alice", Name: "before.md", Version: events.DigestOf([]byte(content)),
			Tier: events.Privileged, State: events.AssetStateBlocked, Commit: commit,
		}),
	})
	if err := rebuild.Fold(t.Context(), book, events.Codec{}, store, rebuild.Options{}); err != nil {
		t.Fatal(err)
	}
	return propose.New(propose.Config{
		Loop: d, Store: store, Settings: func() proposal.Settings { return d.settings }, Write: d.write, Read: d.read, BadPath: gitrepo.ValidPath,
		Mask: func(s string) (string, bool) {
			return strings.ReplaceAll(s, "canary", "…"), strings.Contains(s, "canary")
		},
		Log: func(level, text string) { d.logged = append(d.logged, level+" "+text) },
	})
}

func newDesk() *desk {
	return &desk{
		settings: proposal.Settings{Enabled: true, Repository: "/srv/repo", Kinds: map[events.AssetType]proposal.Kind{"skill": {Folder: "skills"}}},
		answer:   engine.AssetAnswer{Asset: "A9"},
	}
}

func asked(name, content, text string) jsontext.Value {
	raw, _ := json.Marshal(map[string]string{"kind": "skill", "name": name, "content": content, "document": text})
	return raw
}

func TestDecode(t *testing.T) {
	good := asked("tidy.md", content, "It sorts.")
	for _, row := range []struct {
		name  string
		args  jsontext.Value
		field string // empty: it is taken
	}{
		{"good", good, ""},
		{"in a folder", asked("a/b.yaml", content, "x"), ""},
		{"O-G06 fletch#564: content of a program", asked("run", "#!/bin/sh\n", "x"), ""},
		{"O-G06 fletch#564: content of a link", asked("run", "../../etc/passwd", "x"), ""},
		{"O-G02 CVE-2025-68144: --output", asked("--output=pwn.txt", content, "x"), "name"},
		{"O-G02 git-mcp-server#53: -f", asked("-f", content, "x"), "name"},
		{"O-G02 gogs#8390: an option in a folder", asked("a/--upload-pack=x", content, "x"), "name"},
		{"O-G03 CVE-2019-1352: .git", asked(".git/hooks/pre-commit", content, "x"), "name"},
		{"O-G03 mcpvault#115: .GIT", asked(".GIT/config", content, "x"), "name"},
		{"O-G03 dulwich#2298: git~1", asked("git~1/config", content, "x"), "name"},
		{"O-G03 CVE-2019-1352: .git.", asked(".git./config", content, "x"), "name"},
		{"O-G03 CVE-2019-1352: .git and a space", asked(".git /config", content, "x"), "name"},
		{"O-G03 CVE-2019-1352: a stream", asked(".git::$INDEX_ALLOCATION/config", content, "x"), "name"},
		{"O-G03 oh-my-pi#11375: a character that nobody sees", asked(".g\u200cit/config", content, "x"), "name"},
		{"O-G03 dulwich#2298: below a folder", asked("sub/.git/config", content, "x"), "name"},
		{"O-G04 CVE-2026-27735: outside", asked("../../OUT/secret.txt", content, "x"), "name"},
		{"O-G04 CVE-2026-27735: absolute", asked("/etc/passwd", content, "x"), "name"},
		{"O-G06 atlascode#1918: .gitattributes", asked(".gitattributes", content, "x"), "name"},
		{"O-G06 atlascode#1918: sub/.gitattributes", asked("sub/.gitattributes", content, "x"), "name"},
		{"O-G06 atlascode#1918: .gitmodules", asked(".gitmodules", content, "x"), "name"},
		{"O-G06 atlascode#1918: .gitignore", asked(".gitignore", content, "x"), "name"},
		{"O-G06 atlascode#1918: .lfsconfig", asked(".lfsconfig", content, "x"), "name"},
		{"O-G06 atlascode#1918: .mailmap", asked(".mailmap", content, "x"), "name"},
		{"the name of a document", asked("tidy.md.proposal.md", content, "x"), "name"},
		{"O-R21 claude-code#86196: a file to take it from", jsontext.Value(`{"kind":"skill","name":"x","path":"private/x","document":"x"}`), "path"},
		{"O-G05 CVE-2025-54135: a tier", jsontext.Value(`{"kind":"skill","name":"x","content":"x","document":"x","tier":"reversible"}`), "tier"},
		{"O-R20 go-sdk#805: twice", jsontext.Value(`{"kind":"skill","name":"x","name":"y","content":"x","document":"x"}`), "name"},
		{"O-R20 go-sdk#805: another case", jsontext.Value(`{"Kind":"skill","name":"x","content":"x","document":"x"}`), "Kind"},
		{"no content", asked("x", "", "x"), "content"},
		{"no document", asked("x", "x", " "), "document"},
		{"a NUL", asked("x", "a\x00b", "x"), "content"},
		{"too large", asked("x", strings.Repeat("x", proposal.MaxContent+1), "x"), "content"},
		{"a document that is too large", asked("x", "x", strings.Repeat("x", proposal.MaxText+1)), "document"},
		{"a secret", asked("x", "canary", "x"), "content"},
		{"a secret in the document", asked("x", "x", "canary"), "document"},
		{"a secret as a name", asked("canary", "x", "x"), "name"},
		{"nothing", jsontext.Value(`null`), "kind"},
		{"a list", jsontext.Value(`[]`), "request"},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := newDesk()
			_, err := d.tool(t).Decode(row.args)
			var bad *policy.Malformed
			field := ""
			if errors.As(err, &bad) {
				field = strings.Trim(bad.Field, `"/`)
			}
			if field != row.field || (err == nil) != (row.field == "") {
				t.Errorf("%v, want a fault of %q", err, row.field)
			}
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("the fault holds the secret: %v", err)
			}
			if len(d.commits)+len(d.asked) > 0 {
				t.Error("decoding touches something")
			}
		})
	}
}

func run(t *testing.T, d *desk, args jsontext.Value) (jsontext.Value, error) {
	t.Helper()
	tool := d.tool(t)
	decoded, err := tool.Decode(args)
	if err != nil {
		t.Fatal(err)
	}
	return tool.Run(t.Context(), tools.Env{Agent: "alice", Call: "C1", Round: "R1", Cause: "E1", Now: 1_700_000_000_000_000}, decoded.Args)
}

func TestProposes(t *testing.T) {
	d := newDesk()
	got, err := run(t, d, asked("tidy.md", content, "It sorts."))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"asset":"A9"`, `"state":"blocked"`, `"commit":"` + commit, `"path":"skills/alice/tidy.md"`, `"branch":"proposals/alice/c1"`} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s has no %s", got, want)
		}
	}
	if len(d.commits) != 1 || len(d.asked) != 1 {
		t.Fatalf("%d commits, %d records", len(d.commits), len(d.asked))
	}
	c, p := d.commits[0], d.asked[0]
	if c.Files[0] != (propose.File{Path: "skills/alice/tidy.md", Content: content}) || c.Files[1].Content != p.Document || c.Author != "alice" {
		t.Errorf("the commit is %+v", c)
	}
	if p.Commit != commit || p.Cause != "E1" || p.Proposal.Version() != events.DigestOf([]byte(content)) || p.Proposal.Agent != "alice" {
		t.Errorf("asked for %+v", p)
	}
}

// Whatever goes wrong, nothing is on record that the repository does not hold, and no
// agent hears of a path of the machine.
func TestRefused(t *testing.T) {
	for _, row := range []struct {
		name    string
		edit    func(*desk)
		file    string
		rule    string // of a refusal; empty: an error
		text    string
		commits int
		asked   int
	}{
		{"off", func(d *desk) { d.settings.Enabled = false }, "x", "off", "off", 0, 0},
		{"another kind", func(d *desk) { d.settings.Kinds = map[events.AssetType]proposal.Kind{"policy": {}} }, "x", "kind", "the kinds are policy", 0, 0},
		{"proposed before", func(*desk) {}, "before.md", "conflict", "it is asset A1, blocked", 0, 0},
		{"something is in the way", func(d *desk) { d.writeErr = fmt.Errorf("%w: /srv/repo", propose.ErrConflict) }, "x", "conflict", "choose another name", 1, 0},
		{"the repository is gone", func(d *desk) { d.writeErr = errors.New("open /srv/repo: no such file") }, "x", "", "cannot be written", 1, 0},
		{"O-G07 fletch#564: the repository holds another content", func(d *desk) { d.spoil = "skills/alice/x" }, "x", "", "cannot be written", 1, 0},
		{"O-G07 fletch#564: the repository holds another document", func(d *desk) { d.spoil = "skills/alice/x.proposal.md" }, "x", "", "cannot be written", 1, 0},
		{"the loop refuses", func(d *desk) {
			d.answer = engine.Refused{Error: engine.Problem{Code: "conflict", Reason: "it is asset A2"}}
		}, "x", "conflict", "it is asset A2", 1, 1},
		{"the loop says something else", func(d *desk) { d.answer = 7 }, "x", "", "answered with a int", 1, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := newDesk()
			row.edit(d)
			got, err := run(t, d, asked(row.file, content, "It sorts."))
			if err == nil {
				t.Fatalf("it answers %s", got)
			}
			var no *tools.Refused
			rule := ""
			if errors.As(err, &no) {
				rule = no.Rule
			}
			if rule != row.rule || !strings.Contains(err.Error(), row.text) || strings.Contains(err.Error(), "/srv") {
				t.Errorf("%q (%v), want rule %q and %q", rule, err, row.rule, row.text)
			}
			if len(d.commits) != row.commits || len(d.asked) != row.asked {
				t.Errorf("%d commits and %d records, want %d and %d", len(d.commits), len(d.asked), row.commits, row.asked)
			}
			if d.writeErr != nil && row.rule == "" && (len(d.logged) != 1 || !strings.Contains(d.logged[0], "/srv/repo")) {
				t.Errorf("people read %q", d.logged)
			}
		})
	}
}

// The arguments of another tool are no proposal.
func TestOther(t *testing.T) {
	if _, err := newDesk().tool(t).Run(t.Context(), tools.Env{}, "x"); err == nil {
		t.Error("it takes them")
	}
}
