package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"gatebook/events"
)

// family is the sample in which boss, of the catalog, may declare workers and readers.
func family(c *Catalog) {
	grants := slices.Clone(c.Roles["worker"].Grants)
	c.Roles["planner"] = Role{Version: 1, Grants: grants, MayDeclare: []string{"reader", "worker"}}
	c.Agents["boss"] = Agent{Role: "planner", Key: key(20)}
	c.Scopes["writes"] = Scope{Tools: []string{"file.write", "file.delete"}}
}

// kid is a call of the child of boss, in an own round with the profile work.
func kid(tool string) (CallRequest, CallFacts) {
	req, f := request(tool, "a"), facts()
	req.Agent, f.Round.Agent = "kid", "kid"
	f.Round.Principal.Kind = events.PrincipalSubAgent
	f.Agent = AgentFacts{
		Known: true, Enrolled: true, Role: "worker", Parent: "boss",
		Ancestors: []AncestorFacts{{Agent: "boss", Enrolled: true, Role: "planner", Longtime: "work"}},
	}
	return req, f
}

// caused makes the round one that a guest's round of boss caused.
func caused(f *CallFacts) {
	f.Round.Channel, f.Round.Session = "", "guest"
	f.Round.Principal = events.Principal{ID: "boss", Kind: events.PrincipalSubAgent}
	f.Round.Causes = []CauseFacts{{Round: "R0", Agent: "boss", Channel: "terminal", Session: "guest", Principal: events.Principal{ID: "terminal-guest", Kind: events.PrincipalUser}}}
}

