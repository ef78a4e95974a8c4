package policy

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"gatebook/events"
)

// askGate is a call of file.write with a path, or of another tool, decided under the
// sample with edits.
func askGate(t testing.TB, tool, args string, edit func(*Catalog), facts CallFacts, paths ...string) events.CallDecided {
	t.Helper()
	req := request(tool, paths...)
	req.Args = jsontext.Value(args)
	return DecideCall(compiled(t, edit), req, facts).Decided
}

func grants(rules ...Rule) func(*Catalog) {
	return func(c *Catalog) { c.Roles["worker"] = Role{Version: 1, Grants: rules} }
}

func TestGrantLimits(t *testing.T) {
	planner := grants(
		Rule{Tool: "file.read"},
		Rule{Tool: "file.write", Paths: []string{"docs/intent/<slug>.md"}, CreateOnly: true, MaxPerRound: 1})
	exact := grants(Rule{Tool: "file.write", Exact: jsontext.Value(`{"content":"x","path":"a"}`)})
	used := facts()
	used.Round.Used = 1
	for _, row := range []struct {
		name  string
		edit  func(*Catalog)
		facts CallFacts
		args  string
		path  string
		want  string
	}{
		{"control: a path of the pattern", planner, facts(), "", "docs/intent/new-plan.md", "allow  "},
		{"a path beside it", planner, facts(), "", "docs/intent/New.md", "deny role paths"},
		{"a path below it", planner, facts(), "", "docs/intent/a/b.md", "deny role paths"},
		{"leaves the workspace, which is said first", planner, facts(), "", "../docs/intent/a.md", "deny role workspace"},
		{"a second one in the round", planner, used, "", "docs/intent/b.md", "deny role max_per_round"},
		{"paths that are not known", planner, facts(), "", "", "deny role paths"},
		{"exactly the arguments", exact, facts(), `{"content":"x","path":"a"}`, "a", "allow  "},
		{"one byte more", exact, facts(), `{"content":"xy","path":"a"}`, "a", "deny role exact"},
		{"one member more", exact, facts(), `{"content":"x","path":"a","z":1}`, "a", "deny role exact"},
		{"arguments that are not known", exact, facts(), ``, "a", "deny role exact"},
		{"another grant covers it", grants(Rule{Tool: "file.write", Paths: []string{"b"}}, Rule{Scope: "files", Paths: []string{"a"}}), facts(), "", "a", "allow  "},
	} {
		t.Run(row.name, func(t *testing.T) {
			var paths []string
			if row.path != "" {
				paths = append(paths, row.path)
			}
			got := askGate(t, "file.write", row.args, row.edit, row.facts, paths...)
			if verdict(got) != row.want {
				t.Errorf("%s, want %s (%s)", verdict(got), row.want, got.Reason)
			}
			if got.Verdict == events.Allow && got.Facts.CreateOnly != strings.HasPrefix(row.name, "control") {
				t.Errorf("create only: %v", got.Facts.CreateOnly)
			}
		})
	}
}

// The refusal of an exact grant names the one form that is granted and says that
// only this call was refused.
func TestExactRefusalNamesTheForm(t *testing.T) {
	form := `{"path":"notes.md"}`
	got := askGate(t, "file.read", `{"path":"other"}`, grants(Rule{Tool: "file.read", Exact: jsontext.Value(form)}), facts(), "other")
	if !strings.Contains(got.Reason, "exactly "+form) || !strings.Contains(got.Reason, "only this call") && !strings.Contains(got.Reason, "this one call") {
		t.Errorf("it says %q", got.Reason)
	}
	if strings.Contains(got.Reason, "other") {
		t.Errorf("the arguments are in the reason: %q", got.Reason)
	}
}

