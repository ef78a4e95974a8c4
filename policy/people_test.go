package policy

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gatebook/events"
)

func TestEnrolments(t *testing.T) {
	known := []KnownAgent{
		{Agent: "alice", Key: key(1), Role: "worker"},
		{Agent: "gone", Key: key(30), Role: "worker"},
		{Agent: "dead", Key: key(31), Role: "worker", Released: true},
	}
	add := func(id events.AgentID, a Agent) func(*Catalog) { return func(c *Catalog) { c.Agents[id] = a } }
	for _, tc := range []struct {
		name string
		edit func(*Catalog)
		want []Enrolment
	}{
		{"new and gone", func(*Catalog) {}, []Enrolment{
			{"bob", events.AgentEnrolled{Role: "reader", Key: key(2)}},
			{"gone", events.AgentReleased{Reason: "not in the catalog any more"}},
		}},
		{"a released id never comes back", func(c *Catalog) {
			delete(c.Agents, "bob")
			delete(c.Channels, "bot")
			add("dead", Agent{Role: "worker", Key: key(31)})(c)
			add("gone", Agent{Role: "worker", Key: key(30)})(c)
		}, nil},
		{"another key and another role", func(c *Catalog) {
			add("alice", Agent{Role: "worker", Key: key(40)})(c)
			add("gone", Agent{Role: "reader", Key: key(30)})(c)
		}, []Enrolment{
			{"alice", events.AgentEnrolled{Role: "worker", Key: key(40)}},
			{"bob", events.AgentEnrolled{Role: "reader", Key: key(2)}},
			{"gone", events.AgentEnrolled{Role: "reader", Key: key(30)}},
		}},
	} {
		if got := Enrolments(compiled(t, tc.edit), known); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v", tc.name, got)
		}
	}
}

// Applying the enrolments and asking again gives none.
func TestEnrolmentsSettle(t *testing.T) {
	ids := []events.AgentID{"alice", "bob", "carl", "dora"}
	rapid.Check(t, func(t *rapid.T) {
		cat := sample()
		cat.Agents = map[events.AgentID]Agent{}
		book := map[events.AgentID]KnownAgent{}
		for i, id := range ids {
			if rapid.Bool().Draw(t, "in catalog") {
				cat.Agents[id] = Agent{Role: rapid.SampledFrom([]string{"worker", "reader"}).Draw(t, "role"), Key: key(40 + i)}
			}
			if rapid.Bool().Draw(t, "known") {
				book[id] = KnownAgent{Agent: id, Released: rapid.Bool().Draw(t, "released"), Key: key(40 + rapid.IntRange(0, 9).Draw(t, "key")), Role: "worker"}
			}
		}
		bot := cat.Channels["bot"]
		bot.Agents = nil
		cat.Channels["bot"] = bot
		c, err := Compile(cat)
		if err != nil {
			t.Fatal(err)
		}
		list := func() (all []KnownAgent) {
			for _, id := range ids {
				if k, ok := book[id]; ok {
					all = append(all, k)
				}
			}
			return all
		}
		for _, e := range Enrolments(c, list()) {
			k := book[e.Agent]
			if k.Released {
				t.Fatalf("%s came back", e.Agent)
			}
			switch fact := e.Event.(type) {
			case events.AgentEnrolled:
				book[e.Agent] = KnownAgent{Agent: e.Agent, Key: fact.Key, Role: fact.Role}
			case events.AgentReleased:
				k.Released = true
				book[e.Agent] = k
			}
		}
		if again := Enrolments(c, list()); again != nil {
			t.Fatalf("%+v", again)
		}
	})
}

