package main

import (
	"fmt"
	"strings"

	"gatebook/events"
	"gatebook/policy"
	"gatebook/policy/paths"
)

const handle = events.Digest("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")

// newGatebook puts the rules into a role; the profile allows the tools as a scope.
func newGatebook(list []rule) (decider, error) {
	return newGate(list, policy.AgentFacts{Enrolled: true}, policy.RoundFacts{
		Agent: "alice", Channel: "terminal", Principal: events.Principal{ID: "anna", Kind: events.PrincipalUser},
	})
}

// newLineage is the same for a child as deep as one may stand, in a round that rounds
// of all agents above it have led to. Each of them has the role with all rules and a
// longtime profile, and leaves its child a profile, so that every question about an
// ancestor is asked.
func newLineage(list []rule) (decider, error) {
	line := make([]events.AgentID, policy.MaxChildDepth+1) // the child first
	for i := range line {
		line[i] = events.AgentID(fmt.Sprint("child", policy.MaxChildDepth-i))
	}
	line[policy.MaxChildDepth] = "alice"
	child := policy.AgentFacts{Enrolled: true, Role: "worker", Parent: line[1], Longtime: "work", ChildAllow: "work"}
	round := policy.RoundFacts{Agent: line[0], Principal: events.Principal{ID: string(line[1]), Kind: events.PrincipalSubAgent}}
	for i, up := range line[1:] {
		above := policy.AncestorFacts{Agent: up, Enrolled: true, Role: "worker", Longtime: "work"}
		cause := policy.CauseFacts{Round: events.RoundID(fmt.Sprint("cause", i)), Agent: up, Session: "work"}
		if i+2 < len(line) {
			above.Parent, above.ChildAllow = line[i+2], "work"
			cause.Principal = events.Principal{ID: string(line[i+2]), Kind: events.PrincipalSubAgent}
		} else {
			cause.Channel, cause.Principal = "terminal", events.Principal{ID: "anna", Kind: events.PrincipalUser}
		}
		child.Ancestors, round.Causes = append(child.Ancestors, above), append(round.Causes, cause)
	}
	return newGate(list, child, round)
}

// newGate decides calls of the agent of the round.
func newGate(list []rule, agent policy.AgentFacts, round policy.RoundFacts) (decider, error) {
	var grants []policy.Rule
	tools := map[string]bool{}
	for _, r := range list {
		tools[r.tool] = true
		grants = append(grants, policy.Rule{Tool: r.tool, Paths: []string{r.folder + "/**"}})
	}
	var names []string
	for name := range tools {
		names = append(names, name)
	}
	c, err := policy.Compile(policy.Catalog{
		Schema: 1, Phase: 2,
		Scopes:   map[string]policy.Scope{"all": {Tools: names}},
		Profiles: map[string]policy.Profile{"work": {Scopes: []string{"all"}}},
		Roles:    map[string]policy.Role{"worker": {Version: 1, Grants: grants, MayDeclare: []string{"worker"}}},
		Agents:   map[events.AgentID]policy.Agent{"alice": {Role: "worker", Key: events.PublicKey("U" + strings.Repeat("A", 55))}},
	}, names...)
	if err != nil {
		return nil, err
	}
	round.Round, round.Conversation, round.HandleHash, round.Open, round.Session = "R1", "V1", handle, true, "work"
	facts := policy.CallFacts{Agent: agent, Round: round, Tool: policy.ToolFacts{Known: true, Tier: events.Reversible}}
	return func(ask call) (func() (bool, error), error) {
		path, err := paths.Parse(ask.path)
		req := policy.CallRequest{
			Call: "C1", Agent: round.Agent, Round: "R1", HandleHash: handle,
			Tool:  events.ToolKey{Owner: events.OwnerBuiltin, Name: ask.tool},
			Paths: []paths.Path{path},
		}
		return func() (bool, error) {
			return policy.DecideCall(c, req, facts).Decided.Verdict == events.Allow, nil
		}, err
	}, nil
}
