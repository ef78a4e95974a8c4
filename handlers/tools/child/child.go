// Package child holds the tools by which an agent has children: child.declare,
// child.revoke and child.begin.
//
// Start with [Tools]. None of them does anything but ask the engine's loop for an
// event, about a child and never about the asker: what an agent may leave a child, and
// for which child it may cause a round, is policy's to say, at the moment the loop
// decides, whatever allowed the call.
//
// What the package promises: arguments are decoded strictly and once; what a call
// copies into the book is masked first; a round that began is never reported as one
// that did not.
package child

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/strictjson"
	"gatebook/handlers/tools"
	"gatebook/policy"
)

// Loop is what the tools need of the engine.
type Loop interface {
	Submit(context.Context, engine.Command) error
}

// Tools gives the tools over a loop; mask takes secrets out of a text.
func Tools(loop Loop, mask func(string) (masked string, changed bool)) []tools.Tool {
	desk := desk{loop, mask}
	return []tools.Tool{desk.begin(), desk.declare(), desk.revoke()}
}

type desk struct {
	loop Loop
	mask func(string) (string, bool)
}

// tool is a tool whose arguments are texts.
type tool struct {
	definition tools.Definition
	fields     []string // the required ones first
	required   int
	check      func(arguments) *policy.Malformed
	run        func(context.Context, tools.Env, arguments) (any, error)
}

type arguments map[string]string

func (t *tool) Definition() tools.Definition { return t.definition }

// Decode implements [tools.Tool].
func (t *tool) Decode(raw jsontext.Value) (tools.Decoded, error) {
	var members map[string]jsontext.Value
	if bad := strictjson.Decode(raw, &members); bad != nil {
		return tools.Decoded{}, bad
	}
	args := arguments{}
	for name, value := range members {
		if !slices.Contains(t.fields, name) {
			return tools.Decoded{}, &policy.Malformed{Field: events.Quote(name), Reason: "unknown argument"}
		}
		var text string
		if value.Kind() != '"' || json.Unmarshal(value, &text) != nil {
			return tools.Decoded{}, &policy.Malformed{Field: name, Reason: "want a text"}
		}
		args[name] = text
	}
	for _, name := range t.fields[:t.required] {
		if args[name] == "" {
			return tools.Decoded{}, &policy.Malformed{Field: name, Reason: "is missing"}
		}
	}
	if bad := t.check(args); bad != nil {
		return tools.Decoded{}, bad
	}
	return tools.Decoded{Args: args}, nil
}

