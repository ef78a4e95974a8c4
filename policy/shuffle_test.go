package policy

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gatebook/events"
	"gatebook/policy/paths"
)

// O-R08: shuffling rules never changes a verdict, nor what is said of it: those of the
// agent that calls, and those of every agent above a child.
func TestShufflingRulesChangesNothing(t *testing.T) {
	t.Run("an agent of the catalog", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			c := drawRich(t)
			req, f := drawRichCall(t)
			sameWhenShuffled(t, c, req, f)
		})
	})
	t.Run("a child", func(t *testing.T) {
		calls, allowed, above := 0, 0, 0
		rapid.Check(t, func(t *rapid.T) {
			c, req, f := drawRichFamily(t)
			d := sameWhenShuffled(t, c, req, f)
			calls++
			switch {
			case d.Verdict == events.Allow:
				allowed++
			case d.Layer == events.LayerAncestors:
				above++
			}
		})
		if allowed < calls/10 || above < calls/20 {
			t.Errorf("of %d calls %d were allowed and %d refused by an agent above: this shows little", calls, allowed, above)
		}
	})
}

// sameWhenShuffled decides the call by the catalog and by one with its rules in another
// order.
func sameWhenShuffled(t *rapid.T, c Catalog, req CallRequest, f CallFacts) events.CallDecided {
	a, err := Compile(c)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Compile(shuffled(t, c))
	if err != nil {
		t.Fatal(err)
	}
	x, y := DecideCall(a, req, f), DecideCall(b, req, f)
	if fmt.Sprint(x) != fmt.Sprint(y) {
		t.Fatalf("%+v\nand\n%+v", x, y)
	}
	if a.Digest() != b.Digest() {
		t.Fatal("the order of a list is in the digest")
	}
	return x.Decided
}

// shuffled is the catalog with the rules of each list in another order, and the names of
// its scopes and profiles.
func shuffled(t *rapid.T, c Catalog) Catalog {
	rules := func(list []Rule) []Rule {
		if len(list) == 0 {
			return list
		}
		return rapid.Permutation(list).Draw(t, "order")
	}
	policies := func(p Policy) Policy { return Policy{Only: rules(p.Only), Deny: rules(p.Deny)} }
	reversed := func(list []string) []string {
		list = slices.Clone(list)
		slices.Reverse(list)
		return list
	}
	c.Baseline.Deny = rules(c.Baseline.Deny)
	c.Scopes = eachInOrder(c.Scopes, func(s Scope) Scope { return Scope{Tools: reversed(s.Tools)} })
	c.Profiles = eachInOrder(c.Profiles, func(p Profile) Profile {
		return Profile{Scopes: reversed(p.Scopes), Tools: reversed(p.Tools), Allow: rules(p.Allow), Deny: rules(p.Deny)}
	})
	c.Roles = eachInOrder(c.Roles, func(r Role) Role {
		r.Grants, r.MayDeclare = rules(r.Grants), reversed(r.MayDeclare)
		return r
	})
	c.Principals = Principals{
		Kinds: eachInOrder(c.Principals.Kinds, policies), IDs: eachInOrder(c.Principals.IDs, policies),
		Channels: eachInOrder(c.Principals.Channels, policies),
	}
	return c
}

// eachInOrder changes a copy of every entry, by name, so that draws can be repeated.
func eachInOrder[K ~string, V any](m map[K]V, change func(V) V) map[K]V {
	out := make(map[K]V, len(m))
	for _, k := range inOrder(m) {
		out[k] = change(m[k])
	}
	return out
}

// drawRichFamily is a family of three generations whose roles, profiles and policies
// have several rules of a tool, with limits that often hold and sometimes do not.
func drawRichFamily(t *rapid.T) (Catalog, CallRequest, CallFacts) {
	c, req, f := drawFamily(t)
	req.Paths = []paths.Path{mustPath(t, "a")}
	more := func(name string, what use) (out []Rule) {
		for range rapid.IntRange(0, 3).Draw(t, name) {
			out = append(out, drawFamilyRule(t, req.Tool.Name, what))
		}
		return out
	}
	for _, name := range []string{"top", "middle", "low"} {
		role := c.Roles[name]
		role.Grants = append(role.Grants, more(name, granting)...)
		c.Roles[name] = role
	}
	for _, name := range []string{"wide", "work"} {
		p := c.Profiles[name]
		p.Allow = append(p.Allow, more(name, allowing)...)
		p.Deny = append(p.Deny, more(name+" denies", denying)...)
		c.Profiles[name] = p
	}
	c.Baseline.Deny = append(c.Baseline.Deny, more("baseline", denying)...)
	boss := c.Principals.IDs["boss"]
	boss.Deny = append(boss.Deny, more("boss", denying)...)
	c.Principals.IDs = map[string]Policy{"boss": boss}
	if rapid.Bool().Draw(t, "a policy for users") {
		c.Principals.Kinds = map[events.PrincipalKind]Policy{events.PrincipalUser: {Deny: more("users", denying)}}
	}
	return c, req, f
}

// drawFamilyRule is a rule about the tool of the call. Where it denies, it is seldom
// about the call.
func drawFamilyRule(t *rapid.T, tool string, what use) Rule {
	r := Rule{Tool: tool}
	if what == denying {
		r.When = rapid.SampledFrom([]string{"", `agent == "boss"`, `agent == "mid"`, `principal.kind == "user"`, `args.missing == 1`}).Draw(t, "when")
		if !drawSeldom(t)("about the call") {
			r.Paths = rapid.SampledFrom([][]string{{"b"}, {"elsewhere"}, {"b", "docs/**"}}).Draw(t, "paths")
		}
		return r
	}
	r.When = rapid.SampledFrom([]string{"", "", `agent != "mid"`, `role != "top"`, `args.path == "a"`, `args.missing == 1`}).Draw(t, "when")
	r.Paths = rapid.SampledFrom([][]string{nil, nil, {"a"}, {"b"}, {"docs/**", "elsewhere"}}).Draw(t, "paths")
	if what == granting {
		r.MaxPerRound = rapid.SampledFrom([]int{0, 0, 9}).Draw(t, "max")
		r.CreateOnly = tool == "file.write" && rapid.Bool().Draw(t, "create only")
	}
	return r
}
