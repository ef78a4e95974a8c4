package policy

import (
	"cmp"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gatebook/events"
	"gatebook/policy/asset"
)

// waits lets calls wait for a person in one of the three ways.
func waits(way string) func(*Catalog) {
	return func(c *Catalog) {
		switch way {
		case "tool":
			c.Tools = map[string]Tool{"file.write": {Staging: StagingApprove}}
		case "role":
			r := c.Roles["worker"]
			r.Approve = []string{"file.write"}
			c.Roles = maps.Clone(c.Roles)
			c.Roles["worker"] = r
		case "content":
			c.Content = map[string]ContentRule{"money": {Pattern: "IBAN", Verdict: events.Stage, Reason: "past a person"}}
		}
	}
}

func TestWhatWaits(t *testing.T) {
	invoice := `{"content":"IBAN","path":"a"}`
	child := facts()
	child.Agent.Role, child.Agent.Parent, child.Agent.Longtime = "reader2", "alice", "work"
	child.Agent.Ancestors = []AncestorFacts{{Agent: "alice", Enrolled: true, Longtime: "work"}}
	same := facts()
	same.SameStaged = "C0"
	full := facts()
	full.NoRoom = true
	many := facts()
	many.Round.Staged = MaxStaged
	for _, row := range []struct {
		name  string
		edit  func(*Catalog)
		facts CallFacts
		args  string
		want  string
	}{
		{"nothing does", func(*Catalog) {}, facts(), invoice, "allow  "},
		{"by its tool", waits("tool"), facts(), "", "stage staging tool"},
		{"by the agent's role", waits("role"), facts(), "", "stage staging role"},
		{"by what stands in it", waits("content"), facts(), invoice, "stage staging content money"},
		{"by nothing that stands in it", waits("content"), facts(), `{"content":"x","path":"a"}`, "allow  "},
		{"auto is what it says", func(c *Catalog) { c.Tools = map[string]Tool{"file.write": {Staging: StagingAuto}} }, facts(), "", "allow  "},
		{"another tool's", func(c *Catalog) { c.Tools = map[string]Tool{"file.read": {Staging: StagingApprove}} }, facts(), "", "allow  "},
		{"a deny wins", func(c *Catalog) {
			waits("tool")(c)
			waits("content")(c)
			c.Content["no-iban"] = ContentRule{Pattern: "IBAN", Verdict: events.Deny}
		}, facts(), invoice, "deny baseline content no-iban"},
		{"a later layer's deny wins", func(c *Catalog) {
			waits("content")(c)
			c.Principals.IDs = map[string]Policy{"anna": {Deny: []Rule{{Tool: "file.write"}}}}
		}, facts(), invoice, "deny principal deny"},
		{"of a child by the role above it", func(c *Catalog) {
			waits("role")(c)
			c.Roles["reader2"] = Role{Version: 1, Grants: []Rule{{Tool: "file.write"}}}
			r := c.Roles["worker"]
			r.MayDeclare = []string{"reader2"}
			c.Roles["worker"] = r
		}, child, "", "stage staging role"},
		{"O-A18 the same waits already", waits("tool"), same, "", "deny staging same"},
		{"O-A18 many wait", waits("tool"), many, "", "deny staging staged_calls"},
		{"no room", waits("tool"), full, "", "deny staging room"},
		{"the same as one that waits, where nothing has to", func(*Catalog) {}, same, "", "allow  "},
	} {
		t.Run(row.name, func(t *testing.T) {
			args := cmp.Or(row.args, `{"content":"x","path":"a"}`)
			got := askGate(t, "file.write", args, row.edit, row.facts, "a")
			if verdict(got) != row.want {
				t.Errorf("%s, want %s (%s)", verdict(got), row.want, got.Reason)
			}
			if c := compiled(t, row.edit); strings.HasPrefix(row.want, "stage") && !c.MayStage(events.ToolKey{Owner: events.OwnerBuiltin, Name: "file.write"}, "") {
				t.Error("the catalog says that it cannot wait")
			}
		})
	}
}

