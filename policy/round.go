package policy

import "gatebook/events"

// RoundRequest is a channel's wish to begin a round.
type RoundRequest struct {
	Channel events.ChannelID
	Agent   events.AgentID
	// Round and NewConversation are fresh ids to use if the wish is granted.
	Round           events.RoundID
	NewConversation events.ConversationID
	// Conversation to go on with; empty opens a new one.
	Conversation events.ConversationID
	// Fresh declares a new conversation free of what came before.
	Fresh      bool
	Sender     string
	Profile    string // requested session profile; empty for none asked
	HandleHash events.Digest
	Task       string
	Model      string // claimed
}

// RoundBeginFacts are what the views say when a round is to begin.
type RoundBeginFacts struct {
	Agent AgentFacts
	// Conversation is the one that the request names.
	Conversation ConversationFacts
	// SameHandle is a round that was begun with the same handle hash.
	SameHandle RoundFacts
}

// ConversationFacts are what the views say about a conversation. The zero value
// is one that does not exist.
type ConversationFacts struct {
	Conversation events.ConversationID
	Agent        events.AgentID
	Channel      events.ChannelID
	Closed       bool
	OpenRound    events.RoundID
}

// Refusal is a no to something that is not a call.
type Refusal struct {
	// Code is for programs: "unknown_agent", "not_yours", "round_open",
	// "no_round", "round_ended", "unknown_conversation", "not_allowed",
	// "unknown_profile", "invalid", "conflict".
	Code   string
	Reason string
	// Round is the open round where that is why.
	Round events.RoundID
}

// RoundDecision is the answer to a [RoundRequest].
type RoundDecision struct {
	Events  []events.Event
	Round   events.RoundID
	Refusal *Refusal
}

// RoundEndRequest is a wish to end a round.
type RoundEndRequest struct {
	Channel    events.ChannelID
	Round      events.RoundID
	HandleHash events.Digest
	End        events.RoundEnd
	Reason     string
}