// O-R08: which rule wins depends on order in a map.
func TestDenyWinsInEveryOrder(t *testing.T) {
	allow, deny := Rule{Tool: "file.write", Paths: []string{"Docs/**"}}, Rule{Tool: "file.write", Paths: []string{"**"}}
	for _, row := range []struct {
		name string
		edit func(*Catalog)
		want string
	}{
		{"O-R08 anomalyco/opencode#31854 in the profile", func(c *Catalog) {
			c.Profiles["work"] = Profile{Allow: []Rule{allow}, Deny: []Rule{deny}}
		}, "deny profile deny"},
		{"O-R08 anomalyco/opencode#37935 in the profile, listed again", func(c *Catalog) {
			c.Profiles["work"] = Profile{Deny: []Rule{deny, deny}, Allow: []Rule{allow, {Tool: "file.write"}}, Tools: []string{"file.write"}}
		}, "deny profile deny"},
		{"O-R08 anomalyco/opencode#24335 for the principal", func(c *Catalog) {
			c.Principals.IDs = map[string]Policy{"anna": {Only: []Rule{allow}, Deny: []Rule{deny}}}
		}, "deny principal deny"},
		{"O-R08 by the baseline", func(c *Catalog) { c.Baseline.Deny = []Rule{deny} }, "deny baseline deny"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := verdict(askGate(t, "file.write", "", row.edit, facts(), "Docs/a.md")); got != row.want {
				t.Errorf("%s, want %s", got, row.want)
			}
		})
	}
}

func TestDenialsAreReadWide(t *testing.T) {
	secret := func(c *Catalog) { c.Baseline.Deny = []Rule{{Scope: "files", Paths: []string{"a/private/**"}}} }
	for _, row := range []struct {
		name, tool, path string
		want             string
	}{
		{"the path itself", "file.read", "a/private/x", "deny baseline deny"},
		{"another case, which some file systems take for the same", "file.read", "A/Private/x", "deny baseline deny"},
		{"a folder above it, to a tool that acts on all below", "file.delete", "a", "deny baseline deny"},
		{"a folder above it, to one that does not", "file.list", "a", "allow  "},
		{"a path that the call does not name", "file.trash", "", "deny baseline deny"},
		{"a path that the tool finds and asks about", "file.restore", "", "allow  "},
		{"and it asks", "file.restore", "a/private/x", "deny baseline deny"},
		{"about a folder above it", "file.restore", "a", "deny baseline deny"},
		{"control: beside it", "file.delete", "a/public", "allow  "},
	} {
		t.Run(row.name, func(t *testing.T) {
			var paths []string
			if row.path != "" {
				paths = append(paths, row.path)
			}
			if got := verdict(askGate(t, row.tool, "", secret, facts(), paths...)); got != row.want {
				t.Errorf("%s, want %s", got, row.want)
			}
		})
	}
}

// A denial of arguments holds where they are not known, as one of paths does.
func TestDeniedArguments(t *testing.T) {
	form := func(c *Catalog) { c.Baseline.Deny = []Rule{{Tool: "file.read", Exact: jsontext.Value(`{"path":"a"}`)}} }
	for args, want := range map[string]string{`{"path":"a"}`: "deny baseline deny", `{"path":"b"}`: "allow  ", "": "deny baseline deny"} {
		if got := verdict(askGate(t, "file.read", args, form, facts(), "a")); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}

func TestPrincipalPolicies(t *testing.T) {
	deny, only := Policy{Deny: []Rule{{Tool: "file.write"}}}, Policy{Only: []Rule{{Scope: "reading"}}}
	for _, row := range []struct {
		name string
		p    Principals
		want string
	}{
		{"none", Principals{}, "allow  "},
		{"of the kind", Principals{Kinds: map[events.PrincipalKind]Policy{events.PrincipalUser: deny}}, "deny principal deny"},
		{"of another kind", Principals{Kinds: map[events.PrincipalKind]Policy{events.PrincipalGroup: deny}}, "allow  "},
		{"of the principal", Principals{IDs: map[string]Policy{"anna": only}}, "deny principal only"},
		{"of another principal", Principals{IDs: map[string]Policy{"team": only}}, "allow  "},
		{"of the channel", Principals{Channels: map[events.ChannelID]Policy{"terminal": deny}}, "deny principal deny"},
		{"of another channel", Principals{Channels: map[events.ChannelID]Policy{"bot": deny}}, "allow  "},
		{"all of them hold", Principals{
			Kinds: map[events.PrincipalKind]Policy{events.PrincipalUser: {Only: []Rule{{Tool: "file.write"}}}},
			IDs:   map[string]Policy{"anna": only},
		}, "deny principal only"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := verdict(askGate(t, "file.write", "", func(c *Catalog) { c.Principals = row.p }, facts(), "a"))
			if got != row.want {
				t.Errorf("%s, want %s", got, row.want)
			}
		})
	}
}

