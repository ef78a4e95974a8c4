package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gatebook/events"
)

// AncestorFacts are what the views say about an agent above a child.
type AncestorFacts struct {
	Agent    events.AgentID
	Parent   events.AgentID
	Enrolled bool
	Role     string // in the book
	Longtime string
	// ChildAllow and ChildDeny are what its own parent leaves it.
	ChildAllow, ChildDeny string
}

// CauseFacts are what the views say about a round in the line of causes of another.
type CauseFacts struct {
	Round     events.RoundID
	Agent     events.AgentID
	Channel   events.ChannelID
	Principal events.Principal
	// Session is its session profile; empty: the longtime one of its agent decides.
	Session string
}

// refuseAncestors asks whether the agent above might make this call itself: as it is
// now, and as one who is asked by who is talking here. Where a round of its own has
// caused this one, it is asked as in that round: with who talked there, and with the
// session profile of that round or, where it has none, the longtime one of now. The
// profile that was in effect in it then is frozen in this round, and asked too. So a
// child never may what an agent above it may not.
func refuseAncestors(g *gate) *refused {
	a := g.facts.Agent
	if a.Parent == "" {
		return nil
	}
	causes := g.facts.Round.Causes
	if n := len(a.Ancestors); n == 0 || n > MaxChildDepth || a.Ancestors[n-1].Parent != "" || a.Ancestors[0].Agent != a.Parent ||
		len(causes) > n || len(causes) > 0 && causes[0].Agent != a.Parent {
		return deny(events.LayerAncestors, "depth", fmt.Sprintf("the agents above this one, or the rounds that led here, are not all known, or more than %d", MaxChildDepth))
	}
	up := g.parent()
	if !up.inCatalog || !up.facts.Agent.Enrolled {
		return deny(events.LayerAncestors, "gone", "the agent "+string(a.Parent)+" above this one is gone, and with it what it passed down")
	}
	if !slices.Contains(g.c.catalog.Roles[up.agent.Role].MayDeclare, a.Role) {
		return deny(events.LayerAncestors, "may_declare", fmt.Sprintf("the role %s of %s may declare no child of the role %s any more", up.agent.Role, a.Parent, a.Role))
	}
	for _, ask := range [...]struct {
		rule     string
		question func(*gate) *refused
	}{
		{"baseline", refuseBaseline}, {"role", refuseRole}, {"role", refuseLimits}, {"profile", refuseProfile},
		{"profile", refuseLongtime}, {"principal", refusePrincipal}, {"", refuseAncestors}, {"", refuseChildPolicy},
	} {
		if no := ask.question(up); no != nil {
			return deny(events.LayerAncestors, cmp.Or(ask.rule, no.rule), "the agent "+string(a.Parent)+" above this one may not either: "+no.reason)
		}
	}
	g.createOnly = g.createOnly || up.createOnly
	return g.refuseRights(g.c.ids[string(a.Parent)], "principal", func() string { return "the policy for the principal " + string(a.Parent) + " above this agent" })
}

// parent is the gate as the call of the agent above would meet it.
func (g *gate) parent() *gate {
	a, round := g.facts.Agent, g.facts.Round
	above := a.Ancestors[0]
	up := *g
	up.above, up.seen, up.createOnly = true, nil, false
	up.req.Agent = above.Agent
	up.facts.Agent = AgentFacts{
		Known: true, Enrolled: above.Enrolled, Longtime: above.Longtime, Role: above.Role, Parent: above.Parent,
		ChildAllow: above.ChildAllow, ChildDeny: above.ChildDeny, Ancestors: a.Ancestors[1:],
	}
	if len(round.Causes) > 0 {
		cause := round.Causes[0]
		up.facts.Round.Principal, up.facts.Round.Channel, up.facts.Round.Session = cause.Principal, cause.Channel, cause.Session
		up.facts.Round.Causes = round.Causes[1:]
	} else {
		up.facts.Round.Session = "" // it is not a round of its own
	}
	up.profile = g.c.profileInEffect(up.facts.Round.Session, above.Longtime)
	up.agent, up.inCatalog = g.c.agent(above.Agent, up.facts.Agent)
	return &up
}

// refuseLongtime asks the longtime profile of an agent whose round has another: a
// child gets it too.
func refuseLongtime(g *gate) *refused {
	longtime := g.facts.Agent.Longtime
	if longtime == "" {
		return nil
	}
	profile := g.c.profileInEffect("", longtime)
	return g.refuseRights(g.c.profile(profile), "profile", func() string { return "its longtime profile, " + profile + "," })
}

// refuseChildPolicy asks what the parent leaves this agent, and what each ancestor
// leaves the next. A name that the catalog does not know any more leaves nothing.
func refuseChildPolicy(g *gate) *refused {
	a := g.facts.Agent
	if a.Parent == "" {
		return nil
	}
	if no := g.refuseLeft(a.Parent, a.ChildAllow, a.ChildDeny); no != nil {
		return no
	}
	for _, up := range a.Ancestors {
		if no := g.refuseLeft(up.Parent, up.ChildAllow, up.ChildDeny); no != nil {
			return no
		}
	}
	return nil
}

func (g *gate) refuseLeft(parent events.AgentID, allow, denied string) *refused {
	scope, known := g.c.catalog.Scopes[denied]
	switch {
	case denied != "" && !known:
		return deny(events.LayerAncestors, "child_policy", "the catalog does not know the scope "+denied+" any more, which "+string(parent)+" denies")
	case slices.Contains(scope.Tools, g.req.Tool.Name):
		return deny(events.LayerAncestors, "child_policy", fmt.Sprintf("%s denies the scope %s below it, and with it %s", parent, denied, g.name()))
	case allow == "":
		return nil
	}
	return g.refuseRights(g.c.profile(allow), "child_policy", func() string { return fmt.Sprintf("what %s leaves below it, %s,", parent, allow) })
}

// refuseRights asks one set of rights in the name of an ancestor; who names it, where
// that has to be said.
func (g *gate) refuseRights(r rights, rule string, who func() string) *refused {
	if l, why := r.deny.denial(g); l != nil {
		return deny(events.LayerAncestors, rule, fmt.Sprintf("%s%s denies %s", because(why), who(), l))
	}
	if r.allow == nil {
		return nil
	}
	if by, no := r.allow.grant(g); by == nil {
		return deny(events.LayerAncestors, rule, fmt.Sprintf("%s%s does not allow this call of %s; it allows %s", because(no.why), who(), g.name(), r.allow))
	}
	return nil
}

// ancestorsText is what the book keeps of the ancestors that a decision saw.
func (c *Compiled) ancestorsText(list []AncestorFacts) string {
	var out []string
	for _, up := range list {
		out = append(out, fmt.Sprintf("%s (role %s, longtime %s, left %s, denied %s)", up.Agent, c.roleOf(up.Agent, up.Parent, up.Role),
			cmp.Or(up.Longtime, "-"), cmp.Or(up.ChildAllow, "-"), cmp.Or(up.ChildDeny, "-")))
	}
	return strings.Join(out, ", ")
}
