package policy

import "gatebook/events"

// CallRequest is one tool call as the intake made it: decoded once, arguments
// canonical and already redacted in Arguments.
type CallRequest struct {
	Call  events.CallID
	Agent events.AgentID
	Round events.RoundID
	// HandleHash is the digest of the handle that came with the call.
	HandleHash events.Digest
	Key        string
	Tool       events.ToolKey
	Arguments  events.Arguments
	// Paths are the workspace paths among the arguments.
	Paths []Path
	// Malformed, where not nil, makes the verdict reject.
	Malformed *Malformed
}

// Malformed says which field of a request is wrong and why. It is an error so
// that decoders can return it.
type Malformed struct {
	Field  string
	Reason string
}

func (m *Malformed) Error() string { return m.Field + ": " + m.Reason }

// CallFacts are what the views say at the moment of the decision.
type CallFacts struct {
	Agent AgentFacts
	Round RoundFacts
	// PhaseSet is the last phase.changed; 0 where there was none.
	PhaseSet int
	Tool     ToolFacts
	Prior    PriorCall
	// Degraded says that nothing may be acted on.
	Degraded bool
}

// AgentFacts are what the views say about an agent.
type AgentFacts struct {
	Enrolled bool // and not released
	Longtime string
}

// RoundFacts are what the views say about the round that a request names.
// The zero value is a round that does not exist.
type RoundFacts struct {
	Round        events.RoundID
	Agent        events.AgentID
	Conversation events.ConversationID
	Channel      events.ChannelID
	HandleHash   events.Digest
	Open         bool
	Session      string // effective session profile; empty: none, longtime decides
	Principal    events.Principal
	Steps        int64 // calls decided so far
}

// ToolFacts are what the tool registry says about the named tool.
type ToolFacts struct {
	Known      bool
	Definition events.Digest
}

// PriorCall is an earlier call of the same round under the same key.
type PriorCall struct {
	Call events.CallID
	Tool events.ToolKey
	MAC  events.MAC
}

// CallDecision is the gate's answer: either a decision to record, or the
// earlier call whose recorded answer stands.
type CallDecision struct {
	Decided events.CallDecided
	Replays events.CallID
}
