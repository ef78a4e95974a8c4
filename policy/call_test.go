package policy

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"gatebook/events"
	"gatebook/policy/asset"
	"gatebook/policy/paths"
)

func TestDecideCall(t *testing.T) {
	allow := "allow  "
	for _, tc := range []struct {
		name string
		edit func(*Catalog, *CallRequest, *CallFacts)
		want string
	}{
		{"control: everything allows", func(*Catalog, *CallRequest, *CallFacts) {}, allow},
		{"O-R20 malformed arguments", func(_ *Catalog, r *CallRequest, _ *CallFacts) {
			r.Malformed = &Malformed{"path", "given twice"}
		}, "reject decode path"},
		{"malformed comes before everything", func(_ *Catalog, r *CallRequest, f *CallFacts) {
			r.Malformed, r.Unkept, r.HandleHash = &Malformed{"path", "x"}, true, otherHandle
		}, "reject decode path"},
		{"an empty tool name", func(_ *Catalog, r *CallRequest, _ *CallFacts) { r.Tool.Name = "" }, "reject decode tool"},
		{"a key too long", func(_ *Catalog, r *CallRequest, _ *CallFacts) { r.Key = strings.Repeat("k", 129) }, "reject decode key"},
		{"arguments that could not be redacted", func(_ *Catalog, r *CallRequest, _ *CallFacts) { r.Unredactable = true }, "deny decode redaction"},
		{"arguments that could not be kept", func(_ *Catalog, r *CallRequest, _ *CallFacts) { r.Unkept = true }, "deny engine blob"},
		{"64 open calls", func(_ *Catalog, _ *CallRequest, f *CallFacts) { f.Round.OpenCalls = MaxOpenCalls }, "deny round open_calls"},
		{"control: 63 open calls", func(_ *Catalog, _ *CallRequest, f *CallFacts) { f.Round.OpenCalls = MaxOpenCalls - 1 }, allow},
		{"no such round", func(_ *Catalog, _ *CallRequest, f *CallFacts) { f.Round = RoundFacts{} }, "deny round handle"},
		{"another agent's round", func(_ *Catalog, _ *CallRequest, f *CallFacts) { f.Round.Agent = "bob" }, "deny round handle"},
		{"wrong handle", func(_ *Catalog, r *CallRequest, _ *CallFacts) { r.HandleHash = otherHandle }, "deny round handle"},
		{"no handle on both sides", func(_ *Catalog, r *CallRequest, f *CallFacts) { r.HandleHash, f.Round.HandleHash = "", "" }, "deny round handle"},
		{"facts of another round", func(_ *Catalog, r *CallRequest, _ *CallFacts) { r.Round = "R2" }, "deny round handle"},
		{"O-R15 round ended", func(_ *Catalog, _ *CallRequest, f *CallFacts) { f.Round.Open = false }, "deny round ended"},
		{"key used for another body", func(_ *Catalog, r *CallRequest, f *CallFacts) {
			f.Prior = PriorCall{"C0", r.Tool, "m0"}
		}, "reject round key"},
		{"key used for another tool", func(_ *Catalog, r *CallRequest, f *CallFacts) {
			f.Prior = PriorCall{"C0", events.ToolKey{Owner: events.OwnerBuiltin, Name: "file.read"}, "m1"}
		}, "reject round key"},
		{"key without MAC never matches", func(_ *Catalog, r *CallRequest, f *CallFacts) {
			r.Arguments.MAC, f.Prior = "", PriorCall{"C0", r.Tool, ""}
		}, "reject round key"},
		{"a key is known for 24 hours after the round", func(_ *Catalog, r *CallRequest, f *CallFacts) {
			f.Round.Open, f.Round.Ended, f.Now = false, 1, events.Instant(1).Add(KeyTime)
			f.Prior = PriorCall{"C0", r.Tool, "m0"}
		}, "reject round key"},
		{"and not longer", func(_ *Catalog, r *CallRequest, f *CallFacts) {
			f.Round.Open, f.Round.Ended, f.Now = false, 1, events.Instant(2).Add(KeyTime)
			f.Prior = PriorCall{"C0", r.Tool, "m0"}
		}, "deny round ended"},
		{"unknown tool", func(_ *Catalog, _ *CallRequest, f *CallFacts) { f.Tool.Known = false }, "not_found tool unknown"},
		{"O-R16 the same name of another owner", func(_ *Catalog, r *CallRequest, _ *CallFacts) { r.Tool.Owner = "srv" }, "deny role grant"},
		{"phase absent is 1", func(c *Catalog, _ *CallRequest, _ *CallFacts) { c.Phase = 0 }, "deny phase phase"},
		{"phase lowered", func(_ *Catalog, _ *CallRequest, f *CallFacts) { f.PhaseSet = 1 }, "deny phase phase"},
		{"phase set to what nobody knows", func(_ *Catalog, _ *CallRequest, f *CallFacts) { f.PhaseSet = 9 }, "deny phase phase"},
		{"phase set cannot lift the catalog's", func(c *Catalog, _ *CallRequest, f *CallFacts) { c.Phase, f.PhaseSet = 1, 2 }, "deny phase phase"},
		{"phase 1 offers reading", func(c *Catalog, r *CallRequest, _ *CallFacts) { c.Phase, r.Tool.Name = 1, "file.read" }, allow},
		{"not in the catalog", func(c *Catalog, _ *CallRequest, _ *CallFacts) { delete(c.Agents, "alice") }, "deny role catalog"},
		{"released", func(_ *Catalog, _ *CallRequest, f *CallFacts) { f.Agent.Enrolled = false }, "deny role enrolled"},
		{"no grant", func(c *Catalog, _ *CallRequest, _ *CallFacts) { c.Agents["alice"] = Agent{Role: "reader", Key: key(1)} }, "deny role grant"},
		{"O-P25 path leaves", func(_ *Catalog, r *CallRequest, _ *CallFacts) {
			*r = request("file.write", "a", "../AgentSettings.json")
		}, "deny role workspace"},
		{"a path nobody parsed", func(_ *Catalog, r *CallRequest, _ *CallFacts) { r.Paths = []paths.Path{{}} }, "deny role workspace"},
		{"trash", func(_ *Catalog, r *CallRequest, _ *CallFacts) { *r = request("file.write", ".Trash/x") }, "deny role trash"},
		{"session covers longtime", func(_ *Catalog, _ *CallRequest, f *CallFacts) { f.Round.Session = "guest" }, "deny profile profile"},
		{"O-R14 undeclared session is none, not longtime", func(_ *Catalog, _ *CallRequest, f *CallFacts) { f.Round.Session = "{bad json" }, "deny profile profile"},
		{"no session: longtime", func(_ *Catalog, _ *CallRequest, f *CallFacts) { f.Round.Session = "" }, allow},
		{"neither: none", func(_ *Catalog, _ *CallRequest, f *CallFacts) { f.Round.Session, f.Agent.Longtime = "", "" }, "deny profile profile"},
		{"none allows nothing", func(_ *Catalog, _ *CallRequest, f *CallFacts) { f.Round.Session = NoProfile }, "deny profile profile"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, req, f := sample(), request("file.write", "a"), facts()
			tc.edit(&c, &req, &f)
			d := DecideCall(compiled(t, func(x *Catalog) { *x = c }), req, f)
			if got := verdict(d.Decided); got != tc.want || d.Replays != "" {
				t.Errorf("got %q (replays %q), want %q", got, d.Replays, tc.want)
			}
			if (d.Decided.Verdict == events.Allow) != (d.Decided.Reason == "") {
				t.Errorf("reason %q of verdict %s", d.Decided.Reason, d.Decided.Verdict)
			}
		})
	}
}

