package policy

import (
	"strings"
	"testing"

	"gatebook/events"
	"gatebook/policy/price"
)

func TestCompare(t *testing.T) {
	edit := func(f func(*Channel)) func(*Catalog) {
		return func(c *Catalog) { ch := c.Channels["terminal"]; f(&ch); c.Channels["terminal"] = ch }
	}
	without := func(sender string) func(*Catalog) {
		return edit(func(ch *Channel) { delete(ch.Senders, sender) })
	}
	deny, only := Policy{Deny: []Rule{{Tool: "file.read"}}}, Policy{Only: []Rule{{Tool: "file.list"}}}
	kinds := func(user, group Policy, more ...func(*Catalog)) func(*Catalog) {
		return func(c *Catalog) {
			c.Principals.Kinds = map[events.PrincipalKind]Policy{events.PrincipalUser: user, events.PrincipalGroup: group}
			for _, edit := range more {
				edit(c)
			}
		}
	}
	ids := func(policies map[string]Policy) func(*Catalog) {
		return func(c *Catalog) {
			c.Principals.IDs = policies
			c.Channels["terminal"].Senders["anna2"] = c.Channels["terminal"].Senders["anna"]
		}
	}
	for _, tc := range []struct {
		name   string
		before func(*Catalog)
		after  func(*Catalog)
		want   string
		widens bool
	}{
		{"nothing", nil, func(*Catalog) {}, "", false},
		{"agent added", nil, func(c *Catalog) { c.Agents["carl"] = Agent{Role: "reader", Key: key(20)} }, "agents.carl added (role reader)", true},
		{"agent removed", nil, func(c *Catalog) { delete(c.Agents, "alice") }, "agents.alice removed (role worker)", false},
		{"role of an agent, less", nil, func(c *Catalog) { c.Agents["alice"] = Agent{Role: "reader", Key: key(1)} }, "agents.alice.role changed from worker to reader", false},
		{"role of an agent, more", nil, func(c *Catalog) { c.Agents["bob"] = Agent{Role: "worker", Key: key(2)} }, "agents.bob.role changed from reader to worker", true},
		{"key of an agent", nil, func(c *Catalog) { c.Agents["bob"] = Agent{Role: "reader", Key: key(20)} }, "agents.bob.key changed", true},
		{"phase down", nil, func(c *Catalog) { c.Phase = 0 }, "phase changed from 2 to 1", false},
		{"phase up", func(c *Catalog) { c.Phase = 0 }, func(c *Catalog) { c.Phase = 2 }, "phase changed from 1 to 2", true},
		{"tool out of a scope", nil, func(c *Catalog) { c.Scopes["reading"] = Scope{[]string{"file.read"}} }, "scopes.reading.tools loses file.list", false},
		{"tool out of a scope that the baseline denies", func(c *Catalog) { c.Baseline.Deny = []Rule{{Scope: "reading"}} }, func(c *Catalog) { c.Scopes["reading"] = Scope{[]string{"file.read"}} }, "scopes.reading.tools loses file.list", true},
		{"tool out of a scope that a profile denies", func(c *Catalog) {
			c.Profiles["writer"] = Profile{Tools: []string{"file.write"}, Deny: []Rule{{Scope: "reading"}}}
		}, func(c *Catalog) { c.Scopes["reading"] = Scope{[]string{"file.read"}} }, "scopes.reading.tools loses file.list", true},
		{"tool out of a scope that a policy denies", func(c *Catalog) { c.Principals.IDs = map[string]Policy{"anna": {Deny: []Rule{{Scope: "reading"}}}} }, func(c *Catalog) { c.Scopes["reading"] = Scope{[]string{"file.read"}} }, "scopes.reading.tools loses file.list", true},
		{"tool out of a scope that a content rule looks at", func(c *Catalog) {
			c.Content = map[string]ContentRule{"a": {Pattern: "a", Verdict: events.Deny, Scopes: []string{"reading"}}}
		}, func(c *Catalog) { c.Scopes["reading"] = Scope{[]string{"file.read"}} }, "scopes.reading.tools loses file.list", true},
		{"tool into a profile", nil, func(c *Catalog) { c.Profiles["nothing"] = Profile{Tools: []string{"file.read"}} }, "profiles.nothing.tools gains file.read", true},
		{"grant removed", nil, func(c *Catalog) { c.Roles["reader"] = Role{Version: 1} }, "roles.reader.grants loses scope reading", false},
		{"grant added", nil, func(c *Catalog) {
			c.Roles["reader"] = Role{Version: 1, Grants: []Rule{{Scope: "reading"}, {Tool: "file.write"}}}
		}, "roles.reader.grants gains tool file.write", true},
		{"role version", nil, func(c *Catalog) { c.Roles["reader"] = Role{Version: 2, Grants: []Rule{{Scope: "reading"}}} }, "roles.reader.version changed from 1 to 2", true},
		{"sender added", nil, edit(func(ch *Channel) { ch.Senders["new"] = Sender{"new", events.PrincipalUser, "none"} }), "channels.terminal.senders.new added", true},
		{"sender removed", nil, edit(func(ch *Channel) { delete(ch.Senders, "anna") }), "channels.terminal.senders.anna removed", false},
		{"sender removed who falls to a wider guest", nil, edit(func(ch *Channel) { delete(ch.Senders, "mute") }), "channels.terminal.senders.mute removed", true},
		{"sender removed whose kind is denied something", kinds(Policy{}, deny), without("team"), "channels.terminal.senders.team removed", true},
		{"sender removed whose kind is left something", kinds(Policy{}, only), without("team"), "channels.terminal.senders.team removed", true},
		{"sender removed of another kind with the same policy", kinds(deny, deny), without("team"), "channels.terminal.senders.team removed", false},
		{"sender removed whose kind has no policy", kinds(deny, Policy{}), without("team"), "channels.terminal.senders.team removed", false},
		{"sender removed of the guest's kind", kinds(Policy{}, deny, edit(func(ch *Channel) { ch.Guest.Kind = events.PrincipalGroup })), without("team"), "channels.terminal.senders.team removed", false},
		{"sender removed for a guest who may do nothing", kinds(Policy{}, deny, edit(func(ch *Channel) { ch.Guest.Profile = NoProfile })), without("team"), "channels.terminal.senders.team removed", false},
		{"one sender of two with a policy for their principal", ids(map[string]Policy{"anna": deny}), without("anna"), "channels.terminal.senders.anna removed", true},
		{"one sender of two, the guest with the same policy", ids(map[string]Policy{"anna": only, "terminal-guest": only}), without("anna2"), "channels.terminal.senders.anna2 removed", false},
		{"one sender of two, the guest with a wider policy", ids(map[string]Policy{"anna": only, "terminal-guest": deny}), without("anna"), "channels.terminal.senders.anna removed", true},
		{"one sender of two without a policy", ids(nil), without("anna"), "channels.terminal.senders.anna removed", false},
		{"sender removed with the policy for their principal", func(c *Catalog) { c.Principals.IDs = map[string]Policy{"team": deny} }, func(c *Catalog) { without("team")(c); c.Principals.IDs = nil },
			"channels.terminal.senders.team removed (principal team, profile guest); principals.ids.team removed", true},
		{"sender's kind", nil, edit(func(ch *Channel) { ch.Senders["team"] = Sender{"team", events.PrincipalUser, "guest"} }), "channels.terminal.senders.team.kind changed", true},
		{"sender's principal", nil, edit(func(ch *Channel) { ch.Senders["team"] = Sender{"anna", events.PrincipalGroup, "guest"} }), "channels.terminal.senders.team.principal changed", true},
		{"sender's profile, less", nil, edit(func(ch *Channel) { ch.Senders["anna"] = Sender{"anna", events.PrincipalUser, "guest"} }), "channels.terminal.senders.anna.profile changed from work to guest", false},
		{"sender's profile, more", nil, edit(func(ch *Channel) { ch.Senders["team"] = Sender{"team", events.PrincipalGroup, "work"} }), "channels.terminal.senders.team.profile changed from guest to work", true},
		{"sender's profile to absent", nil, edit(func(ch *Channel) { ch.Senders["anna"] = Sender{"anna", events.PrincipalUser, ""} }), "channels.terminal.senders.anna.profile changed from work to the agent's longtime profile", true},
		{"sender's profile from none to absent", nil, edit(func(ch *Channel) { ch.Senders["still"] = Sender{"still", events.PrincipalUser, ""} }), "channels.terminal.senders.still.profile changed from none to the agent's longtime profile", true},
		{"sender's profile from absent", nil, edit(func(ch *Channel) { ch.Senders["mute"] = Sender{"mute", events.PrincipalUser, "guest"} }), "channels.terminal.senders.mute.profile changed from the agent's longtime profile to guest", true},
		{"sender's profile from absent to none", nil, edit(func(ch *Channel) { ch.Senders["mute"] = Sender{"mute", events.PrincipalUser, "none"} }), "channels.terminal.senders.mute.profile changed from the agent's longtime profile to none", false},
		{"sender without a profile added", nil, edit(func(ch *Channel) { ch.Senders["new"] = Sender{"new", events.PrincipalUser, ""} }), "channels.terminal.senders.new added (principal new, profile the agent's longtime profile)", true},
		{"guest, less", nil, edit(func(ch *Channel) { ch.Guest.Profile = "none" }), "channels.terminal.guest.profile changed from guest to none", false},
		{"guest, more", nil, edit(func(ch *Channel) { ch.Guest.Profile = "work" }), "channels.terminal.guest.profile changed from guest to work", true},
		{"guest's kind", nil, edit(func(ch *Channel) { ch.Guest.Kind = events.PrincipalGroup }), "channels.terminal.guest.kind changed", true},
		{"all agents to one", nil, edit(func(ch *Channel) { ch.Agents = []string{"bob"} }), "channels.terminal.agents gains bob; channels.terminal.agents loses *", false},
		{"one agent to all", edit(func(ch *Channel) { ch.Agents = []string{"bob"} }), edit(func(ch *Channel) { ch.Agents = []string{"*"} }), "channels.terminal.agents gains *; channels.terminal.agents loses bob", true},
		{"person removed", nil, func(c *Catalog) { delete(c.People, "olga") }, "people.olga removed operator", false},
		{"person added", nil, func(c *Catalog) { c.People["ed"] = Person{Key: key(20)} }, "people.ed added without rights", true},
		{"approver no more", nil, func(c *Catalog) {
			p := c.People["anna"]
			p.Approver, p.ApproveKey = false, ""
			c.People["anna"] = p
		}, "people has no approver any more: nothing could be approved again; people.anna.approve_key removed; people.anna.approver changed from true to false", true},
		{"one approver of two no more", func(c *Catalog) {
			c.People["ed"] = Person{Key: key(20), ApproveKey: key(21), Approver: true}
		}, func(c *Catalog) {
			p := c.People["anna"]
			p.Approver, p.ApproveKey = false, ""
			c.People["anna"] = p
		}, "people.anna.approve_key removed; people.anna.approver changed from true to false", false},
		{"operator", nil, func(c *Catalog) { p := c.People["sven"]; p.Operator = true; c.People["sven"] = p }, "people.sven.operator changed from false to true", true},
		{"observes more", nil, func(c *Catalog) {
			p := c.People["sven"]
			p.ObservableAgents = []string{"alice", "bob"}
			c.People["sven"] = p
		}, "people.sven.observable_agents gains alice", true},
		{"longer timeout", nil, func(c *Catalog) { c.Limits.RoundTimeout = 2 * DefaultRoundTimeout }, "limits.round_timeout changed from 1h0m0s to 2h0m0s", true},
		{"shorter tool time", nil, func(c *Catalog) { c.Limits.ToolTime = 1_000_000 }, "limits.tool_time changed from 30s to 1s", false},
		{"fewer queued", nil, func(c *Catalog) { c.Limits.QueuedCalls = 1 }, "limits.queued_calls changed from 64 to 1", false},
		{"a first price", nil, func(c *Catalog) { c.Prices = prices(3) }, "prices.currency added; prices.models.m added: input 0.000003 for a million", true},
		{"a lower price", func(c *Catalog) { c.Prices = prices(3) }, func(c *Catalog) { c.Prices = prices(2) },
			"prices.models.m changed from input 0.000003 for a million to input 0.000002 for a million", true},
		{"a price no more", func(c *Catalog) { c.Prices = prices(3) }, func(c *Catalog) { c.Prices.Models = nil }, "prices.models.m removed", false},
		{"another currency", func(c *Catalog) { c.Prices = prices(3) }, func(c *Catalog) { c.Prices.Currency = "USD" }, `prices.currency changed from "EUR" to "USD"`, true},
		{"more running", nil, func(c *Catalog) { c.Limits.RunningTools = 17 }, "limits.running_tools changed from 16 to 17", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, after := compiled(t), (*Compiled)(nil)
			if tc.before != nil {
				before, after = compiled(t, tc.before), compiled(t, tc.before, tc.after)
			} else {
				after = compiled(t, tc.after)
			}
			var texts []string
			changes := Compare(before, after)
			widens := Widens(changes)
			for _, c := range changes {
				texts = append(texts, c.Text)
			}
			got := strings.Join(texts, "; ")
			if !strings.HasPrefix(got, tc.want) || (tc.want == "") != (got == "") || widens != tc.widens {
				t.Errorf("got %q, widens %t; want %q, %t", got, widens, tc.want, tc.widens)
			}
			if (got == "") != (before.Digest() == after.Digest()) {
				t.Error("the list and the digests do not agree")
			}
			checkLoad(t, before, after, widens)
		})
	}
}