func TestChildRights(t *testing.T) {
	type facts = CallFacts
	none := func(*Catalog, *facts) {}
	for _, tc := range []struct {
		name, tool string
		edit       func(*Catalog, *facts)
		want       string
	}{
		{"control: all allow", "file.write", none, "allow  "},
		{"control: a guest's round may read", "file.read", func(_ *Catalog, f *facts) { caused(f) }, "allow  "},
		{"O-R09 anomalyco/opencode#26514: the parent's longtime profile denies", "file.write", func(_ *Catalog, f *facts) { f.Agent.Ancestors[0].Longtime = "guest" }, "deny ancestors profile"},
		{"O-R09 the parent's role lost the grant", "file.write", func(c *Catalog, _ *facts) {
			c.Roles["planner"] = Role{Grants: []Rule{{Tool: "file.read"}}, MayDeclare: []string{"worker"}}
		}, "deny ancestors role"},
		{"O-R09 a policy for the parent", "file.write", func(c *Catalog, _ *facts) {
			c.Principals.IDs = map[string]Policy{"boss": {Deny: []Rule{{Tool: "file.write"}}}}
		}, "deny ancestors principal"},
		{"the parent's grant has a limit", "file.write", func(c *Catalog, _ *facts) {
			c.Roles["planner"] = Role{Grants: []Rule{{Tool: "file.write", Paths: []string{"docs/**"}}}, MayDeclare: []string{"worker"}}
		}, "deny ancestors role"},
		{"the parent's longtime profile is not declared any more", "file.read", func(_ *Catalog, f *facts) { f.Agent.Ancestors[0].Longtime = "gone" }, "deny ancestors profile"},
		{"the parent has no longtime profile", "file.read", func(_ *Catalog, f *facts) { f.Agent.Ancestors[0].Longtime = "" }, "deny ancestors profile"},
		{"the parent has none, and its round is the cause", "file.read", func(_ *Catalog, f *facts) { caused(f); f.Agent.Ancestors[0].Longtime = "" }, "allow  "},
		{"the longtime profile by which the parent's round went on is cleared", "file.read", func(_ *Catalog, f *facts) {
			caused(f)
			f.Round.Causes[0].Session, f.Agent.Ancestors[0].Longtime = "", ""
		}, "deny ancestors profile"},
		{"control: it is another by now", "file.read", func(_ *Catalog, f *facts) { caused(f); f.Round.Causes[0].Session = "" }, "allow  "},
		{"a guest's round of the parent is the cause", "file.write", func(_ *Catalog, f *facts) { caused(f) }, "deny profile profile"},
		{"a policy for who talked to the parent", "file.read", func(c *Catalog, f *facts) {
			caused(f)
			c.Principals.IDs = map[string]Policy{"terminal-guest": {Deny: []Rule{{Tool: "file.read"}}}}
		}, "deny ancestors principal"},
		{"a policy for the channel of the cause", "file.read", func(c *Catalog, f *facts) {
			caused(f)
			c.Principals.Channels = map[events.ChannelID]Policy{"terminal": {Only: []Rule{{Tool: "file.list"}}}}
		}, "deny ancestors principal"},
		{"a policy for children", "file.write", func(c *Catalog, _ *facts) {
			c.Principals.Kinds = map[events.PrincipalKind]Policy{events.PrincipalSubAgent: {Deny: []Rule{{Tool: "file.write"}}}}
		}, "deny principal deny"},
		{"O-R10 anomalyco/opencode#33223: what the parent leaves it denies", "file.read", func(c *Catalog, f *facts) {
			c.Profiles["open"] = Profile{Scopes: []string{"files"}, Deny: []Rule{{Tool: "file.read", Paths: []string{"a"}}}}
			f.Agent.ChildAllow = "open"
		}, "deny ancestors child_policy"},
		{"O-R10 a scope that the parent denies it", "file.write", func(_ *Catalog, f *facts) { f.Agent.ChildDeny = "writes" }, "deny ancestors child_policy"},
		{"a profile that the parent leaves it", "file.write", func(_ *Catalog, f *facts) { f.Agent.ChildAllow = "guest" }, "deny ancestors child_policy"},
		{"left a profile that is not declared any more", "file.read", func(_ *Catalog, f *facts) { f.Agent.ChildAllow = "gone" }, "deny ancestors child_policy"},
		{"denied a scope that is not declared any more", "file.read", func(_ *Catalog, f *facts) { f.Agent.ChildDeny = "gone" }, "deny ancestors child_policy"},
		{"the parent's role may not declare it any more", "file.read", func(c *Catalog, _ *facts) {
			c.Roles["planner"] = Role{Grants: c.Roles["planner"].Grants, MayDeclare: []string{"reader"}}
		}, "deny ancestors may_declare"},
		{"the parent is released", "file.read", func(_ *Catalog, f *facts) { f.Agent.Ancestors[0].Enrolled = false }, "deny ancestors gone"},
		{"the parent is not in the catalog", "file.read", func(c *Catalog, _ *facts) { delete(c.Agents, "boss") }, "deny ancestors gone"},
		{"revoked", "file.read", func(_ *Catalog, f *facts) { f.Agent.Enrolled = false }, "deny role enrolled"},
		{"a chain that is not whole", "file.read", func(_ *Catalog, f *facts) { f.Agent.Ancestors[0].Parent = "who" }, "deny ancestors depth"},
		{"a parent that nobody knows", "file.read", func(_ *Catalog, f *facts) { f.Agent.Ancestors = nil }, "deny ancestors depth"},
		{"an entry of its id in the catalog gives it nothing", "file.write", func(c *Catalog, f *facts) {
			c.Agents["kid"] = Agent{Role: "worker", Key: key(21)}
			f.Agent.Role = "reader"
		}, "deny role grant"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := sample()
			family(&c)
			req, f := kid(tc.tool)
			tc.edit(&c, &f)
			d := DecideCall(compiled(t, func(x *Catalog) { *x = c }), req, f).Decided
			if verdict(d) != tc.want {
				t.Errorf("got %q (%s), want %q", verdict(d), d.Reason, tc.want)
			}
		})
	}
}