func TestDecideCallFillsTheEvent(t *testing.T) {
	got := DecideCall(compiled(t), request("file.write", "a"), facts()).Decided
	want := events.CallDecided{
		Call: "C1", Round: "R1", Conversation: "V1", Step: 5, Key: "k1",
		Tool: events.ToolKey{Owner: "builtin", Name: "file.write"}, Definition: "d1",
		Arguments: request("file.write").Arguments, Verdict: events.Allow, Tier: events.Reversible, Profile: "work",
		Principal: events.Principal{ID: "anna", Kind: events.PrincipalUser},
		Facts:     events.CallFacts{Phase: 2, Role: "worker", RoleVersion: 3, SessionProfile: "work", LongtimeProfile: "work", RoundOpen: true, HandleMatched: true},
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestReplay(t *testing.T) {
	req, f := request("file.write", "a"), facts()
	f.Prior = PriorCall{Call: "C0", Tool: req.Tool, MAC: req.Arguments.MAC}
	f.Round.Open = false // a retry after a crash finds its answer
	if d := DecideCall(compiled(t), req, f); d.Replays != "C0" || d.Decided.Verdict != "" {
		t.Errorf("got %+v", d)
	}
	req.HandleHash = otherHandle
	if d := DecideCall(compiled(t), req, f); d.Replays != "" || d.Decided.Verdict != events.Deny {
		t.Errorf("a wrong handle hears of an earlier call: %+v", d)
	}
}

// What a foreign or wrongly opened round leaves in the book cannot take a key
// or a step of somebody else's round, and all three cases read the same.
func TestForeignRoundsLearnAndTakeNothing(t *testing.T) {
	c, req := compiled(t), request("file.write", "a")
	none, foreign, wrong := facts(), facts(), facts()
	none.Round = RoundFacts{}
	foreign.Round.Agent = "bob"
	wrong.Round.HandleHash = otherHandle
	a, b, w := DecideCall(c, req, none).Decided, DecideCall(c, req, foreign).Decided, DecideCall(c, req, wrong).Decided
	if a != b || a != w {
		t.Errorf("no round     %+v\nforeign      %+v\nwrong handle %+v", a, b, w)
	}
	// A wrong handle is no step of the round and does not keep it open.
	if a.Round != "" || a.Conversation != "" || a.Step != 0 || a.Principal != (events.Principal{}) || a.Facts.SessionProfile != "" || a.Facts.RoundOpen {
		t.Errorf("a round is named: %+v", a)
	}
	if right := DecideCall(c, req, facts()).Decided; right.Round != "R1" || right.Step != 5 {
		t.Errorf("control: %+v", right)
	}
	if a.Key+b.Key+w.Key != "" || a.Facts.HandleMatched || w.Facts.HandleMatched {
		t.Error("a key was taken without the handle")
	}
}

func TestRefusedArgumentsAreCut(t *testing.T) {
	req, f := request("file.write", "a"), facts()
	req.Arguments.Text = events.Plain(strings.Repeat("é", 200) + "x")
	req.Arguments.Blob = "blob"
	if got := DecideCall(compiled(t), req, f).Decided.Arguments; got != req.Arguments {
		t.Errorf("an allowed call's arguments changed: %+v", got)
	}
	f.Round.Open = false
	got := DecideCall(compiled(t), req, f).Decided.Arguments
	if len(got.Text.Text) != events.MaxPreview || !got.Truncated || !utf8.ValidString(got.Text.Text) || got.Blob != "" {
		t.Errorf("got %d bytes, %+v", len(got.Text.Text), got)
	}
	if got := events.Cut("aé", 2); got != "a" {
		t.Errorf("cut between runes gives %q", got)
	}
}

func TestTierOfToolsOutsideTheList(t *testing.T) {
	extra := func(said events.Tier, name string) events.Tier {
		req, f := request(name), facts()
		f.Tool.Tier = said
		return DecideCall(compiled(t), req, f).Decided.Tier
	}
	for said, want := range map[events.Tier]events.Tier{"": events.Privileged, "odd": events.Privileged, events.ReadOnly: events.ReadOnly, events.Reversible: events.Reversible} {
		if got := extra(said, "demo.wait"); got != want {
			t.Errorf("said %q: %s, want %s", said, got, want)
		}
		if got := extra(said, "file.write"); got != events.Reversible {
			t.Errorf("the wiring overrode the list: %s", got)
		}
	}
	c := sample()
	c.Roles["worker"] = Role{Grants: []Rule{{Tool: "demo.wait"}}}
	if _, err := Compile(c); err == nil {
		t.Error("an unknown tool was taken")
	}
	if _, err := Compile(c, "demo.wait"); err != nil {
		t.Error(err)
	}
}

// Whichever layers would refuse, the first in the order of Layers is named. The tool is not
// built in, so that all are asked.
func TestLayersAreAskedInOrder(t *testing.T) {
	const note = "mailer/note"
	breaks := map[events.Layer]func(*Catalog, *CallRequest, *CallFacts){
		events.LayerDecode:   func(_ *Catalog, r *CallRequest, _ *CallFacts) { r.Malformed = &Malformed{"path", "x"} },
		events.LayerEngine:   func(_ *Catalog, r *CallRequest, _ *CallFacts) { r.Unkept = true },
		events.LayerRound:    func(_ *Catalog, _ *CallRequest, f *CallFacts) { f.Prior = PriorCall{Call: "C0"} },
		events.LayerTool:     func(_ *Catalog, _ *CallRequest, f *CallFacts) { f.Tool.Known = false },
		events.LayerPhase:    func(c *Catalog, _ *CallRequest, _ *CallFacts) { c.Phase = 1 },
		events.LayerBaseline: func(c *Catalog, _ *CallRequest, _ *CallFacts) { c.Baseline.Deny = []Rule{{Tool: note}} },
		events.LayerPrincipal: func(c *Catalog, _ *CallRequest, _ *CallFacts) {
			c.Principals.IDs = map[string]Policy{"anna": {Deny: []Rule{{Tool: note}}}}
		},
		events.LayerRole: func(_ *Catalog, _ *CallRequest, f *CallFacts) { f.Agent.Enrolled = false },
		events.LayerAncestors: func(_ *Catalog, _ *CallRequest, f *CallFacts) {
			f.Agent.Parent, f.Agent.Role = "bob", "worker"
			f.Agent.Ancestors = []AncestorFacts{{Agent: "bob", Enrolled: true, Longtime: "work"}}
		},
		events.LayerProfile: func(_ *Catalog, _ *CallRequest, f *CallFacts) { f.Round.Session = NoProfile },
		events.LayerAsset:   func(_ *Catalog, _ *CallRequest, f *CallFacts) { f.Asset.State = events.AssetStateRefused },
		events.LayerStaging: func(c *Catalog, _ *CallRequest, _ *CallFacts) {
			c.Tools = map[string]Tool{note: {Staging: StagingApprove}}
		},
	}
	if len(breaks) != len(Layers()) {
		t.Fatalf("the layers are %v", Layers())
	}
	rapid.Check(t, func(rt *rapid.T) {
		c, req, f := sample(), request("file.write", "a"), facts()
		req.Tool = events.ToolKey{Owner: "mailer", Name: "note"}
		f.Tool.Tier = events.Reversible
		f.Asset = asset.Facts{Asset: "A1", Met: true, Tier: events.Reversible, Highest: events.Reversible, State: events.AssetStateApproved}
		c.Scopes["files"] = Scope{Tools: append(c.Scopes["files"].Tools, note)}
		role := c.Roles["worker"]
		role.Grants = append(role.Grants, Rule{Tool: note})
		c.Roles["worker"] = role
		var want events.Layer
		for _, layer := range Layers() {
			if rapid.Bool().Draw(rt, string(layer)) {
				breaks[layer](&c, &req, &f)
				want = cmp.Or(want, layer)
			}
		}
		out, err := Compile(c, note)
		if err != nil {
			rt.Fatal(err)
		}
		d := DecideCall(out, req, f)
		if got := d.Decided.Layer; got != want {
			rt.Fatalf("the layer %q refused, want %q", got, want)
		}
		if asked := want == "" || want == events.LayerStaging || want == events.LayerAsset; (d.Decided.Asset == "A1") != asked {
			rt.Fatalf("refused by %q, the decision names the asset %q", want, d.Decided.Asset)
		}
	})
}

func TestMayAskOutcome(t *testing.T) {
	asked := RoundFacts{Round: "R2", Agent: "alice", Conversation: "V1", HandleHash: handle}
	call := RoundFacts{Round: "R1", Agent: "alice", Conversation: "V1"}
	for _, tc := range []struct {
		name string
		edit func(asked, call *RoundFacts)
		want bool
	}{
		{"same conversation, other round, ended", func(*RoundFacts, *RoundFacts) {}, true},
		{"wrong handle", func(a, _ *RoundFacts) { a.HandleHash = otherHandle }, false},
		{"other conversation", func(_, c *RoundFacts) { c.Conversation = "V2" }, false},
		{"no conversation", func(a, c *RoundFacts) { a.Conversation, c.Conversation = "", "" }, false},
		{"other agent's call", func(_, c *RoundFacts) { c.Agent = "bob" }, false},
		{"other agent's round", func(a, _ *RoundFacts) { a.Agent = "bob" }, false},
		{"unknown rounds", func(a, c *RoundFacts) { *a, *c = RoundFacts{}, RoundFacts{} }, false},
	} {
		a, c := asked, call
		tc.edit(&a, &c)
		if got := MayAskOutcome("alice", handle, a, c); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}

func drawCatalog(t *rapid.T) Catalog {
	names := make([]string, 0, len(builtins))
	for _, b := range builtins {
		names = append(names, b.Name)
	}
	tools := rapid.SliceOfN(rapid.SampledFrom(names), 0, 6)
	c := sample()
	c.Phase = rapid.IntRange(0, 2).Draw(t, "phase")
	c.Scopes = map[string]Scope{"s1": {tools.Draw(t, "s1")}, "s2": {tools.Draw(t, "s2")}}
	scopes := rapid.SliceOfN(rapid.SampledFrom([]string{"s1", "s2"}), 0, 2)
	for _, p := range []string{"work", "guest", "writer"} {
		c.Profiles[p] = Profile{Scopes: scopes.Draw(t, p), Tools: tools.Draw(t, p)}
	}
	var grants []Rule
	for _, g := range tools.Draw(t, "grants") {
		grants = append(grants, Rule{Tool: g})
	}
	for _, g := range scopes.Draw(t, "scope grants") {
		grants = append(grants, Rule{Scope: g})
	}
	c.Roles = map[string]Role{"worker": {Version: 1, Grants: grants}, "reader": {}}
	return c
}

func drawCall(t *rapid.T) (CallRequest, CallFacts) {
	text := rapid.SampledFrom([]string{"", "work", "guest", "none", "Work", "alice", "bob", "R1", "R2", "\xff", "k1", "m1", string(handle), "file.read", "builtin", "../x"})
	req := request(rapid.SampledFrom([]string{"file.read", "file.write", "file.delete", "file.list"}).Draw(t, "tool"))
	f := facts()
	f.Round.Session = text.Draw(t, "session")
	f.Agent.Longtime = text.Draw(t, "longtime")
	f.PhaseSet = rapid.IntRange(-1, 4).Draw(t, "set")
	if rapid.Bool().Draw(t, "odd") {
		for _, v := range []reflect.Value{reflect.ValueOf(&req).Elem(), reflect.ValueOf(&f).Elem()} {
			scramble(t, v, text)
		}
	}
	return req, f
}

// scramble sets some of the exported fields below v to anything.
func scramble(t *rapid.T, v reflect.Value, text *rapid.Generator[string]) {
	for i := range v.NumField() {
		f := v.Field(i)
		switch {
		case f.Kind() == reflect.Struct:
			scramble(t, f, text)
		case rapid.IntRange(0, 3).Draw(t, "keep") > 0:
		case f.Kind() == reflect.String:
			f.SetString(text.Draw(t, v.Type().Field(i).Name))
		case f.Kind() == reflect.Bool:
			f.SetBool(!f.Bool())
		case f.CanInt():
			f.SetInt(rapid.Int64().Draw(t, "int") >> 40)
		case f.Type() == reflect.TypeFor[[]paths.Path]():
			p, _ := paths.Parse(text.Draw(t, "path"))
			f.Set(reflect.ValueOf([]paths.Path{p}))
		case f.Type() == reflect.TypeFor[*Malformed]():
			f.Set(reflect.ValueOf(&Malformed{text.Draw(t, "field"), text.Draw(t, "why")}))
		}
	}
}

// O-R08: the order of rules never changes a verdict.
func TestOrderOfRulesNeverChangesAVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCatalog(t)
		req, f := drawCall(t)
		first, err := Compile(c)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		shuffle(r, c)
		second, err := Compile(c)
		if err != nil {
			t.Fatal(err)
		}
		if first.Digest() != second.Digest() {
			t.Fatal("the order of a list is in the digest")
		}
		if a, b := DecideCall(first, req, f), DecideCall(second, req, f); !reflect.DeepEqual(a, b) {
			t.Fatalf("%+v\n%+v", a, b)
		}
	})
}

