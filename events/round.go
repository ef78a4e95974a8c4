package events

// PrincipalKind is what kind of party is talking in a round. It is derived from
// facts and never claimed.
type PrincipalKind string

// The kinds of principal.
const (
	PrincipalInternal PrincipalKind = "internal"
	PrincipalSelf     PrincipalKind = "self"
	PrincipalSubAgent PrincipalKind = "sub_agent"
	PrincipalUser     PrincipalKind = "user"
	PrincipalGroup    PrincipalKind = "group"
)

// Principal is who is talking in a round.
type Principal struct {
	ID   string        `json:"id"`
	Kind PrincipalKind `json:"kind"`
}

// Model is the model that a round runs on, and how that is known.
type Model struct {
	Name string `json:"name"`
	// Known is "claimed" unless a metering proxy saw it.
	Known string `json:"known"`
}

// RoundBegun is one input turn of one conversation.
type RoundBegun struct {
	Round        RoundID        `json:"round"`
	Conversation ConversationID `json:"conversation"`
	Channel      ChannelID      `json:"channel,omitzero"`
	// HandleHash is the SHA-256 of the round's secret handle; the handle itself
	// is never recorded.
	HandleHash Digest    `json:"handle_hash"`
	Principal  Principal `json:"principal"`
	// Sender is the name that the channel gave for who is talking.
	Sender Personal `json:"sender,omitzero"`
	// Requested is the session profile that was asked for; empty for none asked.
	Requested string `json:"requested,omitzero"`
	// Effective is the session profile in force; empty where the round has none
	// and the longtime profile decides.
	Effective string   `json:"effective,omitzero"`
	Task      Personal `json:"task,omitzero"`
	Model     Model    `json:"model,omitzero"`
	// CausedBy is the parent's round that started this one: Effective is then the
	// profile that was in effect in it, and stays until this round ends.
	CausedBy RoundID `json:"caused_by,omitzero"`
	// Job is the job of the catalog that started this round.
	Job string `json:"job,omitzero"`
	// Timeout ends the round after this long without a call.
	Timeout Micros `json:"timeout_us"`
}

// RoundTainted says that outside content reached the round's conversation.
type RoundTainted struct {
	Round RoundID `json:"round"`
	Call  CallID  `json:"call"`
}

// RoundEnd is how a round ended.
type RoundEnd string

// The ways a round ends.
const (
	RoundCompleted RoundEnd = "completed"
	RoundFailed    RoundEnd = "failed"
	RoundCancelled RoundEnd = "cancelled"
	RoundTimedOut  RoundEnd = "timed_out"
)

// RoundEnded closes a round; its session profile is gone with it.
type RoundEnded struct {
	Round  RoundID  `json:"round"`
	End    RoundEnd `json:"end"`
	Reason string   `json:"reason,omitzero"`
}

// Kind is "round.begun".
func (RoundBegun) Kind() Kind { return KindRoundBegun }

// Kind is "round.tainted".
func (RoundTainted) Kind() Kind { return KindRoundTainted }

// Kind is "round.ended".
func (RoundEnded) Kind() Kind { return KindRoundEnded }

func (RoundBegun) sealed()   {}
func (RoundTainted) sealed() {}
func (RoundEnded) sealed()   {}