// What a rule says of who talked, of an agent above or of its profile, holds for what
// that caused, whatever the rule's words are about.
func TestConditionsHoldDownTheLine(t *testing.T) {
	grants := func(when string) Role {
		return Role{Version: 1, Grants: []Rule{{Tool: "file.read", When: when}}, MayDeclare: []string{"worker"}}
	}
	denied := func(when string) []Rule { return []Rule{{Tool: "file.read", When: when}} }
	for name, edit := range map[string]func(*Catalog){
		"nobody, for a guest":    func(c *Catalog) { c.Baseline.Deny = denied(`principal.id == "terminal-guest"`) },
		"nobody, over a channel": func(c *Catalog) { c.Baseline.Deny = denied(`channel == "terminal"`) },
		"nobody, for an agent":   func(c *Catalog) { c.Baseline.Deny = denied(`agent == "boss"`) },
		"nobody, of a role":      func(c *Catalog) { c.Baseline.Deny = denied(`role == "planner"`) },
		"a policy for users": func(c *Catalog) {
			c.Principals.Kinds = map[events.PrincipalKind]Policy{events.PrincipalUser: {Deny: denied(`principal.kind == "user"`)}}
		},
		"the profile in effect": func(c *Catalog) {
			c.Profiles["guest"] = Profile{Scopes: []string{"reading"}, Deny: denied(`principal.kind == "user"`)}
		},
		"the longtime profile": func(c *Catalog) {
			c.Profiles["work"] = Profile{Scopes: []string{"files"}, Deny: denied(`agent == "boss"`)}
		},
		"the role":                 func(c *Catalog) { c.Roles["planner"] = grants(`agent != "boss"`) },
		"the role, by its profile": func(c *Catalog) { c.Roles["planner"] = grants(`profile != "guest"`) },
		"a grant that counts":      func(c *Catalog) { c.Roles["planner"] = grants(`used < 3`) },
		"a grant of so many": func(c *Catalog) {
			c.Roles["planner"] = Role{Version: 1, Grants: []Rule{{Tool: "file.read", MaxPerRound: 9}}, MayDeclare: []string{"worker"}}
		},
	} {
		req, f := kid("file.read")
		req.Args = jsontext.Value(`{"path":"a"}`)
		caused(&f)
		if d := DecideCall(compiled(t, family, edit), req, f).Decided; d.Verdict != events.Deny || d.Layer != events.LayerAncestors {
			t.Errorf("%s: %s %s", name, verdict(d), d.Reason)
		}
	}
	req, f := kid("file.read")
	req.Args = jsontext.Value(`{"path":"a"}`)
	caused(&f)
	for name, edit := range map[string]func(*Catalog){
		"another guest":   func(c *Catalog) { c.Baseline.Deny = denied(`principal.id == "bot-guest"`) },
		"another agent":   func(c *Catalog) { c.Roles["planner"] = grants(`agent == "boss"`) },
		"another profile": func(c *Catalog) { c.Roles["planner"] = grants(`profile == "guest"`) },
	} {
		if d := DecideCall(compiled(t, family, edit), req, f).Decided; d.Verdict != events.Allow {
			t.Errorf("control: %s: %s %s", name, verdict(d), d.Reason)
		}
	}
}

// What a decision about a child saw is in the event.
func TestChildFactsAreKept(t *testing.T) {
	req, f := kid("file.read")
	caused(&f)
	d := DecideCall(compiled(t, family), req, f).Decided
	if d.Facts.Ancestors != "boss (role planner, longtime work, left -, denied -)" || d.Facts.CausedBy != "R0" || d.Facts.Role != "worker" {
		t.Errorf("kept %+v", d.Facts)
	}
}

// A grant above that makes new files only binds the child too.
func TestChildInheritsCreateOnly(t *testing.T) {
	req, f := kid("file.write")
	c := compiled(t, family, func(c *Catalog) {
		c.Roles["planner"] = Role{Grants: []Rule{{Tool: "file.write", CreateOnly: true}}, MayDeclare: []string{"worker"}}
	})
	if d := DecideCall(c, req, f).Decided; d.Verdict != events.Allow || !d.Facts.CreateOnly {
		t.Errorf("%s, create only %t", verdict(d), d.Facts.CreateOnly)
	}
}

