package engine

import (
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/policy"
	"gatebook/projections"
)

// State says where a call is.
type State string

// The states of a call as its caller sees it.
const (
	StateStaged  State = "staged"
	StateRunning State = "running"
	StateFinal   State = "final"
)

// CallAnswer is what an agent hears of a call. The README documents it field by
// field.
type CallAnswer struct {
	Call    events.CallID  `json:"call,omitzero"`
	Seq     events.Seq     `json:"seq,omitzero"`
	State   State          `json:"state,omitzero"`
	Verdict events.Verdict `json:"verdict,omitzero"`
	Status  events.Status  `json:"status,omitzero"`
	Layer   events.Layer   `json:"layer,omitzero"`
	Rule    string         `json:"rule,omitzero"`
	Reason  string         `json:"reason,omitzero"`
	// Result is the whole result; absent in a replay and where it is too large.
	Result jsontext.Value `json:"result,omitzero"`
	Size   int64          `json:"size,omitzero"`
	Digest events.MAC     `json:"digest,omitzero"`
	// Preview is the recorded, redacted beginning of the result.
	Preview   string `json:"preview,omitzero"`
	Truncated bool   `json:"truncated,omitzero"`
	// Cursor asks for the next piece of the recorded result.
	Cursor   int64  `json:"cursor,omitzero"`
	Error    string `json:"error,omitzero"`
	Replayed bool   `json:"replayed,omitzero"`
}

// Refused is the answer to what was not taken at all: nothing was recorded as a
// call and nothing runs.
type Refused struct {
	Error Problem `json:"error"`
}

// Problem is a refusal for programs (Code) and people (Reason).
type Problem struct {
	Code   string         `json:"code"`
	Reason string         `json:"reason"`
	Round  events.RoundID `json:"round,omitzero"`
}

// RoundAnswer is what a channel hears of a round.
type RoundAnswer struct {
	Round        events.RoundID        `json:"round"`
	Conversation events.ConversationID `json:"conversation"`
	Profile      string                `json:"profile,omitzero"`
	Principal    string                `json:"principal,omitzero"`
	Kind         events.PrincipalKind  `json:"kind,omitzero"`
	End          events.RoundEnd       `json:"end,omitzero"`
	Seq          events.Seq            `json:"seq"`
	Repeated     bool                  `json:"repeated,omitzero"`
	// What for, by which round or by which job: only for the process that accepted it.
	Task     string         `json:"task,omitzero"`
	CausedBy events.RoundID `json:"caused_by,omitzero"`
	Job      string         `json:"job,omitzero"`
}

// UsageAnswer is what is recorded of a message. Cost is in micro-units of Currency,
// null where it is not known.
type UsageAnswer struct {
	Round    events.RoundID `json:"round"`
	Message  string         `json:"message"`
	Model    string         `json:"model,omitzero"`
	Cost     events.Amount  `json:"cost_micros"`
	Currency string         `json:"currency,omitzero"`
	Seq      events.Seq     `json:"seq"`
	// Repeated says that the same was recorded before.
	Repeated bool `json:"repeated,omitzero"`
}

// Done is the answer to a person's act: the sequence that it is recorded at.
type Done struct {
	Seq     events.Seq `json:"seq"`
	Changed bool       `json:"changed"`
}

// Answer sends one answer: exactly one of the types of this file. It MUST NOT
// block and is called once.
type Answer func(any)

func (a Answer) send(v any) {
	if a != nil {
		a(v)
	}
}

// replayed sends the answer of an earlier call as that of this one.
func (a Answer) replayed(v any) {
	if c, ok := v.(CallAnswer); ok {
		c.Replayed = true
		v = c
	}
	a.send(v)
}

func refused(code, reason string) Refused { return Refused{Problem{Code: code, Reason: reason}} }

// recorded is the answer that the book gives for a call.
func recorded(row projections.AuditRow) CallAnswer {
	a := CallAnswer{
		Call: row.Call, Seq: row.Seq, State: StateRunning, Verdict: row.Verdict,
		Status: row.Status, Layer: row.Layer, Rule: row.Rule, Reason: row.Reason,
		Size: row.Result.Size, Digest: row.Result.MAC, Preview: row.Result.Preview.Text,
		Truncated: row.Result.Truncated, Error: row.Error, Replayed: true,
	}
	switch {
	case row.Status != "":
		a.State = StateFinal
	case waits(row):
		a.State = StateStaged
	}
	if row.CompletedSeq != 0 {
		a.Seq = row.CompletedSeq
	}
	a.Cursor = nextPiece(row.Result)
	return a
}

// waits says that the call waits for a person.
func waits(row projections.AuditRow) bool {
	return row.Status == "" && row.Verdict == events.Stage && row.Released == 0
}

// nextPiece is where the recorded result goes on after its preview; 0 where there
// is no more of it.
func nextPiece(r events.Result) int64 {
	if r.Blob == "" {
		return 0
	}
	return int64(len(r.Preview.Text))
}

// Notice is a message of the feed (audit.<agent>.<verdict or status>) or of an
// agent's inbox. It is a hint, never authority: who missed one asks the views
// from a sequence on.
type Notice struct {
	Call events.CallID `json:"call"`
	Seq  events.Seq    `json:"seq"`
	// Tool is empty in an inbox.
	Tool string `json:"tool,omitzero"`
}

// announce tells supervisors of a decided or completed call.
func (e *Engine) announce(agent events.AgentID, what string, n Notice) {
	if e.cfg.Publish != nil {
		e.cfg.Publish(policy.AccountPeople, "audit."+string(agent)+"."+what, n)
	}
}

// toInbox tells an agent that a call it did not wait for has ended.
func (e *Engine) toInbox(agent events.AgentID, call events.CallID, seq events.Seq) {
	if e.cfg.Publish != nil {
		e.cfg.Publish(policy.AccountAgents, "inbox."+string(agent), Notice{Call: call, Seq: seq})
	}
}

// cutRunes is the piece of data from the beginning of a rune on, at most n bytes
// and ended between runes, and where the next piece begins (0 at the end). It
// keeps every byte, so that the pieces join to the whole.
func cutRunes(data []byte, from int64, n int) (string, int64) {
	rest := data[from:]
	if len(rest) <= n {
		return string(rest), 0
	}
	for n > 0 && !utf8.RuneStart(rest[n]) {
		n--
	}
	return string(rest[:n]), from + int64(n)
}
