package intake

import (
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/engine"
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

type endRequest struct {
	Round      string `json:"round"`
	HandleHash string `json:"handle_hash"`
	End        string `json:"end"`
	Reason     string `json:"reason,omitzero"`
}

// strict decodes one JSON value: exact names, no duplicates, nothing unknown,
// nothing behind it.
func strict(data []byte, into any) *policy.Malformed {
	return malformed(json.Unmarshal(data, into, json.RejectUnknownMembers(true)))
}

// malformed says where a decoding error lies, without quoting values.
func malformed(err error) *policy.Malformed {
	if err == nil {
		return nil
	}
	bad := &policy.Malformed{Field: "request", Reason: "not one strict JSON object"}
	var semantic *json.SemanticError
	var syntax *jsontext.SyntacticError
	switch {
	case errors.As(err, &semantic) && errors.Is(semantic.Err, json.ErrUnknownName):
		bad.Field, bad.Reason = field(semantic.JSONPointer), "unknown field"
	case errors.As(err, &semantic):
		bad.Field, bad.Reason = field(semantic.JSONPointer), "wrong type: "+semantic.JSONKind.String()
	case errors.As(err, &syntax) && errors.Is(syntax.Err, jsontext.ErrDuplicateName):
		bad.Field, bad.Reason = field(syntax.JSONPointer), "given twice"
	case errors.As(err, &syntax):
		bad.Field, bad.Reason = field(syntax.JSONPointer), "not valid JSON"
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		bad.Reason = "ends too early"
	}
	return bad
}

func field(p jsontext.Pointer) string {
	name := strings.ReplaceAll(strings.TrimPrefix(string(p), "/"), "/", ".")
	if name == "" {
		return "request"
	}
	return events.Quote(name)
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

// short bounds a free text.
func short(name, s string, most int) *policy.Malformed {
	if len(s) > most {
		return &policy.Malformed{Field: name, Reason: "too long"}
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

func decodeOutcome(agent events.AgentID, data []byte, answer engine.Answer) (engine.Command, *policy.Malformed) {
	var r outcomeRequest
	if bad := strict(data, &r); bad != nil {
		return nil, bad
	}
	round, bad := ulidField[events.RoundID]("round", r.Round)
	hash, noHandle := handleHash(r.Handle)
	bad = firstFault(bad, noHandle, short("key", r.Key, events.MaxName))
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

func decodeAttach(agent events.AgentID, data []byte, answer engine.Answer) (engine.Command, *policy.Malformed) {
	var r attachRequest
	if bad := strict(data, &r); bad != nil {
		return nil, bad
	}
	round, bad := ulidField[events.RoundID]("round", r.Round)
	hash, noHandle := handleHash(r.Handle)
	if bad = firstFault(bad, noHandle, short("connection", r.Connection, events.MaxName)); bad != nil {
		return nil, bad
	}
	return &engine.Attach{Agent: agent, Round: round, HandleHash: hash, Connection: r.Connection, Answer: answer}, nil
}

func decodeBegin(channel events.ChannelID, data []byte, answer engine.Answer) (engine.Command, *policy.Malformed) {
	var r beginRequest
	if bad := strict(data, &r); bad != nil {
		return nil, bad
	}
	hash, bad := digestField("handle_hash", r.HandleHash)
	bad = firstFault(bad,
		short("sender", r.Sender, events.MaxName), short("profile", r.Profile, events.MaxName),
		short("task", r.Task, 4096), short("model", r.Model, events.MaxName))
	if _, err := events.ParseAgentID(r.Agent); err != nil {
		bad = firstFault(bad, &policy.Malformed{Field: "agent", Reason: "not an agent's id"})
	}
	var conversation events.ConversationID
	if r.Conversation != "" {
		var no *policy.Malformed
		conversation, no = ulidField[events.ConversationID]("conversation", r.Conversation)
		bad = firstFault(bad, no)
	}
	if bad != nil {
		return nil, bad
	}
	return &engine.BeginRound{Answer: answer, Request: policy.RoundRequest{
		Channel: channel, Agent: events.AgentID(r.Agent), Conversation: conversation, Fresh: r.Fresh,
		Sender: r.Sender, Profile: r.Profile, HandleHash: hash, Task: r.Task, Model: r.Model,
	}}, nil
}

func decodeEnd(channel events.ChannelID, data []byte, answer engine.Answer) (engine.Command, *policy.Malformed) {
	var r endRequest
	if bad := strict(data, &r); bad != nil {
		return nil, bad
	}
	round, bad := ulidField[events.RoundID]("round", r.Round)
	hash, noHash := digestField("handle_hash", r.HandleHash)
	if bad = firstFault(bad, noHash, short("reason", r.Reason, 1024)); bad != nil {
		return nil, bad
	}
	return &engine.EndRound{Answer: answer, Request: policy.RoundEndRequest{
		Channel: channel, Round: round, HandleHash: hash, End: events.RoundEnd(r.End), Reason: r.Reason,
	}}, nil
}

func digestField(name, s string) (events.Digest, *policy.Malformed) {
	d, err := events.ParseDigest(s)
	if err != nil {
		return "", &policy.Malformed{Field: name, Reason: "want 64 lower-case hexadecimal digits: the SHA-256 of the handle's text"}
	}
	return d, nil
}
