package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gatebook/events"
)

// The bounds of children.
const (
	// MaxChildDepth is how many generations may stand below an agent of the catalog.
	MaxChildDepth = 4
	// MaxChildren is how many an agent may have at once, MaxChildrenEver how many in its
	// life: an id is never given again, so each is kept for good.
	MaxChildren     = 64
	MaxChildrenEver = 1024
)

// ChildRequest is the wish of a parent to have a child, or another policy for one
// that it has.
type ChildRequest struct {
	Parent events.AgentID
	Call   events.CallID // of the parent, that asks for it
	Child  events.AgentID
	Key    events.PublicKey
	Role   string // one that the parent's role may declare
	// Allow is a profile beyond which the child may do nothing, Deny a scope of tools
	// that it may not use; empty for none.
	Allow, Deny string
}

// ChildFacts are what the views say when an agent speaks of a child.
type ChildFacts struct {
	Parent AgentFacts
	// Known are all agents of the book, released ones too.
	Known []KnownAgent
	// Child is the agent of the wished id; the zero value where there is none.
	Child AgentFacts
}

// DeclareChild answers the wish with the events about the child. The same wish again
// gives none.
func DeclareChild(c *Compiled, req ChildRequest, f ChildFacts) ([]events.Event, *Refusal) {
	if no := mayDeclare(c, req, f); no != nil {
		return nil, no
	}
	declared := events.ChildDeclared{Parent: req.Parent, Call: req.Call, Allow: req.Allow, Deny: req.Deny}
	enrolled := events.AgentEnrolled{Role: req.Role, Parent: req.Parent, Key: req.Key}
	at := slices.IndexFunc(f.Known, func(k KnownAgent) bool { return k.Agent == req.Child })
	switch {
	case at < 0 || f.Known[at].Key != req.Key || f.Known[at].Role != req.Role:
		return []events.Event{enrolled, declared}, nil
	case f.Child.ChildAllow != req.Allow || f.Child.ChildDeny != req.Deny:
		return []events.Event{declared}, nil
	}
	return nil, nil
}

func mayDeclare(c *Compiled, req ChildRequest, f ChildFacts) *Refusal {
	if _, err := events.ParseAgentID(string(req.Child)); err != nil {
		return refuse(CodeInvalid, "child: "+err.Error())
	}
	if !keyForm.MatchString(string(req.Key)) {
		return refuse(CodeInvalid, "key: want the public key that the child made, U and 55 of A-Z 2-7")
	}
	if c == nil || !f.Parent.Enrolled {
		return refuse(CodeNotAllowed, "an agent that is not enrolled has no children")
	}
	parent := c.roleOf(req.Parent, f.Parent.Parent, f.Parent.Role)
	living, ever := childrenOf(req.Parent, f.Known)
	switch {
	case !slices.Contains(c.catalog.Roles[parent].MayDeclare, req.Role):
		return refuse(CodeNotAllowed, fmt.Sprintf("role: the role %s may declare no child of the role %s; its may_declare names %s",
			parent, events.Quote(req.Role), listed(c.catalog.Roles[parent].MayDeclare)))
	case !f.Child.Known && (living >= MaxChildren || ever >= MaxChildrenEver):
		return refuse(CodeNotAllowed, fmt.Sprintf("an agent has at most %d children at once, and %d in its life; revoke one that is not needed any more", MaxChildren, MaxChildrenEver))
	case len(f.Parent.Ancestors)+1 > MaxChildDepth:
		return refuse(CodeNotAllowed, fmt.Sprintf("children are at most %d generations deep", MaxChildDepth))
	}
	if no := isFree(c, req, f); no != nil {
		return no
	}
	if _, ok := c.profiles[req.Allow]; req.Allow != "" && !ok {
		return refuse(CodeUnknownProfile, "allow: the catalog declares no profile "+events.Quote(req.Allow)+"; names are exact, case included")
	}
	if _, ok := c.catalog.Scopes[req.Deny]; req.Deny != "" && !ok {
		return refuse(CodeInvalid, "deny: the catalog declares no scope "+events.Quote(req.Deny)+"; names are exact, case included")
	}
	return nil
}

