package people

import (
	"gatebook/events"
	"gatebook/projections"
)

// ListRequest asks for rounds, receipts or agents.
type ListRequest struct {
	Agent  events.AgentID `json:"agent,omitzero"`
	Round  events.RoundID `json:"round,omitzero"` // receipts: this one
	Open   bool           `json:"open,omitzero"`  // rounds: open ones
	Before events.Seq     `json:"before,omitzero"`
	After  events.AgentID `json:"after,omitzero"` // agents
	Limit  int            `json:"limit,omitzero"`
}

// Round is one round.
type Round struct {
	Round        events.RoundID        `json:"round"`
	Agent        events.AgentID        `json:"agent"`
	Conversation events.ConversationID `json:"conversation"`
	Channel      events.ChannelID      `json:"channel,omitzero"`
	Principal    string                `json:"principal"`
	Kind         events.PrincipalKind  `json:"kind"`
	Requested    string                `json:"requested,omitzero"`
	Profile      string                `json:"profile,omitzero"`
	CausedBy     events.RoundID        `json:"caused_by,omitzero"`
	Job          string                `json:"job,omitzero"`
	Task         string                `json:"task,omitzero"`
	Begun        events.Instant        `json:"begun"`
	Ended        events.Instant        `json:"ended,omitzero"`
	End          events.RoundEnd       `json:"end,omitzero"`
	Steps        int64                 `json:"steps"`
	Open         int64                 `json:"open_calls"`
	Seq          events.Seq            `json:"seq"`
}

// RoundsAnswer is a page of rounds, newest first, true at AsOf.
type RoundsAnswer struct {
	Rounds []Round    `json:"rounds"`
	Next   events.Seq `json:"next,omitzero"`
	AsOf   events.Seq `json:"as_of"`
}

func (h *Handler) rounds(r request) any {
	var q ListRequest
	if bad := decode(r.data, &q); bad != nil {
		return bad
	}
	return h.read(func(v projections.Reader) (any, error) {
		state, err := projections.LoadState(v)
		if err != nil {
			return nil, err
		}
		if none, err := h.hidden(v, r.person, q.Agent, ""); none || err != nil {
			return RoundsAnswer{Rounds: []Round{}, AsOf: state.Seq}, err
		}
		page, err := projections.Rounds(v, projections.RoundFilter{
			Agent: q.Agent, OpenOnly: q.Open, Before: q.Before, Limit: pageLimit(q.Limit), Observable: h.observable(r.person),
		})
		if err != nil {
			return nil, err
		}
		a := RoundsAnswer{Rounds: []Round{}, Next: page.Next, AsOf: page.AsOf}
		for _, row := range page.Rows {
			a.Rounds = append(a.Rounds, Round{
				Round: row.Round, Agent: row.Agent, Conversation: row.Conversation, Channel: row.Channel,
				Principal: row.Principal.ID, Kind: row.Principal.Kind, Requested: row.Requested, Profile: row.Session,
				CausedBy: row.CausedBy, Job: row.Job, Task: row.Task.Text, Begun: row.Begun, Ended: row.Ended, End: row.End,
				Steps: row.Steps, Open: row.OpenCalls, Seq: row.Seq,
			})
		}
		return a, nil
	})
}

// Agent is one agent.
type Agent struct {
	Agent    events.AgentID `json:"agent"`
	Role     string         `json:"role"`
	Longtime string         `json:"longtime_profile,omitzero"`
	// Parent is set of a child; Allow and Deny are what that leaves it.
	Parent       events.AgentID `json:"parent,omitzero"`
	Allow        string         `json:"allow,omitzero"`
	Deny         string         `json:"deny,omitzero"`
	Released     bool           `json:"released,omitzero"`
	Enrolled     events.Instant `json:"enrolled"`
	LastActivity events.Instant `json:"last_activity,omitzero"`
	OpenRounds   int64          `json:"open_rounds"`
	Seq          events.Seq     `json:"seq"`
}

// AgentsAnswer is a page of agents by id, true at AsOf.
type AgentsAnswer struct {
	Agents []Agent        `json:"agents"`
	Next   events.AgentID `json:"next,omitzero"`
	AsOf   events.Seq     `json:"as_of"`
}

func (h *Handler) agents(r request) any {
	var q ListRequest
	if bad := decode(r.data, &q); bad != nil {
		return bad
	}
	return h.read(func(v projections.Reader) (any, error) {
		state, err := projections.LoadState(v)
		if err != nil {
			return nil, err
		}
		a := AgentsAnswer{Agents: []Agent{}, AsOf: state.Seq}
		rows, more, err := seen(v, q.After, pageLimit(q.Limit), h.observable(r.person))
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			a.Agents = append(a.Agents, Agent{
				Agent: row.Agent, Role: row.Role, Longtime: row.Longtime, Released: row.Released,
				Parent: row.Parent, Allow: row.ChildAllow, Deny: row.ChildDeny,
				Enrolled: row.Enrolled, LastActivity: row.LastActivity, OpenRounds: row.OpenRounds, Seq: row.Seq,
			})
		}
		if more {
			a.Next = rows[len(rows)-1].Agent
		}
		return a, nil
	})
}

// seen lists the agents after one that may be seen, and says whether there are
// more of those. Nothing of it, the cursor neither, tells of any other agent.
func seen(v projections.Reader, after events.AgentID, limit int, may func(events.AgentID) bool) (rows []projections.AgentRow, more bool, err error) {
	for {
		page, err := projections.Agents(v, after, maxRows)
		if err != nil {
			return nil, false, err
		}
		for _, row := range page {
			after = row.Agent
			if !may(row.Agent) {
				continue
			}
			if len(rows) == limit {
				return rows, true, nil
			}
			rows = append(rows, row)
		}
		if len(page) < maxRows {
			return rows, false, nil
		}
	}
}
