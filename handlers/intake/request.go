package intake

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/strictjson"
	"gatebook/policy"
)

// The requests, field by field, are part of the README. There is no field for
// an id, a time, a kind or a right of the caller: those are the engine's.

type callRequest struct {
	Round  string         `json:"round"`
	Handle string         `json:"handle"`
	Key    string         `json:"key,omitzero"`
	Tool   string         `json:"tool"`
	Args   jsontext.Value `json:"args,omitzero"`
	Trace  string         `json:"traceparent,omitzero"`
}

type outcomeRequest struct {
	Round  string `json:"round"`
	Handle string `json:"handle"`
	Call   string `json:"call,omitzero"`
	Key    string `json:"key,omitzero"`
	Wait   bool   `json:"wait,omitzero"`
	Cursor int64  `json:"cursor,omitzero"`
}

type attachRequest struct {
	Round      string `json:"round"`
	Handle     string `json:"handle"`
	Connection string `json:"connection,omitzero"`
}

type beginRequest struct {
	Agent        string `json:"agent"`
	Conversation string `json:"conversation,omitzero"`
	Fresh        bool   `json:"fresh,omitzero"`
	Sender       string `json:"sender"`
	Profile      string `json:"profile,omitzero"`
	HandleHash   string `json:"handle_hash"`
	Task         string `json:"task,omitzero"`
	Model        string `json:"model,omitzero"`
}

type selfBeginRequest struct {
	Conversation string `json:"conversation,omitzero"`
	Fresh        bool   `json:"fresh,omitzero"`
	HandleHash   string `json:"handle_hash"`
	Task         string `json:"task,omitzero"`
	Model        string `json:"model,omitzero"`
}

type acceptRequest struct {
	HandleHash string `json:"handle_hash"`
	Connection string `json:"connection,omitzero"`
	Wait       int64  `json:"wait_seconds,omitzero"`
}

type endRequest struct {
	Round      string `json:"round"`
	HandleHash string `json:"handle_hash"`
	End        string `json:"end"`
	Reason     string `json:"reason,omitzero"`
}

// usageReport are what a report on a model's message tells; a number that is null,
// or left out, is not known.
type usageReport struct {
	Round       string        `json:"round"`
	Message     string        `json:"message"`
	Model       string        `json:"model,omitzero"`
	Input       events.Amount `json:"input,omitzero"`
	CachedInput events.Amount `json:"cached_input,omitzero"`
	CacheWrite  events.Amount `json:"cache_write,omitzero"`
	Output      events.Amount `json:"output,omitzero"`
}

// usageRequest is an agent's, channelUsageRequest a channel's.
type usageRequest struct {
	usageReport
	Handle string `json:"handle"`
}

type channelUsageRequest struct {
	usageReport
	HandleHash string `json:"handle_hash"`
}

// handleHash is what the book keeps of a handle.
func handleHash(handle string) (events.Digest, *policy.Malformed) {
	if len(handle) != 32 || strings.Trim(handle, "0123456789abcdef") != "" {
		return "", &policy.Malformed{Field: "handle", Reason: "want 32 lower-case hexadecimal digits"}
	}
	return events.DigestOf([]byte(handle)), nil
}

func ulidField[T events.ULIDForm](name, s string) (T, *policy.Malformed) {
	id, err := events.ParseULID[T](s)
	if err != nil {
		return "", &policy.Malformed{Field: name, Reason: "want a ULID of 26 upper-case characters"}
	}
	return id, nil
}

// optionalULID is ulidField for a field that may be absent.
func optionalULID[T events.ULIDForm](name, s string) (T, *policy.Malformed) {
	if s == "" {
		return "", nil
	}
	return ulidField[T](name, s)
}

// short bounds a free text.
func short(name, s string, most int) *policy.Malformed {
	if len(s) > most {
		return &policy.Malformed{Field: name, Reason: fmt.Sprintf("too long: want at most %d bytes", most)}
	}
	return nil
}

// maxReason bounds the reason that a channel gives for an end, in bytes.
const maxReason = 1 << 10