func TestPrivateToolsAreForTheEngineItself(t *testing.T) {
	private := func(c *Catalog) { c.Tools = map[string]Tool{"file.write": {Private: true}} }
	for _, kind := range []events.PrincipalKind{events.PrincipalInternal, events.PrincipalSelf, events.PrincipalSubAgent, events.PrincipalUser, events.PrincipalGroup, "", "Internal"} {
		f := facts()
		f.Round.Principal.Kind = kind
		want := "deny baseline private"
		if kind == events.PrincipalInternal {
			want = "allow  "
		}
		if got := verdict(askGate(t, "file.write", "", private, f, "a")); got != want {
			t.Errorf("kind %q: %s, want %s", kind, got, want)
		}
	}
}

func TestContentRules(t *testing.T) {
	rule := func(r ContentRule) func(*Catalog) {
		r.Verdict = events.Deny
		return func(c *Catalog) { c.Content = map[string]ContentRule{"no-iban": r} }
	}
	iban := rule(ContentRule{Pattern: `\bDE[0-9]{20}\b`, Reason: "no account numbers"})
	for _, row := range []struct {
		name string
		edit func(*Catalog)
		args string
		want string
	}{
		{"a text", iban, `{"content":"to DE00123456781234567890 now"}`, "deny baseline content no-iban"},
		{"deep inside", iban, `{"a":[{"b":["DE00123456781234567890"]}]}`, "deny baseline content no-iban"},
		{"a name", iban, `{"DE00123456781234567890":1}`, "deny baseline content no-iban"},
		{"written with escapes", iban, `{"a":"\u0044\u004500123456781234567890"}`, "deny baseline content no-iban"},
		{"control: nothing of it", iban, `{"a":"DE123"}`, "allow  "},
		{"arguments that are not known", iban, ``, "deny baseline content"},
		{"arguments that are cut", iban, `{"a":["b"`, "deny baseline content"},
		{"of another tool", rule(ContentRule{Pattern: "x", Tools: []string{"file.read"}}), `{"a":"x"}`, "allow  "},
		{"of a scope with the tool", rule(ContentRule{Pattern: "x", Scopes: []string{"files"}}), `{"a":"x"}`, "deny baseline content no-iban"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := askGate(t, "file.write", row.args, row.edit, facts(), "a")
			if verdict(got) != row.want {
				t.Errorf("%s, want %s", verdict(got), row.want)
			}
			if strings.Contains(got.Reason, "DE00") {
				t.Errorf("the reason repeats the arguments: %s", got.Reason)
			}
		})
	}
}

// What a content rule takes is bounded before it looks: by the text in all of the
// arguments and the size of its pattern.
func TestContentRulesAreBoundedBefore(t *testing.T) {
	const tooMuch = "too much text in the arguments for the content rules to look at within their bound"
	all := func(s string, n int) string { return strings.Repeat(s, n/len(s)) }
	for _, row := range []struct {
		pattern, text   string
		verdict, reason string
	}{
		{`password.{0,200}secret`, all("password", 720_000), "deny baseline content", tooMuch},
		{`(?i)(pass|key).{0,500}(secret|token)$`, all("password", 720_000), "deny baseline content", tooMuch},
		{`a.{0,400}b.{0,400}c.{0,400}d.{0,400}e`, all("abcd", 720_000), "deny baseline content", tooMuch},
		{`password.{0,200}secret`, all("password", 64<<10), "allow  ", ""},
		{`\bDE[0-9]{20}\b`, all("DE12 ", 512<<10), "allow  ", ""},
		{`\bDE[0-9]{20}\b`, all("DE12 ", 512<<10) + "DE00123456781234567890", "deny baseline content r", "content rule r refuses"},
		{`BEGIN [A-Z ]*PRIVATE KEY`, all("BEGIN OPEN ", 512<<10), "allow  ", ""},
	} {
		rule := func(c *Catalog) {
			c.Content = map[string]ContentRule{"r": {Pattern: row.pattern, Verdict: events.Deny}}
		}
		for _, args := range []string{`{"content":"` + row.text + `"}`, `{"a":["` + row.text + `",1]}`} {
			got := askGate(t, "file.write", args, rule, facts(), "a")
			if verdict(got) != row.verdict || !strings.Contains(got.Reason, row.reason) {
				t.Errorf("%s: %s (%s), want %s", row.pattern, verdict(got), got.Reason, row.verdict)
			}
		}
	}
}

