package intake

import (
	"errors"
	"regexp"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/policy"
)

// builtin is the owner of the tools that the engine itself runs.
const builtin = "builtin"

// call makes the command of a tool call. A malformed one goes to the loop as
// well, so that its refusal is in the book.
func (i *Intake) call(agent events.AgentID, data []byte, answer engine.Answer) engine.Command {
	cmd := &engine.Call{Answer: answer, Request: policy.CallRequest{Agent: agent}}
	var r callRequest
	if bad := strict(data, &r); bad != nil {
		cmd.Request.Malformed = bad
		i.keepRaw(&cmd.Request, data)
		return cmd
	}
	cmd.Trace = r.Trace
	i.fill(&cmd.Request, r)
	if cmd.Request.Malformed != nil {
		i.keepRaw(&cmd.Request, data)
		return cmd
	}
	args := r.Args
	if len(args) == 0 {
		args = jsontext.Value("{}")
	}
	if err := args.Canonicalize(); err != nil {
		cmd.Request.Malformed = malformed(err)
		i.keepRaw(&cmd.Request, data)
		return cmd
	}
	i.keepArguments(&cmd.Request, args)
	i.decodeArguments(cmd, args)
	return cmd
}

// fill takes over the fields of a request that can be checked without the book.
func (i *Intake) fill(req *policy.CallRequest, r callRequest) {
	round, bad := ulidField[events.RoundID]("round", r.Round)
	hash, noHandle := handleHash(r.Handle)
	bad = firstFault(bad, noHandle,
		short("key", r.Key, events.MaxName), short("tool", r.Tool, events.MaxName), short("traceparent", r.Trace, 64))
	if r.Tool == "" {
		bad = firstFault(bad, &policy.Malformed{Field: "tool", Reason: "missing"})
	}
	req.Round, req.HandleHash, req.Malformed = round, hash, bad
	req.Key, req.Tool = cutName(r.Key), events.ToolKey{Owner: builtin, Name: cutName(r.Tool)}
}

func cutName(s string) string {
	for n := min(len(s), events.MaxName); ; n-- {
		if n == len(s) || utf8.RuneStart(s[n]) {
			return s[:n]
		}
	}
}

// keepArguments fills in what the book keeps of canonical arguments.
func (i *Intake) keepArguments(req *policy.CallRequest, args jsontext.Value) {
	a := &req.Arguments
	a.Size, a.MAC = int64(len(args)), i.cfg.MAC(args)
	redacted, changed, err := i.cfg.Redact.JSON(args)
	if err != nil {
		redacted, changed, req.Unredactable = unredactable, true, true
	}
	a.Redacted = changed
	if len(redacted) <= events.MaxInlineArguments {
		a.Text = events.Plain(string(redacted))
		return
	}
	a.Text, a.Truncated = events.Plain(preview(redacted)), true
	digest, err := i.cfg.Blobs.Put(redacted)
	if err != nil {
		req.Unkept = true
		return
	}
	a.Blob = digest
}

// anyHandle is what may be a round's handle in a request that was not read.
var anyHandle = regexp.MustCompile(`[0-9A-Fa-f]{32,}`)

// keepRaw keeps a redacted beginning of a request that is no request. Its handle
// is masked with everything that could be one: the book never holds a handle.
func (i *Intake) keepRaw(req *policy.CallRequest, data []byte) {
	a := &req.Arguments
	a.Size, a.MAC = int64(len(data)), i.cfg.MAC(data)
	data = anyHandle.ReplaceAllLiteral(data, []byte("[handle]"))
	// As a JSON string the bytes are JSON whatever they were.
	text, err := json.Marshal(string(data), jsontext.AllowInvalidUTF8(true))
	if err == nil {
		var redacted jsontext.Value
		if redacted, a.Redacted, err = i.cfg.Redact.JSON(text); err == nil {
			text = redacted
		}
	}
	if err != nil {
		text, a.Redacted = unredactable, true
	}
	var plain string
	if json.Unmarshal(text, &plain) != nil {
		plain = string(unredactable)
	}
	a.Text, a.Truncated = events.Plain(preview([]byte(plain))), true
}

func preview(text []byte) string {
	n := min(len(text), events.MaxPreview)
	for n < len(text) && n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return string(text[:n])
}

// decodeArguments lets the tool read its arguments, once.
func (i *Intake) decodeArguments(cmd *engine.Call, args jsontext.Value) {
	entry, known := i.cfg.Tools.Lookup(cmd.Request.Tool.Name)
	cmd.Tool, cmd.Known = entry, known
	if !known {
		return
	}
	decoded, err := entry.Decode(args)
	var bad *policy.Malformed
	switch {
	case errors.As(err, &bad):
		cmd.Request.Malformed = bad
	case err != nil:
		cmd.Request.Malformed = &policy.Malformed{Field: "args", Reason: "not the tool's arguments"}
	default:
		cmd.Args, cmd.Request.Paths = decoded.Args, decoded.Paths
	}
}