// checkLoad: narrowing takes effect for the engine alone, widening only for an
// approver with the approving key.
func checkLoad(t *testing.T, before, after *Compiled, widens bool) {
	t.Helper()
	anna := events.Actor{Kind: events.ActorPerson, ID: "anna"}
	for _, by := range []CatalogRequest{
		{By: events.Engine(), Next: after}, {By: anna, Next: after}, {By: anna, Approves: true, Next: after},
		{By: events.Actor{Kind: events.ActorPerson, ID: "olga"}, Approves: true, Next: after},
		{By: events.Actor{Kind: events.ActorAgent, ID: "anna"}, Approves: true, Next: after},
	} {
		got, no := LoadCatalog(before, by)
		may := !widens || by.By == anna && by.Approves
		switch {
		case (no == nil) != may:
			t.Errorf("%s approves=%t: refusal %+v", by.By, by.Approves, no)
		case no == nil && before.Digest() != after.Digest():
			loaded := got[0].(events.CatalogLoaded)
			if loaded.Widens != widens || (loaded.ApprovedBy == "anna") != widens || loaded.Digest != after.Digest() || loaded.Size != int64(len(after.Canonical())) {
				t.Errorf("%+v", loaded)
			}
		case len(got) > 0 && before.Digest() == after.Digest():
			t.Error("the same catalog was loaded again")
		}
	}
}