// A rule that lets calls wait never lets one run that would not, a released call is
// asked everything but whether it must wait, and the order of reading changes nothing.
func TestStagingOnlyNarrows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := sample()
		for _, edit := range []func(*Catalog){
			func(c *Catalog) { c.Baseline.Deny = []Rule{{Tool: "file.write"}} },
			func(c *Catalog) { c.Phase = 1 },
			func(c *Catalog) { c.Profiles["work"] = Profile{Tools: []string{"file.read"}} },
			func(c *Catalog) { c.Tools = map[string]Tool{"file.write": {Private: true}} },
			func(c *Catalog) { c.Principals.IDs = map[string]Policy{"anna": {Deny: []Rule{{Tool: "file.write"}}}} },
		} {
			if rapid.IntRange(0, 3).Draw(rt, "narrow") == 0 {
				edit(&c)
			}
		}
		f := facts()
		f.Round.Open = rapid.Bool().Draw(rt, "open")
		req := request("file.write", "a")
		req.Args = []byte(`{"content":"IBAN","path":"a"}`)
		before := DecideCall(compiled(t, func(x *Catalog) { *x = c }), req, f).Decided
		for _, way := range []string{"tool", "role", "content"} {
			staged := compiled(t, func(x *Catalog) {
				*x = c
				private := c.Tools["file.write"].Private
				waits(way)(x)
				if way == "tool" {
					x.Tools = map[string]Tool{"file.write": {Private: private, Staging: StagingApprove}}
				}
			})
			after := DecideCall(staged, req, f).Decided
			if want := map[bool]events.Verdict{true: events.Stage, false: before.Verdict}[before.Verdict == events.Allow]; after.Verdict != want {
				rt.Fatalf("%s without, %s with a wait by %s", verdict(before), verdict(after), way)
			}
			open := f
			open.Round.Open = true
			plain := DecideCall(compiled(t, func(x *Catalog) { *x = c }), req, open).Decided
			if released := ReleaseCall(staged, req, f); released.Verdict != plain.Verdict || released.Layer != plain.Layer {
				rt.Fatalf("%s of a call in an open round, %s at its release", verdict(plain), verdict(released))
			}
		}
	})
}

// O-A10, O-A11: whether a review can be decided says the engine's clock, and an expiry
// that cannot be meant has passed.
func TestReviewExpiry(t *testing.T) {
	now := events.Instant(1_000_000_000_000)
	for name, row := range map[string]struct {
		expires events.Instant
		open    bool
	}{
		"in a second":     {now + 1_000_000, true},
		"this moment":     {now, false},
		"a second ago":    {now - 1_000_000, false},
		"O-A10 none":      {0, false},
		"O-A10 negative":  {-1, false},
		"O-A10 year 9999": {253_402_300_799_000_000, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := ReviewFacts{Review: "V", Call: "C", State: events.ReviewStateOpen, Expires: row.expires}
			act := ReviewAct{By: events.Actor{Kind: events.ActorPerson, ID: "anna"}, Approves: true, Shown: "d", Now: "d"}
			_, no := ApproveReview(compiled(t), act, f, events.CallDecided{Verdict: events.Allow}, now)
			if row.open != (no == nil) || no != nil && no.Code != CodeReviewExpired {
				t.Errorf("%+v", no)
			}
			if ends := ExpireReview(f, now); row.open != (len(ends) == 0) {
				t.Errorf("%d events of its end", len(ends))
			}
		})
	}
	for _, state := range []events.ReviewState{"", events.ReviewStateApproved, events.ReviewStateRefused, events.ReviewStateCancelled, "odd"} {
		f := ReviewFacts{Review: "V", State: state, Expires: now - 1}
		if ExpireReview(f, now) != nil || CancelReview(f, CancelReleased) != nil {
			t.Errorf("a review that is %q ends again", state)
		}
	}
}