func shuffle(r *rand.Rand, c Catalog) {
	for _, role := range c.Roles {
		r.Shuffle(len(role.Grants), func(i, j int) { role.Grants[i], role.Grants[j] = role.Grants[j], role.Grants[i] })
	}
	for _, p := range c.Profiles {
		r.Shuffle(len(p.Tools), func(i, j int) { p.Tools[i], p.Tools[j] = p.Tools[j], p.Tools[i] })
		r.Shuffle(len(p.Scopes), func(i, j int) { p.Scopes[i], p.Scopes[j] = p.Scopes[j], p.Scopes[i] })
	}
	for _, s := range c.Scopes {
		r.Shuffle(len(s.Tools), func(i, j int) { s.Tools[i], s.Tools[j] = s.Tools[j], s.Tools[i] })
	}
}

// Narrow only: less in the catalog, or a lower phase, never allows more.
func TestLessNeverAllowsMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCatalog(t)
		req, f := drawCall(t)
		before, err := Compile(c)
		if err != nil {
			t.Fatal(err)
		}
		drop := func(list []string) []string {
			if len(list) == 0 {
				return list
			}
			i := rapid.IntRange(0, len(list)-1).Draw(t, "drop")
			return append(append([]string(nil), list[:i]...), list[i+1:]...)
		}
		switch rapid.IntRange(0, 4).Draw(t, "what") {
		case 0:
			c.Scopes["s1"] = Scope{drop(c.Scopes["s1"].Tools)}
		case 1:
			p := c.Profiles["work"]
			c.Profiles["work"] = Profile{Scopes: drop(p.Scopes), Tools: drop(p.Tools)}
		case 2:
			if g := c.Roles["worker"].Grants; len(g) > 0 {
				c.Roles["worker"] = Role{Version: 1, Grants: g[1:]}
			}
		case 3:
			c.Phase = max(c.Phase, 1) - 1
		case 4:
			delete(c.Profiles, "writer")
		}
		after, err := Compile(c)
		if err != nil {
			t.Fatal(err)
		}
		a, b := DecideCall(before, req, f).Decided, DecideCall(after, req, f).Decided
		if a.Verdict != events.Allow && b.Verdict == events.Allow {
			t.Fatalf("less allowed more: %+v", a)
		}
		for _, change := range Compare(before, after) {
			if change.Widens {
				t.Fatalf("less counts as more: %+v", change)
			}
		}
	})
}

