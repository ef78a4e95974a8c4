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
}

// refuseAncestors asks what each ancestor passes down as it is now: its role, its
// longtime profile, the policy for it as a principal, and what it leaves its child.
// Along the line of causes the policies for those who talked there hold too; of their
// profile the round itself has a frozen one.
func refuseAncestors(g *gate) *refused {
	a := g.facts.Agent
	if a.Parent == "" {
		return nil
	}
	if n := len(a.Ancestors); n == 0 || n > MaxChildDepth || a.Ancestors[n-1].Parent != "" {
		return deny(events.LayerAncestors, "depth", fmt.Sprintf("the agents above this one are not all known, or more than %d", MaxChildDepth))
	}
	below := a.Role
	for _, up := range a.Ancestors {
		if no := refuseAncestor(g, up, below); no != nil {
			return no
		}
		below = g.c.roleOf(up.Agent, up.Parent, up.Role)
	}
	for _, cause := range g.facts.Round.Causes {
		if no := refuseTalker(g, cause.Principal, cause.Channel); no != nil {
			return deny(events.LayerAncestors, "talker", no.reason)
		}
	}
	return nil
}

func refuseAncestor(g *gate, up AncestorFacts, below string) *refused {
	_, inCatalog := g.c.catalog.Agents[up.Agent]
	if !up.Enrolled || up.Parent == "" && !inCatalog {
		return deny(events.LayerAncestors, "gone", "the agent "+string(up.Agent)+" above this one is gone, and with it what it passed down")
	}
	role := g.c.roleOf(up.Agent, up.Parent, up.Role)
	if !slices.Contains(g.c.catalog.Roles[role].MayDeclare, below) {
		return deny(events.LayerAncestors, "may_declare", fmt.Sprintf("the role %s of %s may declare no child of the role %s any more", role, up.Agent, below))
	}
	by, no := g.c.roles[role].grant(g)
	if by == nil {
		return deny(events.LayerAncestors, "role", fmt.Sprintf("%sthe role %s of %s above this agent does not grant this call of %s%s", because(no.why), role, up.Agent, g.name(), within(no.limit)))
	}
	g.createOnly = g.createOnly || by.CreateOnly
	if no := refuseLongtime(g, up); no != nil {
		return no
	}
	return g.refuseRights(g.c.ids[string(up.Agent)], "principal", "the policy for the principal "+string(up.Agent)+" above this agent")
}

// refuseLongtime asks the longtime profile of an ancestor. One without counts as one
// that may do nothing, but for what a round of its own has caused.
func refuseLongtime(g *gate, up AncestorFacts) *refused {
	caused := slices.ContainsFunc(g.facts.Round.Causes, func(c CauseFacts) bool { return c.Agent == up.Agent })
	if up.Longtime == "" && caused {
		return nil
	}
	profile := g.c.profileInEffect("", up.Longtime)
	return g.refuseRights(g.c.profile(profile), "profile", fmt.Sprintf("the longtime profile of %s above this agent, %s,", up.Agent, profile))
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
	return g.refuseRights(g.c.profile(allow), "child_policy", fmt.Sprintf("what %s leaves below it, %s,", parent, allow))
}

// refuseRights asks one set of rights in the name of an ancestor; who names it.
func (g *gate) refuseRights(r rights, rule, who string) *refused {
	if l, why := r.deny.denial(g); l != nil {
		return deny(events.LayerAncestors, rule, fmt.Sprintf("%s%s denies %s", because(why), who, l))
	}
	if r.allow == nil {
		return nil
	}
	if by, no := r.allow.grant(g); by == nil {
		return deny(events.LayerAncestors, rule, fmt.Sprintf("%s%s does not allow this call of %s; it allows %s", because(no.why), who, g.name(), r.allow))
	}
	return nil
}

// within names the limit that a call is beyond.
func within(limit string) string {
	if limit == "" {
		return ""
	}
	return " (" + limit + ")"
}

// ancestorsText is what the book keeps of the ancestors that a decision saw.
func (c *Compiled) ancestorsText(list []AncestorFacts) string {
	var out []string
	for _, up := range list {
		out = append(out, fmt.Sprintf("%s (role %s, longtime %s)", up.Agent, c.roleOf(up.Agent, up.Parent, up.Role), cmp.Or(up.Longtime, "-")))
	}
	return strings.Join(out, ", ")
}