// Run implements [tools.Tool].
func (t *tool) Run(ctx context.Context, env tools.Env, args tools.Args) (jsontext.Value, error) {
	mine, ok := args.(arguments)
	if !ok {
		return nil, fmt.Errorf("%s: these are arguments of another tool", t.definition.Name)
	}
	result, err := t.run(ctx, env, mine)
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

const idSchema = `{"type":"string","description":"The child's id: a lower-case letter or digit, then a-z 0-9 _ -."}`

func (d desk) declare() tools.Tool {
	return &tool{
		definition: tools.Definition{
			Name:        policy.ToolChildDeclare,
			Description: "Declares a child of yours: an agent with a process and a key pair of its own, that may never do more than you. The same again changes nothing; other texts for a child that you have change what you leave it.",
			Schema: jsontext.Value(`{"type":"object","properties":{"child":` + idSchema + `,"key":{"type":"string","description":"The public key that the child made."},"role":{"type":"string","description":"A role that yours may declare."},` +
				`"allow":{"type":"string","description":"A profile beyond which the child may do nothing."},"deny":{"type":"string","description":"A scope of tools that the child may not use."}},"required":["child","key","role"],"additionalProperties":false}`),
		},
		fields: []string{"child", "key", "role", "allow", "deny"}, required: 3,
		check: d.checkChild,
		run: func(ctx context.Context, env tools.Env, a arguments) (any, error) {
			changed, err := d.ask(ctx, func(answer engine.Answer) engine.Command {
				request := child(env, a)
				request.Key, request.Role, request.Allow, request.Deny = events.PublicKey(a["key"]), a["role"], a["allow"], a["deny"]
				return &engine.DeclareChild{Cause: env.Cause, Answer: answer, Request: request}
			})
			return childResult{a["child"], changed}, err
		},
	}
}

func (d desk) revoke() tools.Tool {
	return &tool{
		definition: tools.Definition{
			Name:        policy.ToolChildRevoke,
			Description: "Revokes a child of yours for good: it can do nothing any more, and its id is never given again.",
			Schema:      jsontext.Value(`{"type":"object","properties":{"child":` + idSchema + `,"reason":{"type":"string","description":"Why, for the book."}},"required":["child"],"additionalProperties":false}`),
		},
		fields: []string{"child", "reason"}, required: 1,
		check: d.checkChild,
		run: func(ctx context.Context, env tools.Env, a arguments) (any, error) {
			reason, _ := d.mask(a["reason"])
			changed, err := d.ask(ctx, func(answer engine.Answer) engine.Command {
				return &engine.RevokeChild{Cause: env.Cause, Answer: answer, Reason: reason, Request: child(env, a)}
			})
			return childResult{a["child"], changed}, err
		},
	}
}

func (d desk) begin() tools.Tool {
	return &tool{
		definition: tools.Definition{
			Name:        policy.ToolChildBegin,
			Description: "Begins a round of a child of yours, with the rights of this round and never more, as soon as a process of the child is there to serve it. Its end is not waited for.",
			Schema: jsontext.Value(fmt.Sprintf(`{"type":"object","properties":{"child":%s,"task":{"type":"string","maxLength":%d,"description":"What the child is to do."}},"required":["child","task"],"additionalProperties":false}`,
				idSchema, policy.MaxTask)),
		},
		fields: []string{"child", "task"}, required: 2,
		check: func(a arguments) *policy.Malformed {
			if len(a["task"]) > policy.MaxTask {
				return &policy.Malformed{Field: "task", Reason: fmt.Sprintf("has %d bytes, at most %d", len(a["task"]), policy.MaxTask)}
			}
			return d.checkChild(a)
		},
		run: d.runBegin,
	}
}

type childResult struct {
	Child   string `json:"child"`
	Changed bool   `json:"changed"`
}

type roundResult struct {
	Child        string                `json:"child"`
	Round        events.RoundID        `json:"round"`
	Conversation events.ConversationID `json:"conversation"`
}

// checkChild refuses what can be no child; a refusal records its id.
func (d desk) checkChild(a arguments) *policy.Malformed {
	if _, err := events.ParseAgentID(a["child"]); err != nil {
		return &policy.Malformed{Field: "child", Reason: "not an agent's id"}
	}
	for _, name := range []string{"child", "role", "allow", "deny"} {
		if _, secret := d.mask(a[name]); secret || len(a[name]) > events.MaxName {
			return &policy.Malformed{Field: name, Reason: fmt.Sprintf("looks like a secret, or has more than %d bytes", events.MaxName)}
		}
	}
	return nil
}

func child(env tools.Env, a arguments) policy.ChildRequest {
	return policy.ChildRequest{Parent: env.Agent, Call: env.Call, Child: events.AgentID(a["child"])}
}

// runBegin waits for the round to begin, or takes the wish back when the call's time
// is over.
func (d desk) runBegin(ctx context.Context, env tools.Env, a arguments) (any, error) {
	task, _ := d.mask(a["task"])
	answer := make(chan any, 1)
	wish := &engine.CauseRound{
		Context: ctx, By: env.Agent, Because: env.Cause, Answer: once(answer),
		Request: policy.RoundRequest{Agent: events.AgentID(a["child"]), Cause: env.Round, Task: events.Cut(task, policy.MaxTask)},
	}
	if err := d.loop.Submit(ctx, wish); err != nil {
		return nil, err
	}
	var got any
	select {
	case got = <-answer:
	case <-ctx.Done():
		if wish.Withdraw() {
			return nil, &tools.Refused{Rule: "no_process", Reason: "no process of the child offered to serve a round while the call waited, and none began; start one, which asks with round.accept (gatebook round accept), then call again"}
		}
		got = <-answer // it has come true; the loop is about to say so
	}
	round, ok := got.(engine.RoundAnswer)
	if !ok {
		return nil, refusal(got)
	}
	return roundResult{a["child"], round.Round, round.Conversation}, nil
}

// once takes the first answer and never holds up who gives it.
func once(answer chan any) engine.Answer {
	return func(v any) {
		select {
		case answer <- v:
		default:
		}
	}
}

// ask gives a command to the loop and says whether it changed anything.
func (d desk) ask(ctx context.Context, command func(engine.Answer) engine.Command) (changed bool, err error) {
	answer := make(chan any, 1)
	if err := d.loop.Submit(ctx, command(once(answer))); err != nil {
		return false, err
	}
	got := <-answer // it is decided, whatever becomes of the call
	done, ok := got.(engine.Done)
	if !ok {
		return false, refusal(got)
	}
	return done.Changed, nil
}

// refusal is what the loop answered instead of an event.
func refusal(answer any) error {
	no, ok := answer.(engine.Refused)
	if !ok {
		return fmt.Errorf("the engine answered with a %T", answer)
	}
	return &tools.Refused{Rule: no.Error.Code, Reason: no.Error.Reason}
}