// O-R26: a tool whose tier is not known, whatever it says of itself, is privileged.
func TestUnknownTiers(t *testing.T) {
	for _, said := range []events.Tier{"", "READ_ONLY", "read-only", "true", "null", "trusted", "privileged"} {
		for _, owner := range []string{events.OwnerBuiltin, "mailer"} {
			if got := tierOf(events.ToolKey{Owner: owner, Name: "other.tool"}, CallFacts{Tool: ToolFacts{Tier: said}}); got != events.Privileged {
				t.Errorf("O-R26 a tool of %s that says %q of itself is %s", owner, said, got)
			}
		}
	}
	if got := tierOf(events.ToolKey{Owner: events.OwnerBuiltin, Name: "file.write"}, CallFacts{Tool: ToolFacts{Tier: events.ReadOnly}}); got != events.Reversible {
		t.Errorf("O-R26 a built-in tool is lowered to %s", got)
	}
}

func TestStagingChanges(t *testing.T) {
	for name, row := range map[string]struct {
		from, to func(*Catalog)
		widens   bool
	}{
		"a tool waits":         {func(*Catalog) {}, waits("tool"), false},
		"a tool waits no more": {waits("tool"), func(*Catalog) {}, true},
		"a role waits":         {func(*Catalog) {}, waits("role"), false},
		"a role waits no more": {waits("role"), func(*Catalog) {}, true},
		"a text waits":         {func(*Catalog) {}, waits("content"), false},
		"a text waits no more": {waits("content"), func(*Catalog) {}, true},
		"longer reviews":       {func(*Catalog) {}, func(c *Catalog) { c.Limits.ReviewTime = 2 * DefaultReviewTime }, true},
		"a longer trash":       {func(*Catalog) {}, func(c *Catalog) { c.Limits.TrashAge = 2 * DefaultTrashAge }, false},
		"a shorter trash":      {func(*Catalog) {}, func(c *Catalog) { c.Limits.TrashAge = DefaultTrashAge - 1 }, true},
		"a larger trash":       {func(*Catalog) {}, func(c *Catalog) { c.Limits.TrashSize = 2 * DefaultTrashSize }, false},
		"a smaller trash":      {func(*Catalog) {}, func(c *Catalog) { c.Limits.TrashSize = DefaultTrashSize - 1 }, true},
		"an agent gets a role that waits less": {func(c *Catalog) {
			waits("role")(c)
			c.Roles["free"] = Role{Version: 1, Grants: []Rule{{Tool: "file.write"}}}
		}, func(c *Catalog) {
			waits("role")(c)
			c.Roles["free"] = Role{Version: 1, Grants: []Rule{{Tool: "file.write"}}}
			c.Agents["alice"] = Agent{Role: "free", Key: key(1)}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			changes := Compare(compiled(t, row.from), compiled(t, row.to))
			if len(changes) == 0 || Widens(changes) != row.widens {
				t.Errorf("%+v, want widening %t", changes, row.widens)
			}
		})
	}
}