func TestIdentities(t *testing.T) {
	c := compiled(t, func(c *Catalog) {
		c.People["dora"] = Person{Key: key(10), ApproveKey: key(11)} // approves nothing any more
		c.People["anna_approve"] = Person{Key: key(12)}
	})
	known := []KnownAgent{
		{Agent: "alice", Key: key(1), Role: "worker"}, {Agent: "bob", Key: key(2), Role: "reader", Released: true},
	}
	all := Identities(c, known)
	srv := "$SRV.PING $SRV.PING.> $SRV.INFO $SRV.INFO.> $SRV.STATS $SRV.STATS.>"
	for _, tc := range []struct {
		name                        string
		key                         events.PublicKey
		account                     Account
		actor                       string
		approves                    bool
		publish, subscribe, inboxOf string
	}{
		{"agent", key(1), AccountAgents, "agent:alice", false, "intent.alice.>", "_INBOX_alice.> inbox.alice", "_INBOX_alice."},
		{"channel", key(3), AccountChannels, "channel:terminal", false, "channel.terminal.>", "_INBOX_terminal.>", "_INBOX_terminal."},
		{"all in one, reading", key(5), AccountPeople, "person:anna", false, srv + " view.anna.> control.anna.>", "_INBOX_anna.> audit.>", "_INBOX_anna."},
		{"all in one, approving", key(6), AccountPeople, "person:anna", true, srv + " review.anna.> view.anna.>", "_INBOX_APPROVE_anna.>", "_INBOX_APPROVE_anna."},
		{"operator", key(7), AccountPeople, "person:olga", false, srv + " view.olga.> control.olga.>", "_INBOX_olga.>", "_INBOX_olga."},
		{"supervisor of one", key(8), AccountPeople, "person:sven", false, srv + " view.sven.>", "_INBOX_sven.> audit.bob.>", "_INBOX_sven."},
		{"without rights", key(10), AccountPeople, "person:dora", false, srv, "_INBOX_dora.>", "_INBOX_dora."},
	} {
		want := Identity{Key: tc.key, Account: tc.account, Approves: tc.approves, Inbox: tc.inboxOf, Publish: strings.Fields(tc.publish), Subscribe: strings.Fields(tc.subscribe)}
		got := all[tc.key]
		if got.Actor.String() != tc.actor {
			t.Errorf("%s: actor %s", tc.name, got.Actor)
		}
		got.Actor = events.Actor{}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", tc.name, got, want)
		}
	}
	for name, k := range map[string]events.PublicKey{"released agent": key(2), "approving key of no approver": key(11), "nobody": key(99)} {
		if i, ok := all[k]; ok {
			t.Errorf("%s may connect: %+v", name, i)
		}
	}
	known[0].Key = key(77)
	if all := Identities(c, known); all[key(77)].Inbox+all[key(1)].Inbox != "" {
		t.Error("an agent connects while book and catalog do not agree on its key")
	}
	if len(Identities(nil, known)) != 0 {
		t.Error("somebody connects without a catalog")
	}
}

// No two identities of one account share an inbox, whatever the names.
func TestInboxesAreApart(t *testing.T) {
	name := rapid.StringMatching(`[a-z0-9][a-z0-9_-]{0,8}(_approve)?`)
	rapid.Check(t, func(t *rapid.T) {
		c := Catalog{Schema: 1, People: map[events.PersonID]Person{}}
		for i, id := range rapid.SliceOfNDistinct(name, 1, 4, rapid.ID).Draw(t, "ids") {
			if !slices.Contains(events.ReservedNames(), id) {
				c.People[events.PersonID(id)] = Person{Key: key(2 * i), ApproveKey: key(2*i + 1), Approver: true}
			}
		}
		comp, err := Compile(c)
		if err != nil {
			t.Fatal(err)
		}
		all := Identities(comp, nil)
		for a, i := range all {
			for b, j := range all {
				if a != b && strings.HasPrefix(i.Inbox, j.Inbox) {
					t.Fatalf("%s and %s", i.Inbox, j.Inbox)
				}
			}
		}
	})
}

func TestMayObserve(t *testing.T) {
	c := compiled(t)
	for _, tc := range []struct {
		person events.PersonID
		agent  events.AgentID
		want   bool
	}{{"anna", "alice", true}, {"sven", "bob", true}, {"sven", "alice", false}, {"olga", "bob", false}, {"nobody", "bob", false}} {
		if got := MayObserve(c, tc.person, tc.agent); got != tc.want {
			t.Errorf("%s sees %s: %t", tc.person, tc.agent, got)
		}
	}
}