func TestFirstCatalog(t *testing.T) {
	next := compiled(t)
	changes := Compare(nil, next)
	for i, c := range changes {
		if !c.Widens && !strings.HasPrefix(c.Path, "limits.") {
			t.Errorf("%+v does not widen", c)
		}
		if i > 0 && changes[i-1].Path > c.Path {
			t.Errorf("%s is out of order", c.Path)
		}
	}
	anna := events.Actor{Kind: events.ActorPerson, ID: "anna"}
	if _, no := LoadCatalog(nil, CatalogRequest{By: anna, Approves: true, Next: next}); no != nil {
		t.Errorf("%+v", no)
	}
	for _, by := range []CatalogRequest{{By: anna, Next: next}, {By: events.Engine(), Approves: true, Next: next}, {By: anna, Approves: true}} {
		if e, no := LoadCatalog(nil, by); no == nil {
			t.Errorf("%+v was loaded: %+v", by.By, e)
		}
	}
	bare := compiled(t, func(c *Catalog) { *c = Catalog{Schema: 1} })
	if _, no := LoadCatalog(nil, CatalogRequest{By: anna, Approves: true, Next: bare}); no == nil {
		t.Error("an empty first catalog needs nobody")
	}
}

func prices(micros int64) price.Table {
	return price.Table{Currency: "EUR", Models: map[string]price.Price{"m": {Input: price.Rate{Amount: events.AmountOf(micros)}}}}
}