// text is what an event may have of a foreign text: masked, then cut, so that no
// half of a secret is left at the edge.
func (i *Intake) text(s string, most int) string {
	masked, _ := i.cfg.Redact.Text(s)
	return events.Cut(masked, most)
}

// noSecret refuses a text that is compared by its exact bytes, and recorded, where
// it would have to be masked; the handle, where there is one, is a secret too.
func (i *Intake) noSecret(name, s, handle string) *policy.Malformed {
	if _, secret := i.cfg.Redact.Text(s); secret || handle != "" && strings.Contains(s, handle) {
		return &policy.Malformed{Field: name, Reason: "looks like a secret"}
	}
	return nil
}

// traceForm is the traceparent of W3C Trace Context, version 00.
var traceForm = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// traceParent checks a traceparent; none is fine.
func traceParent(s, handle string) *policy.Malformed {
	switch {
	case s != "" && !traceForm.MatchString(s):
		return &policy.Malformed{Field: "traceparent", Reason: "want 00-<32>-<16>-<2> lower-case hexadecimal digits"}
	case handle != "" && strings.Contains(s, handle):
		return &policy.Malformed{Field: "traceparent", Reason: "holds the round's handle"}
	}
	return nil
}

func firstFault(faults ...*policy.Malformed) *policy.Malformed {
	for _, f := range faults {
		if f != nil {
			return f
		}
	}
	return nil
}

func (i *Intake) decodeOutcome(agent events.AgentID, data []byte, answer engine.Answer) (engine.Command, *policy.Malformed) {
	var r outcomeRequest
	if bad := strictjson.Decode(data, &r); bad != nil {
		return nil, bad
	}
	round, bad := ulidField[events.RoundID]("round", r.Round)
	hash, noHandle := handleHash(r.Handle)
	bad = firstFault(bad, noHandle, short("key", r.Key, events.MaxName),
		i.noSecret("key", r.Key, r.Handle))
	var call events.CallID
	if r.Call != "" {
		var noCall *policy.Malformed
		call, noCall = ulidField[events.CallID]("call", r.Call)
		bad = firstFault(bad, noCall)
	} else if r.Key == "" {
		bad = firstFault(bad, &policy.Malformed{Field: "call", Reason: "name the call by its id or its key"})
	}
	if bad != nil {
		return nil, bad
	}
	return &engine.Outcome{
		Agent: agent, Round: round, HandleHash: hash, Call: call, Key: r.Key,
		Wait: r.Wait, Cursor: r.Cursor, Answer: answer,
	}, nil
}

func (i *Intake) decodeAttach(agent events.AgentID, data []byte, answer engine.Answer) (engine.Command, *policy.Malformed) {
	var r attachRequest
	if bad := strictjson.Decode(data, &r); bad != nil {
		return nil, bad
	}
	round, bad := ulidField[events.RoundID]("round", r.Round)
	hash, noHandle := handleHash(r.Handle)
	if bad = firstFault(bad, noHandle, short("connection", r.Connection, events.MaxName)); bad != nil {
		return nil, bad
	}
	return &engine.Attach{Agent: agent, Round: round, HandleHash: hash, Connection: r.Connection, Answer: answer}, nil
}

// The bounds of how long a process waits for a round, in seconds.
const (
	usualWait = 60
	mostWait  = 3600
)

func (i *Intake) decodeAccept(agent events.AgentID, data []byte, answer engine.Answer) (engine.Command, *policy.Malformed) {
	r := acceptRequest{Wait: usualWait}
	if bad := strictjson.Decode(data, &r); bad != nil {
		return nil, bad
	}
	hash, bad := digestField("handle_hash", r.HandleHash)
	bad = firstFault(bad, short("connection", r.Connection, events.MaxName))
	if r.Wait < 1 || r.Wait > mostWait {
		bad = firstFault(bad, &policy.Malformed{Field: "wait_seconds", Reason: fmt.Sprintf("want 1 to %d", mostWait)})
	}
	if answer == nil {
		bad = firstFault(bad, &policy.Malformed{Field: "request", Reason: "without a reply subject nobody hears which round began"})
	}
	if bad != nil {
		return nil, bad
	}
	return &engine.AcceptRound{
		Agent: agent, HandleHash: hash, Connection: r.Connection, Wait: events.Micros(r.Wait) * 1_000_000, Answer: answer,
	}, nil
}

