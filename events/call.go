package events

// Verdict is what the gate says about a call.
type Verdict string

// The verdicts. Only Allow and Stage leave a call open.
const (
	Allow    Verdict = "allow"
	Deny     Verdict = "deny"
	Stage    Verdict = "stage"
	Reject   Verdict = "reject"
	NotFound Verdict = "not_found"
)

// Status is how a call ended; exactly one per call.
type Status string

// The statuses.
const (
	StatusOK        Status = "ok"
	StatusError     Status = "error"
	StatusDenied    Status = "denied"
	StatusRejected  Status = "rejected"
	StatusNotFound  Status = "not_found"
	StatusCancelled Status = "cancelled"
	StatusExpired   Status = "expired"
	StatusUnknown   Status = "unknown"
)

// Final is the status that a verdict itself ends a call with, and whether it
// does: an allowed or staged call is still open.
func (v Verdict) Final() (Status, bool) {
	switch v {
	case Deny:
		return StatusDenied, true
	case Reject:
		return StatusRejected, true
	case NotFound:
		return StatusNotFound, true
	case Allow, Stage:
		return "", false
	}
	return StatusDenied, true
}

// Tier is how much a tool can do.
type Tier string

// The tiers. An unknown tier counts as privileged.
const (
	ReadOnly   Tier = "read_only"
	Reversible Tier = "reversible"
	Privileged Tier = "privileged"
)

// ToolKey names a tool by owner ("builtin", an MCP server, a tool service) and
// the name that the owner gives it.
type ToolKey struct {
	Owner string `json:"owner"`
	Name  string `json:"name"`
}

// OwnerBuiltin owns every tool that the engine itself holds.
const OwnerBuiltin = "builtin"

// String is the name that agents and the catalog use: that of a built-in tool alone, of
// any other with its owner's in front ("mailer/send"). No owner has a slash in its name
// and no built-in tool has, so that two keys never read the same.
func (k ToolKey) String() string {
	if k.Owner == OwnerBuiltin {
		return k.Name
	}
	return k.Owner + "/" + k.Name
}

// Layer is a layer of the gate; the first one that refuses is reported.
type Layer string

// The layers of the gate in their order, then those outside the gate.
const (
	LayerDecode    Layer = "decode"
	LayerRound     Layer = "round"
	LayerTool      Layer = "tool"
	LayerPhase     Layer = "phase"
	LayerBaseline  Layer = "baseline"
	LayerRole      Layer = "role"
	LayerProfile   Layer = "profile"
	LayerPrincipal Layer = "principal"
	LayerAncestors Layer = "ancestors"
	LayerTaint     Layer = "taint"
	LayerBudget    Layer = "budget"
	LayerAsset     Layer = "asset"
	LayerStaging   Layer = "staging"
	LayerReview    Layer = "review"
	LayerEngine    Layer = "engine"
)

// Arguments is what a call's arguments leave in the book: redacted text where
// it is small, digest and preview where it is not.
type Arguments struct {
	// Text is the canonical JSON, redacted, or its first MaxPreview bytes when
	// Truncated.
	Text      Personal `json:"text"`
	Truncated bool     `json:"truncated,omitzero"`
	Redacted  bool     `json:"redacted,omitzero"`
	// Size is the length of the canonical JSON before redaction, in bytes.
	Size int64 `json:"size"`
	// MAC is over the canonical JSON before redaction.
	MAC MAC `json:"mac,omitzero"`
	// Blob holds the whole redacted text where Text is cut.
	Blob Digest `json:"blob,omitzero"`
	// Paths are the workspace paths among the arguments, redacted, one per line: Text
	// may be cut before it names them.
	Paths string `json:"paths,omitzero"`
}