// orphaned says why a child is let go; empty where it is not. It is for good: what a
// catalog takes from it must not come back by another that an approver sees only half of.
func (c *Compiled) orphaned(child KnownAgent, known map[events.AgentID]KnownAgent) string {
	up, ok := known[child.Parent]
	if !ok || up.Released {
		return "its parent " + string(child.Parent) + " is gone"
	}
	role := c.roleOf(up.Agent, up.Parent, up.Role)
	if !slices.Contains(c.catalog.Roles[role].MayDeclare, child.Role) {
		return events.Cut(fmt.Sprintf("the role %s of its parent may declare no child of the role %s any more", role, child.Role), maxReason)
	}
	return ""
}

// names says whether the catalog knows anybody by this name, whatever they are.
func (c *Compiled) names(name string) bool {
	_, agent := c.catalog.Agents[events.AgentID(name)]
	_, channel := c.catalog.Channels[events.ChannelID(name)]
	_, person := c.catalog.People[events.PersonID(name)]
	_, job := c.catalog.Jobs[name]
	_, talks := c.catalog.talkers()[name]
	_, policy := c.catalog.Principals.IDs[name]
	return agent || channel || person || job || talks || policy ||
		strings.HasSuffix(name, guestSuffix) || strings.HasSuffix(name, jobSuffix)
}

func childrenOf(parent events.AgentID, known []KnownAgent) (living, ever int) {
	for _, k := range known {
		if k.Parent != parent {
			continue
		}
		if ever++; !k.Released {
			living++
		}
	}
	return living, ever
}

// isFree refuses an id or a key that is somebody else's, and an id that rules take for
// somebody else: a child is the principal of what it causes.
func isFree(c *Compiled, req ChildRequest, f ChildFacts) *Refusal {
	taken := c.names(string(req.Child)) || f.Child.Known && (f.Child.Parent != req.Parent || !f.Child.Enrolled)
	if taken {
		return refuse(CodeConflict, "child: the id "+string(req.Child)+" is not free, or was given before; choose another")
	}
	used := c.keys[req.Key] || slices.ContainsFunc(f.Known, func(k KnownAgent) bool { return k.Key == req.Key && k.Agent != req.Child })
	if used {
		return refuse(CodeConflict, "key: it is somebody else's; a child makes a key pair of its own")
	}
	return nil
}

// RevokeChild answers the wish of a parent that a child of its own can do nothing any
// more. The same wish again gives no events.
func RevokeChild(req ChildRequest, child AgentFacts, reason string) ([]events.Event, *Refusal) {
	switch {
	case !child.Known || child.Parent == "" || child.Parent != req.Parent:
		return nil, refuse(CodeUnknownAgent, "you have no child "+events.Quote(string(req.Child)))
	case !child.Enrolled:
		return nil, nil
	}
	return []events.Event{events.ChildRevoked{Parent: req.Parent, Call: req.Call, Reason: events.Cut(reason, maxReason)}}, nil
}

// hasChildren says whether any role may declare some.
func (c *Compiled) hasChildren() bool {
	for _, r := range c.catalog.Roles {
		if len(r.MayDeclare) > 0 {
			return true
		}
	}
	return false
}

// agent is the entry of an agent and whether it counts: of a child what the book says.
func (c *Compiled) agent(id events.AgentID, f AgentFacts) (a Agent, counts bool) {
	if f.Parent != "" {
		return Agent{Role: f.Role}, true
	}
	a, counts = c.catalog.Agents[id]
	return a, counts
}

// roleOf is the role of an agent: of a child what the book says, else what the
// catalog in force says.
func (c *Compiled) roleOf(agent, parent events.AgentID, booked string) string {
	if parent != "" {
		return booked
	}
	return c.catalog.Agents[agent].Role
}

// listed is a list for people.
func listed(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

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
	case slices.Contains(scope.Tools, g.tool):
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