// Whatever the catalog, the profiles, who talks and what the parents leave: a call that
// is allowed to a grandchild would be allowed to everybody above it, in the round that
// caused it, or with the longtime profile.
func TestRightsNeverExceedAnAncestors(t *testing.T) {
	allowed := 0
	rapid.Check(t, func(t *rapid.T) {
		c, req, f := drawFamily(t)
		set, err := Compile(c)
		if err != nil {
			t.Fatal(err)
		}
		if DecideCall(set, req, f).Decided.Verdict != events.Allow {
			return
		}
		allowed++
		for i, up := range f.Agent.Ancestors {
			own, its := req, f
			own.Agent, its.Round.Agent = up.Agent, up.Agent
			its.Agent = AgentFacts{Known: true, Enrolled: up.Enrolled, Longtime: up.Longtime}
			if up.Parent != "" {
				its.Agent.Role, its.Agent.Parent, its.Agent.ChildAllow, its.Agent.ChildDeny = up.Role, up.Parent, up.ChildAllow, up.ChildDeny
				its.Agent.Ancestors = f.Agent.Ancestors[i+1:]
			}
			if i < len(f.Round.Causes) {
				cause := f.Round.Causes[i]
				its.Round.Principal, its.Round.Channel, its.Round.Session, its.Round.Causes = cause.Principal, cause.Channel, cause.Session, f.Round.Causes[i+1:]
			} else {
				its.Round.Session, its.Round.Causes = "", nil
			}
			if d := DecideCall(set, own, its).Decided; d.Verdict != events.Allow {
				t.Fatalf("the child may what %s above it may not: %s %s", up.Agent, verdict(d), d.Reason)
			}
		}
		if left := f.Agent.ChildDeny + f.Agent.Ancestors[0].ChildDeny; strings.Contains(left, "writes") && (req.Tool.Name == "file.write" || req.Tool.Name == "file.delete") {
			t.Fatalf("%s is denied below", req.Tool.Name)
		}
	})
	if allowed < 5 {
		t.Errorf("only %d calls were allowed: this shows nothing", allowed)
	}
}

// drawFamily draws a call of a grandchild, and a catalog that allows more often than not.
func drawFamily(t *rapid.T) (Catalog, CallRequest, CallFacts) {
	seldom := drawSeldom(t)
	tools := []string{"file.list", "file.read", "file.write", "file.delete"}
	condition := func(name string) string {
		if !seldom(name + " has a condition") {
			return ""
		}
		return rapid.SampledFrom([]string{`agent != "boss"`, `agent != "kid"`, `role != "middle"`, `principal.id != "terminal-guest"`, `principal.kind != "user"`, `channel != "terminal"`, `profile != "work"`}).Draw(t, name)
	}
	rules := func(name string) (out []Rule) {
		for _, tool := range tools {
			if !seldom(name + " lacks " + tool) {
				out = append(out, Rule{Tool: tool, When: condition(name + tool)})
			}
		}
		return out
	}
	c := sample()
	family(&c)
	roles := []string{"top", "middle", "low"}
	for _, role := range roles {
		c.Roles[role] = Role{Version: 1, Grants: rules(role), MayDeclare: roles}
	}
	c.Roles["barren"] = Role{Version: 1, Grants: rules("barren")}
	for _, profile := range []string{"wide", "work"} {
		c.Profiles[profile] = Profile{Allow: rules(profile)}
	}
	c.Agents["boss"] = Agent{Role: "top", Key: key(20)}
	if seldom("baseline") {
		c.Baseline.Deny = []Rule{{Tool: "file.read", When: `agent == "boss" || principal.kind == "user"`}}
	}
	if seldom("policy") {
		c.Principals.IDs = map[string]Policy{"boss": {Deny: []Rule{{Tool: "file.write"}}}}
	}
	profile := func(name string) string {
		if seldom(name + " is odd") {
			return rapid.SampledFrom([]string{"", "guest", NoProfile, "gone"}).Draw(t, name)
		}
		return rapid.SampledFrom([]string{"wide", "work"}).Draw(t, name)
	}
	left := func(name string) string {
		if seldom(name) {
			return "writes"
		}
		return ""
	}
	boss := AncestorFacts{Agent: "boss", Enrolled: !seldom("boss is gone"), Role: "top", Longtime: profile("boss longtime")}
	mid := AncestorFacts{
		Agent: "mid", Parent: "boss", Enrolled: !seldom("mid is gone"), Role: "middle", Longtime: profile("mid longtime"),
		ChildAllow: profile("mid left"), ChildDeny: left("mid denied"),
	}
	if seldom("mid has no children") {
		mid.Role = "barren"
	}
	req, f := kid(rapid.SampledFrom(tools).Draw(t, "tool"))
	req.Args = jsontext.Value(`{"path":"a"}`)
	f.Round.Session = profile("session")
	f.Agent = AgentFacts{
		Known: true, Enrolled: true, Role: "low", Parent: "mid", Longtime: profile("longtime"),
		ChildAllow: profile("left"), ChildDeny: left("denied"), Ancestors: []AncestorFacts{mid, boss},
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "causes") {
		who := rapid.SampledFrom([]events.Principal{{ID: "terminal-guest", Kind: events.PrincipalUser}, {ID: "anna", Kind: events.PrincipalUser}, {ID: "nightly-job", Kind: events.PrincipalInternal}}).Draw(t, "talks")
		f.Round.Causes = append(f.Round.Causes, CauseFacts{Round: "R0", Agent: []events.AgentID{"mid", "boss"}[i], Channel: "terminal", Principal: who, Session: f.Round.Session})
		if seldom("the longtime profile decided") {
			f.Round.Causes[i].Session = ""
		}
	}
	return c, req, f
}