func (i *Intake) decodeBegin(channel events.ChannelID, data []byte, answer engine.Answer) (engine.Command, *policy.Malformed) {
	var r beginRequest
	if bad := strictjson.Decode(data, &r); bad != nil {
		return nil, bad
	}
	hash, bad := digestField("handle_hash", r.HandleHash)
	bad = firstFault(bad,
		short("sender", r.Sender, policy.MaxSender), short("profile", r.Profile, events.MaxName),
		short("task", r.Task, policy.MaxTask), short("model", r.Model, events.MaxName))
	if _, err := events.ParseAgentID(r.Agent); err != nil {
		bad = firstFault(bad, &policy.Malformed{Field: "agent", Reason: "not an agent's id"})
	}
	bad = firstFault(bad, i.noSecret("agent", r.Agent, "")) // a refusal records it
	conversation, no := optionalULID[events.ConversationID]("conversation", r.Conversation)
	if bad = firstFault(bad, no); bad != nil {
		return nil, bad
	}
	return &engine.BeginRound{Answer: answer, Request: policy.RoundRequest{
		Channel: channel, Agent: events.AgentID(r.Agent), Conversation: conversation, Fresh: r.Fresh,
		Sender: r.Sender, SenderText: i.text(r.Sender, policy.MaxSender),
		// A profile that looks like a secret is none that a catalog declares.
		Profile: i.text(r.Profile, events.MaxName), HandleHash: hash,
		Task: i.text(r.Task, policy.MaxTask), Model: i.text(r.Model, events.MaxName),
	}}, nil
}

// decodeSelfBegin reads the wish of an agent that begins a round by itself. It has
// no field for a sender or a profile: who talks is the agent.
func (i *Intake) decodeSelfBegin(agent events.AgentID, data []byte, answer engine.Answer) (engine.Command, *policy.Malformed) {
	var r selfBeginRequest
	if bad := strictjson.Decode(data, &r); bad != nil {
		return nil, bad
	}
	hash, bad := digestField("handle_hash", r.HandleHash)
	conversation, no := optionalULID[events.ConversationID]("conversation", r.Conversation)
	bad = firstFault(bad, no, short("task", r.Task, policy.MaxTask), short("model", r.Model, events.MaxName))
	if bad != nil {
		return nil, bad
	}
	return &engine.BeginRound{Answer: answer, Request: policy.RoundRequest{
		Self: true, Agent: agent, Conversation: conversation, Fresh: r.Fresh, HandleHash: hash,
		Task: i.text(r.Task, policy.MaxTask), Model: i.text(r.Model, events.MaxName),
	}}, nil
}

// decodeEnd fills in the wish, which says already who asks.
func (i *Intake) decodeEnd(wish policy.RoundEndRequest, data []byte, answer engine.Answer) (engine.Command, *policy.Malformed) {
	var r endRequest
	if bad := strictjson.Decode(data, &r); bad != nil {
		return nil, bad
	}
	round, bad := ulidField[events.RoundID]("round", r.Round)
	hash, noHash := digestField("handle_hash", r.HandleHash)
	if bad = firstFault(bad, noHash, short("reason", r.Reason, maxReason)); bad != nil {
		return nil, bad
	}
	wish.Round, wish.HandleHash, wish.End, wish.Reason = round, hash, events.RoundEnd(r.End), i.text(r.Reason, maxReason)
	return &engine.EndRound{Answer: answer, Request: wish}, nil
}

func digestField(name, s string) (events.Digest, *policy.Malformed) {
	d, err := events.ParseDigest(s)
	if err != nil {
		return "", &policy.Malformed{Field: name, Reason: "want 64 lower-case hexadecimal digits: the SHA-256 of the handle's text"}
	}
	return d, nil
}
