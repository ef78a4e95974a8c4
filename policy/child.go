package policy

import (
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