// Many small patterns are as much as a large one.
func TestContentRulesAreBoundedTogether(t *testing.T) {
	many := func(n int) func(*Catalog) {
		return func(c *Catalog) {
			c.Content = map[string]ContentRule{}
			for i := range n {
				c.Content[fmt.Sprint("r", i)] = ContentRule{Pattern: `x.{0,400}` + fmt.Sprint(i), Verdict: events.Deny}
			}
		}
	}
	args := `{"content":"` + strings.Repeat("y", 32<<10) + `"}`
	for n, want := range map[int]string{1: "allow  ", 40: "deny baseline content"} {
		if got := verdict(askGate(t, "file.write", args, many(n), facts(), "a")); got != want {
			t.Errorf("%d rules: %s, want %s", n, got, want)
		}
	}
}

func TestCheckerOfRules(t *testing.T) {
	for _, row := range []struct {
		name string
		edit func(*Catalog)
		want string // in a fault's text
	}{
		{"a rule of nothing", grants(Rule{}), "roles.worker.grants.0: a rule names either a tool or a scope"},
		{"a rule of both", grants(Rule{Tool: "file.read", Scope: "files"}), "either a tool or a scope"},
		{"a pattern that leaves", grants(Rule{Tool: "file.read", Paths: []string{"a", "../b"}}), "roles.worker.grants.0.paths.1: the pattern ../b"},
		{"exact text", grants(Rule{Tool: "file.read", Exact: jsontext.Value(`"a"`)}), "grants.0.exact: want the names and values"},
		{"create only for what cannot promise it", grants(Rule{Tool: "file.delete", CreateOnly: true}), "file.write"},
		{"create only for a scope", grants(Rule{Scope: "files", CreateOnly: true}), "file.write"},
		{"a negative bound", grants(Rule{Tool: "file.read", MaxPerRound: -1}), "want a number"},
		{"a bound in a profile", func(c *Catalog) { c.Profiles["work"] = Profile{Allow: []Rule{{Tool: "file.read", MaxPerRound: 1}}} }, "only a role's grant"},
		{"create only in a denial", func(c *Catalog) { c.Baseline.Deny = []Rule{{Tool: "file.write", CreateOnly: true}} }, "only a role's grant"},
		{"no expression", grants(Rule{Tool: "file.read", When: "args.path =="}), "roles.worker.grants.0.when: 1:13: Syntax error"},
		{"an expression of what is not there", func(c *Catalog) { c.Baseline.Deny = []Rule{{Tool: "file.read", When: "now > 1"}} }, "baseline.deny.0.when: 1:1: undeclared reference to 'now'"},
		{"an expression of another type", grants(Rule{Tool: "file.read", When: "step"}), "grants.0.when: gives int"},
		{"an expression for a terminal", grants(Rule{Tool: "file.read", When: "tool == \x1b[2J"}), `\x1b`},
		{"an only of nothing", func(c *Catalog) { c.Principals.IDs = map[string]Policy{"anna": {Only: []Rule{}}} }, "principals.ids.anna.only: is empty"},
		{"O-R15 a misspelt kind", func(c *Catalog) { c.Principals.Kinds = map[events.PrincipalKind]Policy{"User": {}} }, "principals.kinds.User"},
		{"a principal that nobody is", func(c *Catalog) { c.Principals.IDs = map[string]Policy{"Anna": {}} }, "no channel names the principal"},
		{"a channel that is not there", func(c *Catalog) { c.Principals.Channels = map[events.ChannelID]Policy{"bott": {}} }, "is not declared under channels"},
		{"no pattern", func(c *Catalog) { c.Content = map[string]ContentRule{"a": {Verdict: events.Deny}} }, "content.a.pattern: want a pattern"},
		{"no RE2", func(c *Catalog) { c.Content = map[string]ContentRule{"a": {Verdict: events.Deny, Pattern: "(?=a)"}} }, "is not RE2"},
		{"a pattern of a long program", func(c *Catalog) {
			c.Content = map[string]ContentRule{"a": {Verdict: events.Deny, Pattern: `a.{0,900}b.{0,900}c.{0,900}d.{0,900}e`}}
		}, "content.a.pattern: compiles to 7207 instructions, more than 4096"},
		{"an expression with a pattern of a long program", grants(Rule{Tool: "file.read", When: `args.path.matches("a.{0,900}b.{0,900}c.{0,900}d.{0,900}e")`}), "grants.0.when: 1:18: compiles to 7207 instructions"},
		{"no verdict", func(c *Catalog) { c.Content = map[string]ContentRule{"a": {Pattern: "a"}} }, "content.a.verdict: want deny"},
		{"a tool that is not there", func(c *Catalog) { c.Tools = map[string]Tool{"File.read": {}} }, "there is no tool"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := sample()
			row.edit(&c)
			if _, err := Compile(c); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("it says %v, want %q", err, row.want)
			}
		})
	}
}