// Two people must approve where the catalog says so: different ones, who have seen the
// same, and neither is who talks in the round.
func TestTwoApprovers(t *testing.T) {
	two := compiled(t, func(c *Catalog) {
		c.Tools = map[string]Tool{"file.write": {Staging: StagingApprove, Approvers: 2}}
		c.People["bob"] = Person{Key: key(20), ApproveKey: key(21), Approver: true}
		c.People["cleo"] = Person{Key: key(22), ApproveKey: key(23), Approver: true}
	})
	one := compiled(t)
	for _, row := range []struct {
		name  string
		c     *Compiled
		by    events.PersonID
		first events.PersonID
		saw   events.Digest // the first
		talks string
		want  string
	}{
		{"the first", two, "anna", "", "", "team", "review.approved+1 "},
		{"the second", two, "bob", "anna", "d", "team", "review.approved call.released "},
		{"the same again", two, "anna", "anna", "d", "team", "conflict"},
		{"who talks, first", two, "anna", "", "", "anna", "not_allowed"},
		{"who talks, second", two, "bob", "anna", "d", "bob", "not_allowed"},
		{"the first saw something else", two, "bob", "anna", "e", "team", "review.approved+1 "},
		{"the same, who saw something else before", two, "anna", "anna", "e", "team", "review.approved+1 "},
		{"the first is no approver any more", two, "bob", "olga", "d", "team", "review.approved+1 "},
		{"one is enough", one, "anna", "", "", "team", "review.approved call.released "},
		{"one is enough, who talks", one, "anna", "", "", "anna", "review.approved call.released "},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := ReviewFacts{
				Review: "V", Call: "C", State: events.ReviewStateOpen, Expires: 10, First: row.first, FirstShown: row.saw,
				Principal: events.Principal{ID: row.talks, Kind: events.PrincipalUser},
			}
			act := ReviewAct{By: person(row.by), Approves: true, Shown: "d", Now: "d"}
			again := events.CallDecided{Verdict: events.Allow, Tool: events.ToolKey{Owner: events.OwnerBuiltin, Name: "file.write"}}
			list, no := ApproveReview(row.c, act, f, again, 5)
			got := ""
			for _, e := range list {
				got += string(e.Kind())
				if yes, ok := e.(events.ReviewApproved); ok && yes.More > 0 {
					got += "+1"
				}
				got += " "
			}
			if no != nil {
				got = string(no.Code)
			}
			if got != row.want {
				t.Errorf("%q, want %q", got, row.want)
			}
		})
	}
	if _, err := Compile(func() Catalog {
		c := sample()
		c.Tools = map[string]Tool{"file.write": {Approvers: 2}}
		return c
	}()); err == nil {
		t.Error("a catalog with one approver takes a tool that needs two")
	}
	for from, to := range map[int]int{2: 1, 1: 2} {
		edit := func(n int) func(*Catalog) {
			return func(c *Catalog) {
				c.People["bob"] = Person{Key: key(20), ApproveKey: key(21), Approver: true}
				c.Tools = map[string]Tool{"file.write": {Approvers: n}}
			}
		}
		if got := Widens(Compare(compiled(t, edit(from)), compiled(t, edit(to)))); got != (to < from) {
			t.Errorf("from %d to %d widens: %t", from, to, got)
		}
	}
}

// A call of a privileged tool waits, unless the catalog says that it need not.
func TestPrivilegedCallsWait(t *testing.T) {
	const send = "mailer/send"
	for _, row := range []struct {
		tier    events.Tier
		staging Staging
		want    string
	}{
		{events.Privileged, "", "stage staging privileged"}, {events.Privileged, StagingAuto, "allow  "},
		{events.Privileged, StagingApprove, "stage staging tool"}, {events.Reversible, "", "allow  "},
		{"", "", "stage staging privileged"}, {"odd", StagingAuto, "allow  "},
	} {
		c := sample()
		c.Tools = map[string]Tool{send: {Staging: row.staging}}
		c.Profiles["work"] = Profile{Tools: []string{send}}
		c.Roles["worker"] = Role{Version: 1, Grants: []Rule{{Tool: send}}}
		out, err := Compile(c, send)
		if err != nil {
			t.Fatal(err)
		}
		req, f := request("x"), facts()
		req.Tool, f.Tool.Tier = events.ToolKey{Owner: "mailer", Name: "send"}, row.tier
		tier := asset.Facts{}.Effective(row.tier)
		f.Asset = asset.Facts{Asset: "A1", Met: true, Tier: tier, Highest: tier, State: events.AssetStateApproved}
		got := DecideCall(out, req, f).Decided
		if verdict(got) != row.want {
			t.Errorf("%q, staging %q: %s, want %s (%s)", row.tier, row.staging, verdict(got), row.want, got.Reason)
		}
		if strings.HasPrefix(row.want, "stage") && !out.MayStage(req.Tool, row.tier) {
			t.Errorf("%q, staging %q: it is said that it cannot wait", row.tier, row.staging)
		}
	}
}
