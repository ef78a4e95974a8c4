package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

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
	f.Round.Causes = []CauseFacts{{Round: "R0", Agent: "boss", Channel: "terminal", Principal: events.Principal{ID: "terminal-guest", Kind: events.PrincipalUser}}}
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
		{"a guest's round of the parent is the cause", "file.write", func(_ *Catalog, f *facts) { caused(f) }, "deny profile profile"},
		{"a policy for who talked to the parent", "file.read", func(c *Catalog, f *facts) {
			caused(f)
			c.Principals.IDs = map[string]Policy{"terminal-guest": {Deny: []Rule{{Tool: "file.read"}}}}
		}, "deny ancestors talker"},
		{"a policy for the channel of the cause", "file.read", func(c *Catalog, f *facts) {
			caused(f)
			c.Principals.Channels = map[events.ChannelID]Policy{"terminal": {Only: []Rule{{Tool: "file.list"}}}}
		}, "deny ancestors talker"},
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

// What a decision about a child saw is in the event.
func TestChildFactsAreKept(t *testing.T) {
	req, f := kid("file.read")
	caused(&f)
	d := DecideCall(compiled(t, family), req, f).Decided
	if d.Facts.Ancestors != "boss (role planner, longtime work)" || d.Facts.CausedBy != "R0" || d.Facts.Role != "worker" {
		t.Errorf("kept %+v", d.Facts)
	}
}

// A grant above that makes new files only binds the child too.
func TestChildInheritsCreateOnly(t *testing.T) {
	req, f := kid("file.write")
	c := compiled(t, family, func(c *Catalog) {
		c.Roles["planner"] = Role{Grants: []Rule{{Tool: "file.write", CreateOnly: true}}, MayDeclare: []string{"worker"}}
	})
	if d := DecideCall(c, req, f); d.Decided.Verdict != events.Allow || !d.CreateOnly() {
		t.Errorf("%s, create only %t", verdict(d.Decided), d.CreateOnly())
	}
}

// Whatever the catalog, the longtime profiles and what the parents leave: a call that
// is allowed to a grandchild would be allowed to everybody above it, in a round with
// the profile that they pass down.
func TestRightsNeverExceedAnAncestors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tools := []string{"file.list", "file.read", "file.write", "file.delete"}
		grants := func(name string) (out []Rule) {
			for _, tool := range rapid.SliceOfDistinct(rapid.SampledFrom(tools), rapid.ID[string]).Draw(t, name) {
				out = append(out, Rule{Tool: tool, Paths: rapid.SampledFrom([][]string{nil, {"a"}, {"b"}}).Draw(t, name+" paths")})
			}
			return out
		}
		c := sample()
		family(&c)
		roles := []string{"top", "middle", "low"}
		for i, role := range roles {
			c.Roles[role] = Role{Version: 1, Grants: grants(role), MayDeclare: roles[i:]}
			c.Profiles["p"+role] = Profile{Allow: grants("profile " + role)}
		}
		c.Agents["boss"] = Agent{Role: "top", Key: key(20)}
		profile := rapid.SampledFrom([]string{"", "ptop", "pmiddle", "plow", "work", NoProfile, "gone"})
		boss := AncestorFacts{Agent: "boss", Enrolled: rapid.Bool().Draw(t, "enrolled"), Role: "top", Longtime: profile.Draw(t, "boss longtime")}
		mid := AncestorFacts{Agent: "mid", Parent: "boss", Enrolled: true, Role: "middle", Longtime: profile.Draw(t, "mid longtime"), ChildAllow: profile.Draw(t, "mid left")}
		req, f := kid(rapid.SampledFrom(tools).Draw(t, "tool"))
		f.Round.Session = profile.Draw(t, "session")
		f.Agent = AgentFacts{
			Known: true, Enrolled: true, Role: "low", Parent: "mid", Longtime: profile.Draw(t, "longtime"),
			ChildAllow: profile.Draw(t, "left"), Ancestors: []AncestorFacts{mid, boss},
		}
		if rapid.Bool().Draw(t, "caused") {
			caused(&f)
			f.Round.Session = profile.Draw(t, "passed")
			f.Round.Causes[0].Agent = "mid"
		}
		set, err := Compile(c)
		if err != nil {
			t.Fatal(err)
		}
		if DecideCall(set, req, f).Decided.Verdict != events.Allow {
			return
		}
		for i, up := range f.Agent.Ancestors {
			own, its := req, f
			own.Agent, its.Round.Agent = up.Agent, up.Agent
			its.Agent = AgentFacts{Known: true, Enrolled: up.Enrolled, Longtime: up.Longtime}
			if up.Parent != "" {
				its.Agent.Role, its.Agent.Parent, its.Agent.ChildAllow, its.Agent.Ancestors = up.Role, up.Parent, up.ChildAllow, f.Agent.Ancestors[i+1:]
			}
			if d := DecideCall(set, own, its).Decided; d.Verdict != events.Allow {
				t.Fatalf("the child may what %s above it may not: %s %s", up.Agent, verdict(d), d.Reason)
			}
			if up.Longtime == "" && len(f.Round.Causes) == 0 {
				t.Fatalf("the child acts though %s passes nothing down", up.Agent)
			}
		}
	})
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

// The children of an agent go with it, one generation after the other.
func TestChildrenGoWithTheirParent(t *testing.T) {
	c := compiled(t, family)
	known := []KnownAgent{
		{Agent: "kid", Parent: "old", Key: key(30)}, {Agent: "grandkid", Parent: "kid", Key: key(31)},
		{Agent: "old", Released: true}, {Agent: "son", Parent: "boss", Key: key(32)}, {Agent: "boss", Role: "planner", Key: key(20)},
	}
	gone := func() (out []events.AgentID) {
		for _, e := range Enrolments(c, known) {
			if _, ok := e.Event.(events.AgentReleased); ok {
				out = append(out, e.Agent)
			}
		}
		return out
	}
	if got := gone(); !slices.Equal(got, []events.AgentID{"kid"}) {
		t.Errorf("first %v", got)
	}
	known[0].Released = true
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