func drawRule(t *rapid.T, what use) Rule {
	r := Rule{Tool: rapid.SampledFrom([]string{"file.read", "file.write", "file.delete", ""}).Draw(t, "tool")}
	if r.Tool == "" {
		r.Scope = rapid.SampledFrom([]string{"s1", "s2"}).Draw(t, "scope")
	}
	r.Paths = rapid.SliceOfN(rapid.SampledFrom([]string{"**", "a", "a/**", "*", "<slug>"}), 0, 2).Draw(t, "paths")
	if rapid.IntRange(0, 4).Draw(t, "exact") == 0 {
		r.Exact = jsontext.Value(`{"path":"a"}`)
	}
	if rapid.IntRange(0, 2).Draw(t, "conditional") == 0 {
		r.When = rapid.SampledFrom(conditions).Draw(t, "when")
	}
	if what == granting {
		r.MaxPerRound = rapid.IntRange(0, 2).Draw(t, "max")
	}
	return r
}

// conditions are expressions of which some are true, false or without an answer of any
// call; some ask for what a catalog can change.
var conditions = []string{
	`true`, `args.path == "a"`, `args.path != "a"`, `args.missing == 1`, `1 / used > 0`, `used < 2`,
	`role == "worker"`, `role != "worker"`, `profile == "work"`, `profile != "work"`, `principal.id == "anna"`, `args.path`,
}

func drawRules(t *rapid.T, what use, least int) []Rule {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Rule { return drawRule(t, what) }), least, 3).Draw(t, "rules")
}

// drawRich is a catalog with rules in every place.
func drawRich(t *rapid.T) Catalog {
	c := drawCatalog(t)
	some := func(what string) bool { return rapid.Bool().Draw(t, what) }
	work := c.Profiles["work"]
	work.Allow, work.Deny = drawRules(t, allowing, 0), drawRules(t, denying, 0)
	c.Profiles["work"] = work
	worker := c.Roles["worker"]
	worker.Grants = append(worker.Grants, drawRules(t, granting, 0)...)
	c.Roles["worker"] = worker
	if some("baseline") {
		c.Baseline.Deny = drawRules(t, denying, 0)
	}
	if some("content") {
		c.Content = map[string]ContentRule{"a": {Pattern: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "pattern"), Verdict: events.Deny}}
	}
	if some("private") {
		c.Tools = map[string]Tool{"file.write": {Private: true}}
	}
	if some("kinds") {
		c.Principals.Kinds = map[events.PrincipalKind]Policy{events.PrincipalUser: {Deny: drawRules(t, denying, 0)}}
	}
	if some("ids") {
		c.Principals.IDs = map[string]Policy{"anna": {Only: drawRules(t, allowing, 1)}}
	}
	return c
}

