package events

// AgentEnrolled says that an agent of the catalog can connect from now on.
type AgentEnrolled struct {
	Role    string    `json:"role"`
	Parent  AgentID   `json:"parent,omitzero"`
	Runtime string    `json:"runtime,omitzero"`
	Key     PublicKey `json:"key"`
}

// AgentReleased says that an agent is gone for good: its id is never given
// again, its connection is cut, and its profiles are forgotten.
type AgentReleased struct {
	Reason string `json:"reason,omitzero"`
}

// ProfileSet says that an agent's longtime profile is now this one.
// The empty name clears it.
type ProfileSet struct {
	Profile string `json:"profile,omitzero"`
}

// ProfileDefaulted says that a round asked for a session profile that is not
// declared or not allowed and got the profile "none" instead.
type ProfileDefaulted struct {
	Round  RoundID `json:"round"`
	Asked  string  `json:"asked"`
	Reason string  `json:"reason"`
}

// ChildDeclared says what an agent's parent leaves it, from now on. The first one of a
// child stands right behind its agent.enrolled.
type ChildDeclared struct {
	Parent AgentID `json:"parent"`
	Call   CallID  `json:"call"` // of the parent, that asked for it
	// Allow is a profile of the catalog beyond which the child may do nothing; empty
	// for no such bound. Deny is a scope of tools that it may not use; empty for none.
	Allow string `json:"allow,omitzero"`
	Deny  string `json:"deny,omitzero"`
}

// ChildRevoked says that a child can do nothing any more, for good: its id is never
// given again.
type ChildRevoked struct {
	Parent AgentID `json:"parent"`
	Call   CallID  `json:"call"` // of the parent, that asked for it
	Reason string  `json:"reason,omitzero"`
}

// TrashDecided says what of an agent's trash goes for good, before the first of it
// does: all that the trash held then of the calls from First to Last, for an entry is
// named by the call that made it and the oldest go first. A decision without a
// trash.emptied was cut short: what it left is told by the next one, as Again.
type TrashDecided struct {
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`
	// ByAge are older than the age in force, BySize go because the trash holds more
	// than the size in force. Again are those of a former decision that a kill left in
	// part. The three together are Entries.
	ByAge  int64 `json:"by_age,omitzero"`
	BySize int64 `json:"by_size,omitzero"`
	Again  int64 `json:"again,omitzero"`
	// Others, of ByAge and BySize, were put into the trash by no call, and have no id.
	Others int64  `json:"others,omitzero"`
	First  CallID `json:"first,omitzero"`
	Last   CallID `json:"last,omitzero"`
	// Age and Size are the limits in force.
	Age  Micros `json:"age_us"`
	Size int64  `json:"size"`
}

// TrashEmptied says what is gone for good of what was decided (the envelope's cause).
type TrashEmptied struct {
	Entries  int64  `json:"entries"`
	Bytes    int64  `json:"bytes"`
	Duration Micros `json:"duration_us"`
	// Error says why something stays; without a cause nothing was decided.
	Error string `json:"error,omitzero"`
}

// ConversationOpened begins a context of an agent. Taint ends only with a new
// conversation that a channel or a person (the actor) declares fresh.
type ConversationOpened struct {
	Conversation ConversationID `json:"conversation"`
	Channel      ChannelID      `json:"channel,omitzero"`
	Fresh        bool           `json:"fresh,omitzero"`
}

// ConversationClosed ends a context; what waited in it ends too.
type ConversationClosed struct {
	Conversation ConversationID `json:"conversation"`
	Reason       string         `json:"reason,omitzero"`
}

// Kind is "agent.enrolled".
func (AgentEnrolled) Kind() Kind { return KindAgentEnrolled }

// Kind is "agent.released".
func (AgentReleased) Kind() Kind { return KindAgentReleased }

// Kind is "profile.set".
func (ProfileSet) Kind() Kind { return KindProfileSet }

// Kind is "profile.defaulted".
func (ProfileDefaulted) Kind() Kind { return KindProfileDefaulted }

// Kind is "child.declared".
func (ChildDeclared) Kind() Kind { return KindChildDeclared }

// Kind is "child.revoked".
func (ChildRevoked) Kind() Kind { return KindChildRevoked }

// Kind is "trash.decided".
func (TrashDecided) Kind() Kind { return KindTrashDecided }

// Kind is "trash.emptied".
func (TrashEmptied) Kind() Kind { return KindTrashEmptied }

// Kind is "conversation.opened".
func (ConversationOpened) Kind() Kind { return KindConversationOpened }

// Kind is "conversation.closed".
func (ConversationClosed) Kind() Kind { return KindConversationClosed }

func (AgentEnrolled) sealed()      {}
func (AgentReleased) sealed()      {}
func (ProfileSet) sealed()         {}
func (ProfileDefaulted) sealed()   {}
func (ChildDeclared) sealed()      {}
func (ChildRevoked) sealed()       {}
func (TrashDecided) sealed()       {}
func (TrashEmptied) sealed()       {}
func (ConversationOpened) sealed() {}
func (ConversationClosed) sealed() {}