// CallFacts are the facts that a decision saw, kept so that it can be repeated.
type CallFacts struct {
	Phase           int    `json:"phase"`
	Role            string `json:"role,omitzero"`
	RoleVersion     int    `json:"role_version,omitzero"`
	SessionProfile  string `json:"session_profile,omitzero"`
	LongtimeProfile string `json:"longtime_profile,omitzero"`
	RoundOpen       bool   `json:"round_open,omitzero"`
	HandleMatched   bool   `json:"handle_matched,omitzero"`
	// Used is how many calls of the tool the round had before.
	Used int64 `json:"used,omitzero"`
	// ChildAllow and ChildDeny are what the parent of a child leaves it; see
	// [ChildDeclared].
	ChildAllow string `json:"child_allow,omitzero"`
	ChildDeny  string `json:"child_deny,omitzero"`
	// Ancestors are those of a child, its parent first, parted by ", ", each as
	// "alice (role planner, longtime work, left -, denied -)".
	Ancestors string `json:"ancestors,omitzero"`
	// CausedBy is the round that caused the call's round.
	CausedBy RoundID `json:"caused_by,omitzero"`
	// CreateOnly says that an allowed call may make something new and replace
	// nothing.
	CreateOnly bool `json:"create_only,omitzero"`
	// Staged is how many calls of the round waited for a person, SameStaged the call of
	// the agent with the same tool and arguments that did, and NoRoom says that no more
	// could wait. They are known only of a call that can come to wait.
	Staged     int64  `json:"staged,omitzero"`
	SameStaged CallID `json:"same_staged,omitzero"`
	NoRoom     bool   `json:"no_room,omitzero"`
}

// CallDecided is the gate's answer to one tool call.
type CallDecided struct {
	Call         CallID         `json:"call"`
	Round        RoundID        `json:"round,omitzero"`
	Conversation ConversationID `json:"conversation,omitzero"`
	// Step is the call's place in its round, from 1.
	Step int64 `json:"step,omitzero"`
	// Key is the caller's idempotency key.
	Key        string    `json:"key,omitzero"`
	Tool       ToolKey   `json:"tool"`
	Definition Digest    `json:"definition,omitzero"`
	Arguments  Arguments `json:"arguments"`
	Verdict    Verdict   `json:"verdict"`
	// Layer, Rule and Reason say who refused and why; empty when allowed.
	Layer     Layer     `json:"layer,omitzero"`
	Rule      string    `json:"rule,omitzero"`
	Reason    string    `json:"reason,omitzero"`
	Tier      Tier      `json:"tier,omitzero"`
	Profile   string    `json:"profile,omitzero"`
	Principal Principal `json:"principal,omitzero"`
	Asset     string    `json:"asset,omitzero"`
	// Reserved is money held back for the call, in micro-units.
	Reserved int64     `json:"reserved,omitzero"`
	Facts    CallFacts `json:"facts"`
}

// CallReleased says that a staged call was claimed after its approval: the gate was
// asked again and allows it, by what it saw then.
type CallReleased struct {
	Call    CallID    `json:"call"`
	Round   RoundID   `json:"round"`
	Review  ReviewID  `json:"review,omitzero"`
	Tier    Tier      `json:"tier,omitzero"`
	Profile string    `json:"profile,omitzero"`
	Facts   CallFacts `json:"facts,omitzero"`
}

// Executor is who ran a call.
type Executor string

// The executors: the engine, or a client that only reports.
const (
	ByEngine Executor = "engine"
	ByClient Executor = "client"
)

// Result is what a call's result leaves in the book; the result itself is never
// in an event.
type Result struct {
	// Size is the length of the result before redaction, in bytes of JSON.
	Size int64 `json:"size"`
	// MAC is over the result before redaction; keyed, because a plain digest
	// of a short secret gives it away.
	MAC      MAC      `json:"mac,omitzero"`
	Preview  Personal `json:"preview,omitzero"`
	Redacted bool     `json:"redacted,omitzero"`
	// Truncated says that Preview is not the whole redacted result, which is
	// then in Blob.
	Truncated bool   `json:"truncated,omitzero"`
	Blob      Digest `json:"blob,omitzero"`
}

// CallCompleted ends an allowed or staged call.
type CallCompleted struct {
	Call   CallID  `json:"call"`
	Round  RoundID `json:"round"`
	Status Status  `json:"status"`
	// Layer, Rule and Reason are set where the call was refused after its
	// decision (on an opened handle, by a reviewer).
	Layer    Layer    `json:"layer,omitzero"`
	Rule     string   `json:"rule,omitzero"`
	Reason   string   `json:"reason,omitzero"`
	Duration Micros   `json:"duration_us"`
	Result   Result   `json:"result,omitzero"`
	Error    string   `json:"error,omitzero"`
	Executor Executor `json:"executor"`
}

// Kind is "call.decided".
func (CallDecided) Kind() Kind { return KindCallDecided }

// Kind is "call.released".
func (CallReleased) Kind() Kind { return KindCallReleased }

// Kind is "call.completed".
func (CallCompleted) Kind() Kind { return KindCallCompleted }

func (CallDecided) sealed()   {}
func (CallReleased) sealed()  {}
func (CallCompleted) sealed() {}