func drawRichCall(t *rapid.T) (CallRequest, CallFacts) {
	req, f := drawCall(t)
	req.Args = jsontext.Value(rapid.SampledFrom([]string{`{"path":"a"}`, `{"path":"b"}`, ``}).Draw(t, "args"))
	for _, raw := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "A", "a/b", "b", "."}), 0, 2).Draw(t, "paths") {
		req.Paths = append(req.Paths, mustPath(t, raw))
	}
	f.Round.Used = rapid.Int64Range(0, 3).Draw(t, "used")
	return req, f
}

// A change that does not widen allows no call that was not allowed before.
func TestWhatDoesNotWidenAllowsNoMore(t *testing.T) {
	narrowed := 0
	rapid.Check(t, func(t *rapid.T) {
		c := drawRich(t)
		before, err := Compile(c)
		if err != nil {
			t.Fatal(err)
		}
		next := c
		if rapid.Bool().Draw(t, "another") {
			next = drawRich(t)
		} else {
			next = edited(t, before.Catalog())
		}
		after, err := Compile(next)
		if err != nil {
			t.Fatal(err)
		}
		changes := Compare(before, after)
		if (len(changes) == 0) != (before.Digest() == after.Digest()) {
			t.Fatalf("the digests are %s and %s and the changes %v", before.Digest(), after.Digest(), changes)
		}
		if Widens(changes) {
			return
		}
		narrowed++
		for range 5 {
			req, f := drawRichCall(t)
			a, b := DecideCall(before, req, f).Decided, DecideCall(after, req, f).Decided
			if a.Verdict != events.Allow && b.Verdict == events.Allow {
				t.Fatalf("%v\nallowed %+v\nwhich was %s", changes, b, a.Reason)
			}
		}
	})
	if narrowed < 10 {
		t.Errorf("only %d changes did not widen: the law was hardly asked", narrowed)
	}
}

// edited is the catalog with one thing changed that might only narrow.
func edited(t *rapid.T, c Catalog) Catalog {
	c, err := normalise(c)
	if err != nil {
		t.Fatal(err)
	}
	work, worker := c.Profiles["work"], c.Roles["worker"]
	switch rapid.IntRange(0, 12).Draw(t, "edit") {
	case 12:
		if tools := c.Scopes["s1"].Tools; len(tools) > 0 {
			c.Scopes["s1"] = Scope{Tools: tools[1:]}
		}
	case 0:
		c.Baseline.Deny = append(c.Baseline.Deny, drawRule(t, denying))
	case 1:
		work.Deny = append(work.Deny, drawRule(t, denying))
	case 2:
		work.Allow = nil
	case 3:
		worker.Grants = worker.Grants[:len(worker.Grants)/2]
	case 4:
		for i := range worker.Grants {
			worker.Grants[i].MaxPerRound = 1
		}
	case 5:
		for i := range work.Allow {
			work.Allow[i].Exact = jsontext.Value(`{"path":"a"}`)
		}
	case 6:
		for i := range work.Deny {
			work.Deny[i].Paths, work.Deny[i].Exact = nil, nil
		}
	case 7:
		c.Principals.Channels = map[events.ChannelID]Policy{"terminal": {Only: []Rule{drawRule(t, allowing)}}}
	case 8:
		c.Tools = map[string]Tool{"file.delete": {Private: true}}
	case 9:
		for i := range worker.Grants {
			worker.Grants[i].When = cmp.Or(worker.Grants[i].When, `used < 2`)
		}
	case 10:
		for i := range c.Baseline.Deny {
			c.Baseline.Deny[i].When = ""
		}
	case 11:
		c.Roles["reader"] = Role{Grants: worker.Grants[:len(worker.Grants)/2]}
		c.Agents["alice"] = Agent{Role: "reader", Key: c.Agents["alice"].Key}
	}
	c.Profiles["work"], c.Roles["worker"] = work, worker
	return c
}