// Decide is total: it answers whatever it is given, by the closed set of
// verdicts, and allows only what every layer allows. The event can be encoded.
func TestDecideIsTotal(t *testing.T) {
	c := compiled(t)
	rapid.Check(t, func(t *rapid.T) {
		req, f := drawCall(t)
		for _, cat := range []*Compiled{c, nil, new(Compiled)} {
			d := DecideCall(cat, req, f)
			if d.Replays != "" {
				continue
			}
			if _, final := d.Decided.Verdict.Final(); !final && (cat != c || !f.Round.Open || !f.Agent.Enrolled || !f.Tool.Known) {
				t.Fatalf("allowed: %+v", d.Decided)
			}
			if d.Decided.Key != "" && (!d.Decided.Facts.HandleMatched || f.Prior.Call != "") {
				t.Fatalf("took a key: %+v", d.Decided)
			}
			if !utf8.ValidString(d.Decided.Reason + d.Decided.Rule + d.Decided.Tool.Name + d.Decided.Key) {
				t.Fatalf("text that cannot be encoded: %+v", d.Decided)
			}
		}
	})
}

// BenchmarkDecideCall has so many rules in the role and as many in the profile, of as
// many tools; with when, the one that is asked has an expression.
func BenchmarkDecideCall(b *testing.B) {
	for _, row := range []struct {
		rules int
		when  string
	}{{100, ""}, {1000, ""}, {100, `args.path.startsWith("notes/") && used < 3`}} {
		b.Run(fmt.Sprintf("rules=%d/when=%t", row.rules, row.when != ""), func(b *testing.B) {
			benchDecideCall(b, row.rules, row.when)
		})
	}
}

func benchDecideCall(b *testing.B, n int, when string) {
	extra := make([]string, 0, n)
	for i := range n {
		extra = append(extra, fmt.Sprintf("demo.t%04d", i))
	}
	grants := []Rule{{Tool: "file.write", When: when}}
	for _, e := range extra[1:] {
		grants = append(grants, Rule{Tool: e})
	}
	cat := sample()
	cat.Roles["worker"] = Role{Version: 1, Grants: grants}
	cat.Profiles["work"] = Profile{Tools: append([]string{"file.write"}, extra...)}
	c, err := Compile(cat, extra...)
	if err != nil {
		b.Fatal(err)
	}
	req, f := request("file.write", "notes/a.txt"), facts()
	req.Args = jsontext.Value(`{"content":"x","path":"notes/a.txt"}`)
	b.ReportAllocs()
	for b.Loop() {
		if DecideCall(c, req, f).Decided.Verdict != events.Allow {
			b.Fatal("not allowed")
		}
	}
}
