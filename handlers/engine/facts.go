package engine

import (
	"regexp"
	"strings"

	"gatebook/events"
	"gatebook/policy"
	"gatebook/projections"
)

// The functions of this file hand rows to policy as facts, field by field, and
// judge nothing.

func agentFacts(r projections.Reader, id events.AgentID) (policy.AgentFacts, error) {
	row, found, err := projections.AgentByID(r, id)
	if err != nil || !found {
		return policy.AgentFacts{}, err
	}
	above, err := parents(r, row)
	return policy.AgentFacts{
		Known: true, Enrolled: !row.Released, Longtime: row.Longtime, Role: row.Role, Parent: row.Parent,
		ChildAllow: row.ChildAllow, ChildDeny: row.ChildDeny, Ancestors: above,
	}, err
}

func roundFacts(row projections.RoundRow) policy.RoundFacts {
	if row.Round == "" {
		return policy.RoundFacts{}
	}
	deadline, _ := row.Deadline() // 0 where there is none
	return policy.RoundFacts{
		Round: row.Round, Agent: row.Agent, Conversation: row.Conversation, Channel: row.Channel,
		HandleHash: row.HandleHash, Open: row.Open(), Ended: row.Ended, Deadline: deadline, Session: row.Session,
		Principal: row.Principal, CausedBy: row.CausedBy, Job: row.Job, Steps: row.Steps, OpenCalls: row.OpenCalls,
		Staged: row.Staged,
	}
}

func reviewFacts(row projections.ReviewRow) policy.ReviewFacts {
	return policy.ReviewFacts{Review: row.Review, Call: row.Call, Round: row.Round, MAC: row.MAC, State: row.State, Expires: row.Expires, First: row.First, FirstShown: row.FirstShown}
}

func conversationFacts(row projections.ConversationRow) policy.ConversationFacts {
	return policy.ConversationFacts{
		Conversation: row.Conversation, Agent: row.Agent, Channel: row.Channel,
		Closed: row.Closed, OpenRound: row.OpenRound,
	}
}

// knownAgents lists every agent that the book knows, released ones too.
func knownAgents(r projections.Reader) ([]policy.KnownAgent, error) {
	const page = 500
	var all []policy.KnownAgent
	for after := events.AgentID(""); ; {
		rows, err := projections.Agents(r, after, page)
		if err != nil {
			return nil, err
		}
		for _, a := range rows {
			all = append(all, policy.KnownAgent{Agent: a.Agent, Released: a.Released, Key: a.Key, Role: a.Role, Parent: a.Parent})
			after = a.Agent
		}
		if len(rows) < page {
			return all, nil
		}
	}
}

// handleLength is that of a round's handle, in hexadecimal digits.
const handleLength = 32

var digits = regexp.MustCompile(`[0-9A-Fa-f]{32,}`)

// holdsHandle says that a text holds the handle of a round, whoever's that is. It is for
// what is recorded and compared by its bytes: that cannot be masked.
func holdsHandle(r projections.Reader, s string) (bool, error) {
	for _, run := range digits.FindAllString(strings.ToLower(s), -1) {
		for i := range len(run) - handleLength + 1 {
			_, found, err := projections.RoundByHandle(r, events.DigestOf([]byte(run[i:i+handleLength])))
			if found || err != nil {
				return found, err
			}
		}
	}
	return false, nil
}