func TestWhatPeopleMayDo(t *testing.T) {
	c := compiled(t, func(c *Catalog) { c.People["olga"] = Person{Key: key(7), Operator: true} })
	in := AgentFacts{Enrolled: true}
	release := func(a AgentFacts) asked {
		return func(by events.Actor, ok bool) ([]events.Event, *Refusal) { return ReleaseAgent(c, by, ok, a, "done") }
	}
	phase := func(phase, current int) asked {
		return func(by events.Actor, ok bool) ([]events.Event, *Refusal) { return SetPhase(c, by, ok, phase, current) }
	}
	longtime := func(from, to string) asked {
		return func(by events.Actor, ok bool) ([]events.Event, *Refusal) {
			return SetLongtime(c, by, ok, AgentFacts{Enrolled: true, Longtime: from}, to)
		}
	}
	named := compiled(t, grants(Rule{Tool: "file.write", When: `profile == "guest"`}))
	looked := func(from, to string) asked {
		return func(by events.Actor, ok bool) ([]events.Event, *Refusal) {
			return SetLongtime(named, by, ok, AgentFacts{Enrolled: true, Longtime: from}, to)
		}
	}
	for _, tc := range []struct {
		name                        string
		ask                         asked
		approver, operator, neither string
	}{
		{"release", release(in), "agent.released", "agent.released", "not_allowed"},
		{"release nobody", release(AgentFacts{}), "unknown_agent", "unknown_agent", "not_allowed"},
		{"lower the phase", phase(1, 0), "phase.changed", "phase.changed", "not_allowed"},
		{"raise the phase", phase(2, 1), "phase.changed", "not_allowed", "not_allowed"},
		{"same phase", phase(1, 1), "", "", "not_allowed"},
		{"no phase", phase(3, 1), "invalid", "invalid", "not_allowed"},
		{"longtime, more", longtime("guest", "work"), "profile.set", "not_allowed", "not_allowed"},
		{"longtime from nothing", longtime("", "guest"), "profile.set", "not_allowed", "not_allowed"},
		{"longtime, less", longtime("work", "guest"), "profile.set", "profile.set", "not_allowed"},
		{"longtime cleared", longtime("work", ""), "profile.set", "profile.set", "not_allowed"},
		{"longtime none", longtime("work", "none"), "profile.set", "profile.set", "not_allowed"},
		{"longtime undeclared", longtime("work", "Guest"), "unknown_profile", "unknown_profile", "not_allowed"},
		{"longtime the same", longtime("work", "work"), "", "", "not_allowed"},
		{"longtime, less, where a rule looks at the name", looked("work", "guest"), "profile.set", "not_allowed", "not_allowed"},
		{"longtime none, where a rule looks at the name", looked("work", "none"), "profile.set", "profile.set", "not_allowed"},
		{"longtime cleared, where a rule looks at the name", looked("work", ""), "profile.set", "profile.set", "not_allowed"},
		{"longtime the same, where a rule looks at the name", looked("work", "work"), "", "", "not_allowed"},
	} {
		for _, who := range []struct {
			by       events.Actor
			approves bool
			want     string
		}{
			{events.Actor{Kind: events.ActorPerson, ID: "anna"}, true, tc.approver},
			{events.Actor{Kind: events.ActorPerson, ID: "olga"}, false, tc.operator},
			{events.Actor{Kind: events.ActorPerson, ID: "olga"}, true, tc.operator},
			{events.Actor{Kind: events.ActorPerson, ID: "sven"}, true, tc.neither},
			{events.Actor{Kind: events.ActorAgent, ID: "anna"}, true, tc.neither},
			{events.Actor{Kind: events.ActorChannel, ID: "anna"}, true, tc.neither},
			{events.Engine(), true, tc.neither},
		} {
			got := ""
			if e, no := tc.ask(who.by, who.approves); no != nil {
				got = string(no.Code)
			} else if len(e) > 0 {
				got = string(e[0].Kind())
			}
			if got != who.want {
				t.Errorf("%s by %s approves=%t: got %q, want %q", tc.name, who.by, who.approves, got, who.want)
			}
		}
	}
}

func TestAcceptClock(t *testing.T) {
	c := compiled(t)
	anna, olga, sven := events.Actor{Kind: events.ActorPerson, ID: "anna"}, events.Actor{Kind: events.ActorPerson, ID: "olga"}, events.Actor{Kind: events.ActorPerson, ID: "sven"}
	if AcceptClock(c, anna, true) != nil || AcceptClock(c, olga, false) != nil {
		t.Error("somebody who may accept the clock is refused")
	}
	if RebuildViews(c, anna, true) != nil || RebuildViews(c, olga, false) != nil {
		t.Error("somebody who may rebuild is refused")
	}
	if RebuildViews(c, sven, true) == nil || RebuildViews(c, events.Engine(), true) == nil || RebuildViews(nil, anna, true) == nil {
		t.Error("somebody who may not rebuild is not refused")
	}
	if AcceptClock(c, sven, true) == nil || AcceptClock(c, events.Engine(), true) == nil || AcceptClock(nil, anna, true) == nil {
		t.Error("somebody who may not accept the clock is not refused")
	}
}

type asked func(by events.Actor, approves bool) ([]events.Event, *Refusal)