// drawSeldom gives what is seldom true; in half of the families very seldom, because
// rapid likes small numbers.
func drawSeldom(t *rapid.T) func(name string) bool {
	at := rapid.SampledFrom([]int{0, 23}).Draw(t, "seldom")
	return func(name string) bool { return rapid.IntRange(0, 39).Draw(t, name) == at }
}

func declare() (ChildRequest, ChildFacts) {
	return ChildRequest{Parent: "boss", Call: "C1", Child: "kid", Key: key(30), Role: "worker", Allow: "guest", Deny: "writes"},
		ChildFacts{Parent: AgentFacts{Known: true, Enrolled: true}, Known: []KnownAgent{{Agent: "boss", Key: key(20), Role: "planner"}}}
}

func TestDeclareChild(t *testing.T) {
	// had is what the book knows after the wish was granted.
	had := func(r *ChildRequest, f *ChildFacts) {
		f.Known = append(f.Known, KnownAgent{Agent: r.Child, Key: r.Key, Role: r.Role, Parent: "boss"})
		f.Child = AgentFacts{Known: true, Enrolled: true, Role: r.Role, Parent: "boss", ChildAllow: r.Allow, ChildDeny: r.Deny}
	}
	for _, tc := range []struct {
		name string
		edit func(*ChildRequest, *ChildFacts)
		want string
	}{
		{"control", func(*ChildRequest, *ChildFacts) {}, "agent.enrolled child.declared"},
		{"control: nothing left out", func(r *ChildRequest, _ *ChildFacts) { r.Allow, r.Deny = "", "" }, "agent.enrolled child.declared"},
		{"again", had, ""},
		{"again with another key", func(r *ChildRequest, f *ChildFacts) { had(r, f); r.Key = key(31) }, "agent.enrolled child.declared"},
		{"again with another policy", func(r *ChildRequest, f *ChildFacts) { had(r, f); r.Allow = "" }, "child.declared"},
		{"a role that the parent's may not declare", func(r *ChildRequest, _ *ChildFacts) { r.Role = "planner" }, "not_allowed"},
		{"a role that is not declared", func(r *ChildRequest, _ *ChildFacts) { r.Role = "Worker" }, "not_allowed"},
		{"an agent without may_declare", func(r *ChildRequest, _ *ChildFacts) { r.Parent = "alice" }, "not_allowed"},
		{"O-R25 pi-crew#7: a reserved id", func(r *ChildRequest, _ *ChildFacts) { r.Child = "engine" }, "invalid"},
		{"an id with a capital", func(r *ChildRequest, _ *ChildFacts) { r.Child = "Kid" }, "invalid"},
		{"an id that looks like another", func(r *ChildRequest, _ *ChildFacts) { r.Child = "k\u0456d" }, "invalid"},
		{"an id with a control character", func(r *ChildRequest, _ *ChildFacts) { r.Child = "kid\n" }, "invalid"},
		{"a person", func(r *ChildRequest, _ *ChildFacts) { r.Child = "olga" }, "conflict"},
		{"a channel", func(r *ChildRequest, _ *ChildFacts) { r.Child = "terminal" }, "conflict"},
		{"a principal of a channel", func(r *ChildRequest, _ *ChildFacts) { r.Child = "team" }, "conflict"},
		{"the guest of any channel", func(r *ChildRequest, _ *ChildFacts) { r.Child = "sms-guest" }, "conflict"},
		{"who talks for any job", func(r *ChildRequest, _ *ChildFacts) { r.Child = "nightly-job" }, "conflict"},
		{"an agent of the catalog", func(r *ChildRequest, _ *ChildFacts) { r.Child = "alice" }, "conflict"},
		{"oneself", func(r *ChildRequest, _ *ChildFacts) { r.Child = "boss" }, "conflict"},
		{"O-R09 another's child", func(r *ChildRequest, f *ChildFacts) { had(r, f); f.Child.Parent = "bob" }, "conflict"},
		{"a child that was revoked", func(r *ChildRequest, f *ChildFacts) { had(r, f); f.Child.Enrolled = false }, "conflict"},
		{"a key of the catalog", func(r *ChildRequest, _ *ChildFacts) { r.Key = key(6) }, "conflict"},
		{"a key of another child", func(r *ChildRequest, f *ChildFacts) {
			f.Known = append(f.Known, KnownAgent{Agent: "other", Key: r.Key, Parent: "bob"})
		}, "conflict"},
		{"no key", func(r *ChildRequest, _ *ChildFacts) { r.Key = "UA" }, "invalid"},
		{"O-R13 a misspelt profile", func(r *ChildRequest, _ *ChildFacts) { r.Allow = "Guest" }, "unknown_profile"},
		{"a misspelt scope", func(r *ChildRequest, _ *ChildFacts) { r.Deny = "write" }, "invalid"},
		{"a released parent", func(_ *ChildRequest, f *ChildFacts) { f.Parent.Enrolled = false }, "not_allowed"},
		{"too many at once", func(_ *ChildRequest, f *ChildFacts) {
			for i := range MaxChildren {
				f.Known = append(f.Known, KnownAgent{Agent: events.AgentID(fmt.Sprint("c", i)), Parent: "boss"})
			}
		}, "not_allowed"},
		{"as many as it may, and another's", func(_ *ChildRequest, f *ChildFacts) {
			for i := range 2*MaxChildren - 1 {
				f.Known = append(f.Known, KnownAgent{Agent: events.AgentID(fmt.Sprint("c", i)), Parent: []events.AgentID{"bob", "boss"}[i%2]})
			}
		}, "agent.enrolled child.declared"},
		{"too many ever", func(_ *ChildRequest, f *ChildFacts) {
			for i := range MaxChildrenEver {
				f.Known = append(f.Known, KnownAgent{Agent: events.AgentID(fmt.Sprint("c", i)), Parent: "boss", Released: true})
			}
		}, "not_allowed"},
		{"too deep", func(_ *ChildRequest, f *ChildFacts) {
			f.Parent.Parent, f.Parent.Role = "up", "planner"
			f.Parent.Ancestors = make([]AncestorFacts, MaxChildDepth)
		}, "not_allowed"},
		{"as deep as it may", func(r *ChildRequest, f *ChildFacts) {
			r.Parent, f.Parent.Parent, f.Parent.Role = "mid", "up", "planner"
			f.Parent.Ancestors = make([]AncestorFacts, MaxChildDepth-1)
		}, "agent.enrolled child.declared"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req, f := declare()
			tc.edit(&req, &f)
			facts, no := DeclareChild(compiled(t, family), req, f)
			if got := outcome(RoundDecision{Events: facts, Refusal: no}); strings.TrimPrefix(got, "= ") != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if _, no := DeclareChild(nil, ChildRequest{Child: "kid", Key: key(1)}, ChildFacts{}); no == nil {
		t.Error("without a catalog an agent has children")
	}
}

// To clear a longtime profile may leave children more, where there may be any.
func TestClearingLongtimeMayWiden(t *testing.T) {
	olga := events.Actor{Kind: events.ActorPerson, ID: "olga"}
	agent := AgentFacts{Known: true, Enrolled: true, Longtime: "guest"}
	if _, no := SetLongtime(compiled(t, family), olga, false, agent, ""); no == nil || no.Code != CodeNotAllowed {
		t.Errorf("an operator clears it: %+v", no)
	}
	if _, no := SetLongtime(compiled(t, family), olga, false, agent, NoProfile); no != nil {
		t.Errorf("an operator sets none: %+v", no)
	}
	if _, no := SetLongtime(compiled(t), olga, false, agent, ""); no != nil {
		t.Errorf("where nobody has children: %+v", no)
	}
}

func TestRevokeChild(t *testing.T) {
	child := AgentFacts{Known: true, Enrolled: true, Parent: "boss"}
	for name, tc := range map[string]struct {
		parent events.AgentID
		child  AgentFacts
		want   string
	}{
		"control":             {"boss", child, "child.revoked"},
		"again":               {"boss", AgentFacts{Known: true, Parent: "boss"}, ""},
		"another's":           {"bob", child, "unknown_agent"},
		"no child":            {"boss", AgentFacts{Known: true, Enrolled: true}, "unknown_agent"},
		"nobody":              {"boss", AgentFacts{}, "unknown_agent"},
		"nobody's, by nobody": {"", AgentFacts{Known: true, Enrolled: true}, "unknown_agent"},
	} {
		facts, no := RevokeChild(ChildRequest{Parent: tc.parent, Child: "kid"}, tc.child, "done")
		if got := strings.TrimPrefix(outcome(RoundDecision{Events: facts, Refusal: no}), "= "); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// The children of an agent go with it, one generation after the other, and those that
// its role may not have any more.
func TestChildrenGoWithTheirParent(t *testing.T) {
	c := compiled(t, family)
	known := []KnownAgent{
		{Agent: "kid", Parent: "old", Role: "planner", Key: key(30)}, {Agent: "grandkid", Parent: "kid", Role: "worker", Key: key(31)},
		{Agent: "old", Released: true}, {Agent: "son", Parent: "boss", Role: "worker", Key: key(32)}, {Agent: "daughter", Parent: "boss", Role: "planner", Key: key(33)}, {Agent: "boss", Role: "planner", Key: key(20)},
	}
	gone := func() (out []events.AgentID) {
		for _, e := range Enrolments(c, known) {
			if _, ok := e.Event.(events.AgentReleased); ok {
				out = append(out, e.Agent)
			}
		}
		return out
	}
	if got := gone(); !slices.Equal(got, []events.AgentID{"daughter", "kid"}) {
		t.Errorf("first %v", got)
	}
	known[0].Released, known[4].Released = true, true
	if got := gone(); !slices.Equal(got, []events.AgentID{"grandkid"}) {
		t.Errorf("then %v", got)
	}
	identities := Identities(c, known)
	if identities[key(30)].Key != "" || identities[key(32)].Actor.ID != "son" {
		t.Errorf("who may connect: %+v", identities)
	}
}

// A catalog's key is the catalog's, whatever a child was declared with before.
func TestCatalogKeysWin(t *testing.T) {
	c := compiled(t, family)
	got := Identities(c, []KnownAgent{{Agent: "kid", Parent: "boss", Key: key(3)}, {Agent: "boss", Role: "planner", Key: key(20)}, {Agent: "son", Parent: "boss", Key: key(20)}})
	if got[key(3)].Account != AccountChannels || got[key(20)].Actor.ID != "boss" {
		t.Errorf("got %+v", got)
	}
}
