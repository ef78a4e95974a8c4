package main

import (
	"strings"

	"gatebook/events"
	"gatebook/policy"
	"gatebook/policy/paths"
)

const handle = events.Digest("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")

// newGatebook puts the rules into a role; the profile allows the tools as a scope.
func newGatebook(list []rule) (decider, error) {
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
		Roles:    map[string]policy.Role{"worker": {Version: 1, Grants: grants}},
		Agents:   map[events.AgentID]policy.Agent{"alice": {Role: "worker", Key: events.PublicKey("U" + strings.Repeat("A", 55))}},
	}, names...)
	if err != nil {
		return nil, err
	}
	facts := policy.CallFacts{
		Agent: policy.AgentFacts{Enrolled: true},
		Round: policy.RoundFacts{
			Round: "R1", Agent: "alice", Conversation: "V1", Channel: "terminal", HandleHash: handle, Open: true,
			Session: "work", Principal: events.Principal{ID: "anna", Kind: events.PrincipalUser},
		},
		Tool: policy.ToolFacts{Known: true, Tier: events.Reversible},
	}
	return func(ask call) (func() (bool, error), error) {
		path, err := paths.Parse(ask.path)
		req := policy.CallRequest{
			Call: "C1", Agent: "alice", Round: "R1", HandleHash: handle,
			Tool:  events.ToolKey{Owner: policy.OwnerBuiltin, Name: ask.tool},
			Paths: []paths.Path{path},
		}
		return func() (bool, error) {
			return policy.DecideCall(c, req, facts).Decided.Verdict == events.Allow, nil
		}, err
	}, nil
}
