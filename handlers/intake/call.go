package intake

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/strictjson"
	"gatebook/policy"
	"gatebook/policy/paths"
)

// call makes the command of a tool call. A malformed one goes to the loop as
// well, so that its refusal is in the book.
func (i *Intake) call(agent events.AgentID, data []byte, answer engine.Answer) engine.Command {
	cmd := &engine.Call{Answer: answer, Request: policy.CallRequest{Agent: agent}}
	if args, handle, ok := i.read(cmd, data); ok {
		i.keepArguments(cmd, args, handle)
	} else {
		i.keepRaw(&cmd.Request, data)
	}
	if bad := cmd.Request.Malformed; bad != nil {
		// Whose names these are is not known: they may be the sender's own text.
		cmd.Request.Malformed = &policy.Malformed{
			Field: i.foreign(bad.Field, events.MaxName), Reason: i.foreign(bad.Reason, maxReason),
		}
	}
	return cmd
}

// read takes a request over, and says whether it had arguments that could be
// read. What is wrong is in the command's Malformed.
func (i *Intake) read(cmd *engine.Call, data []byte) (args jsontext.Value, handle string, ok bool) {
	var r callRequest
	if bad := strictjson.Decode(data, &r); bad != nil {
		cmd.Request.Malformed = bad
		return nil, "", false
	}
	i.fill(&cmd.Request, r)
	if cmd.Request.Malformed != nil {
		return nil, "", false
	}
	args = r.Args
	if len(args) == 0 {
		args = jsontext.Value("{}")
	}
	if err := args.Canonicalize(); err != nil {
		cmd.Request.Malformed = strictjson.Fault(err)
		return nil, "", false
	}
	cmd.Request.Args = args
	i.decodeArguments(cmd, args)
	if cmd.Request.Malformed == nil {
		cmd.Trace = r.Trace
	}
	return args, r.Handle, true
}

// fill takes over the fields of a request that can be checked without the book.
func (i *Intake) fill(req *policy.CallRequest, r callRequest) {
	round, bad := ulidField[events.RoundID]("round", r.Round)
	hash, noHandle := handleHash(r.Handle)
	bad = firstFault(bad, noHandle,
		short("key", r.Key, events.MaxName), i.noSecret("key", r.Key, r.Handle),
		short("tool", r.Tool, events.MaxName), traceParent(r.Trace, r.Handle))
	if r.Tool == "" {
		bad = firstFault(bad, &policy.Malformed{Field: "tool", Reason: "missing"})
	}
	req.Round, req.HandleHash, req.Malformed = round, hash, bad
	if bad == nil { // a refusal records no key, and this one may be a secret
		req.Key = r.Key
	}
	entry, known := i.cfg.Tools.Lookup(r.Tool)
	if req.Tool = entry.Key; !known {
		req.Tool = events.ToolKey{Owner: events.OwnerBuiltin, Name: i.foreign(r.Tool, events.MaxName)}
	}
}

// anyHandle is what may be a round's handle in a text of an agent.
var anyHandle = regexp.MustCompile(`[0-9A-Fa-f]{32,}`)

// handleMask stands where a handle may have stood.
const handleMask = "[handle]"

// foreign is text for names that an agent made up: it masks handles as well.
func (i *Intake) foreign(s string, most int) string {
	return i.text(anyHandle.ReplaceAllLiteralString(s, handleMask), most)
}

// keepArguments fills in what the book keeps of canonical arguments. An agent
// that writes its handle into them does not bring it into the book.
func (i *Intake) keepArguments(cmd *engine.Call, args jsontext.Value, handle string) {
	req := &cmd.Request
	a := &req.Arguments
	a.Size, a.MAC = int64(len(args)), i.cfg.MAC(args)
	redacted, changed, err := i.cfg.Redact.JSON(args)
	if err != nil {
		redacted, changed, req.Unredactable = unredactable, true, true
	}
	if bytes.Contains(redacted, []byte(handle)) {
		redacted, changed = bytes.ReplaceAll(redacted, []byte(handle), []byte(handleMask)), true
	}
	a.Redacted = changed
	if len(redacted) <= events.MaxInlineArguments {
		a.Text = events.Plain(string(redacted))
		return
	}
	a.Text, a.Truncated = events.Plain(events.Cut(string(redacted), events.MaxPreview)), true
	if !cmd.Known || req.Malformed != nil {
		return // refused for certain, and the blob of a refused call is not kept
	}
	digest, release, err := i.cfg.Blobs.Hold(redacted)
	if err != nil {
		req.Unkept = true
		return
	}
	a.Blob = digest
	cmd.Settled = func(kept bool) { i.settle(kept, release) }
}

// keepRaw keeps a redacted beginning of a request that is no request. Its handle
// is masked with everything that could be one: the book never holds a handle.
func (i *Intake) keepRaw(req *policy.CallRequest, data []byte) {
	a := &req.Arguments
	a.Size, a.MAC = int64(len(data)), i.cfg.MAC(data)
	data = anyHandle.ReplaceAllLiteral(data, []byte(handleMask))
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
	a.Text, a.Truncated = events.Plain(events.Cut(plain, events.MaxPreview)), true
}

// decodeArguments lets the tool read its arguments, once.
func (i *Intake) decodeArguments(cmd *engine.Call, args jsontext.Value) {
	entry, known := i.cfg.Tools.Lookup(cmd.Request.Tool.String())
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
		cmd.Request.Arguments.Paths = i.pathsText(decoded.Paths)
	}
}

// pathsText is what the book keeps of paths. None of them has a line end.
func (i *Intake) pathsText(list []paths.Path) string {
	texts := make([]string, len(list))
	for n, p := range list {
		texts[n] = i.foreign(p.String(), maxPath)
	}
	return strings.Join(texts, "\n")
}

// maxPath bounds what the book keeps of one path, in bytes.
const maxPath = 1 << 10

// settle lets go of a blob once its call is decided. The loop must not wait for
// the disk: what may have to be removed is left to [Intake.Run].
func (i *Intake) settle(kept bool, release func(bool) error) {
	if kept {
		_ = release(true) // fails only in a removal
		return
	}
	i.mu.Lock()
	i.refusedBlobs = append(i.refusedBlobs, release)
	i.mu.Unlock()
	select {
	case i.sweep <- struct{}{}:
	default:
	}
}

// sweepAll removes the blobs of refused calls until ctx ends.
func (i *Intake) sweepAll(ctx context.Context) {
	for {
		select {
		case <-i.sweep:
		case <-ctx.Done():
			i.sweepNow()
			return
		}
		i.sweepNow()
	}
}

func (i *Intake) sweepNow() {
	i.mu.Lock()
	all := i.refusedBlobs
	i.refusedBlobs = nil
	i.mu.Unlock()
	for _, release := range all {
		_ = release(false) // what could not be removed is an orphan, and goes as one
	}
}
