package policy

import (
	"cmp"
	"slices"

	"gatebook/events"
)

// Enrolment is a fact about one agent that a catalog in force asks for.
type Enrolment struct {
	Agent events.AgentID
	Event events.Event
}

// KnownAgent is what the book knows of an agent.
type KnownAgent struct {
	Agent    events.AgentID
	Released bool
	Key      events.PublicKey
	Role     string
	Parent   events.AgentID // of a child
}

// Enrolments lists, by agent, what brings the book in line with the catalog:
// agent.enrolled for a new agent and again for one whose role or key changed,
// agent.released for one that is not in the catalog any more. A released id
// never comes back. A child is in no catalog: it stays until its parent is gone or may
// not have such a child any more, and an entry of its id changes nothing. Applying them and asking again gives none.
func Enrolments(c *Compiled, known []KnownAgent) []Enrolment {
	if c == nil {
		return nil
	}
	var out []Enrolment
	seen := map[events.AgentID]KnownAgent{}
	for _, k := range known {
		seen[k.Agent] = k
	}
	for _, k := range known {
		a, ok := c.catalog.Agents[k.Agent]
		switch {
		case k.Released:
		case k.Parent != "":
			if why := c.orphaned(k, seen); why != "" {
				out = append(out, Enrolment{k.Agent, events.AgentReleased{Reason: why}})
			}
		case !ok:
			out = append(out, Enrolment{k.Agent, events.AgentReleased{Reason: "not in the catalog any more"}})
		case a.Role != k.Role || a.Key != k.Key:
			out = append(out, Enrolment{k.Agent, events.AgentEnrolled{Role: a.Role, Key: a.Key}})
		}
	}
	for id, a := range c.catalog.Agents {
		if _, ok := seen[id]; !ok {
			out = append(out, Enrolment{id, events.AgentEnrolled{Role: a.Role, Key: a.Key}})
		}
	}
	slices.SortFunc(out, func(a, b Enrolment) int { return cmp.Compare(a.Agent, b.Agent) })
	return out
}

// mayOperate: an operator, or an approver with the approving key.
func (c *Compiled) mayOperate(by events.Actor, approves bool) bool {
	return c.mayApprove(by, approves) || c.person(by).Operator
}

func (c *Compiled) mayApprove(by events.Actor, approves bool) bool {
	return approves && c.person(by).Approver
}

// person is by's entry; the zero entry may do nothing.
func (c *Compiled) person(by events.Actor) Person {
	if c == nil || by.Kind != events.ActorPerson {
		return Person{}
	}
	return c.catalog.People[events.PersonID(by.ID)]
}

// ReleaseAgent answers the wish of by that the agent be gone for good. approves
// says that it came with the person's approving key.
func ReleaseAgent(c *Compiled, by events.Actor, approves bool, agent AgentFacts, reason string) ([]events.Event, *Refusal) {
	if !c.mayOperate(by, approves) {
		return nil, refuse(CodeNotAllowed, "only an operator, or an approver with the approving key, releases an agent")
	}
	if !agent.Enrolled {
		return nil, refuse(CodeUnknownAgent, "there is no such agent enrolled; gatebook agent list names them")
	}
	return []events.Event{events.AgentReleased{Reason: events.Cut(reason, maxReason)}}, nil
}

// AcceptClock answers the wish of by that the wall clock be taken again after a
// jump. Nil means yes.
func AcceptClock(c *Compiled, by events.Actor, approves bool) *Refusal {
	if c.mayOperate(by, approves) {
		return nil
	}
	return refuse(CodeNotAllowed, "only an operator, or an approver with the approving key, accepts the clock")
}

// RebuildViews answers the wish of by that the views be built anew from the book. Nil
// means yes.
func RebuildViews(c *Compiled, by events.Actor, approves bool) *Refusal {
	if c.mayOperate(by, approves) {
		return nil
	}
	return refuse(CodeNotAllowed, "only an operator, or an approver with the approving key, has the views built anew")
}

// SetLongtime answers the wish of by that the agent's longtime profile be this
// one; the empty name clears it. More than the present one allows needs an
// approver, less an operator. Where expressions look at the profile's name, only one
// that allows nothing is known to be less.
func SetLongtime(c *Compiled, by events.Actor, approves bool, agent AgentFacts, profile string) ([]events.Event, *Refusal) {
	if !c.mayOperate(by, approves) {
		return nil, refuse(CodeNotAllowed, "only an operator, or an approver with the approving key, sets a longtime profile")
	}
	if !agent.Enrolled {
		return nil, refuse(CodeUnknownAgent, "there is no such agent enrolled; gatebook agent list names them")
	}
	if _, declared := c.profiles[profile]; !declared && profile != "" && profile != NoProfile {
		return nil, refuse(CodeUnknownProfile, "the catalog declares no profile "+events.Quote(profile)+"; names are exact, case included")
	}
	if profile == agent.Longtime {
		return nil, nil
	}
	next := c.profile(profile)
	switch {
	case c.mayApprove(by, approves):
	case profile == "" && c.hasChildren(): // in what a round has caused, none is no bound
		return nil, refuse(CodeNotAllowed, "without a longtime profile the agent may leave its children more; that needs an approver with the approving key, or set none")
	case !next.within(c.profile(agent.Longtime)):
		return nil, refuse(CodeNotAllowed, "the profile "+profile+" allows more than the present one; that needs an approver with the approving key")
	case len(next.allow) > 0 && c.reads("profile"):
		return nil, refuse(CodeNotAllowed, "rules look at the profile's name, so the profile "+profile+" is not known to allow less than the present one; that needs an approver with the approving key")
	}
	return []events.Event{events.ProfileSet{Profile: profile}}, nil
}

// SetPhase answers the wish of by that the phase be this one. current is the
// last phase.changed, 0 for none. Above the phase in force it needs an approver
// with the approving key. No change gives no events.
func SetPhase(c *Compiled, by events.Actor, approves bool, phase, current int) ([]events.Event, *Refusal) {
	switch {
	case !c.mayOperate(by, approves):
		return nil, refuse(CodeNotAllowed, "only an operator, or an approver with the approving key, sets the phase")
	case phase != 1 && phase != 2:
		return nil, refuse(CodeInvalid, "phase: want 1 (only read_only tools) or 2 (all tools)")
	case phase == current:
		return nil, nil
	case phase > c.PhaseInForce(current) && !c.mayApprove(by, approves):
		return nil, refuse(CodeNotAllowed, "raising the phase needs an approver with the approving key")
	}
	return []events.Event{events.PhaseChanged{Phase: phase}}, nil
}
