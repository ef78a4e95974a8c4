package child_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/tools"
	"gatebook/handlers/tools/child"
	"gatebook/policy"
)

// desk answers every command with what it was made with.
type desk struct{ answer any }

func (d desk) Submit(_ context.Context, cmd engine.Command) error {
	switch c := cmd.(type) {
	case *engine.DeclareChild:
		c.Answer(d.answer)
		c.Answer(d.answer) // who answers twice is not held up
	case *engine.RevokeChild:
		c.Answer(d.answer)
	case *engine.CauseRound:
		if d.answer != nil {
			c.Answer(d.answer)
		}
	}
	return nil
}

// mask takes the word secret for one.
func mask(s string) (string, bool) {
	return strings.ReplaceAll(s, "secret", "[masked]"), strings.Contains(s, "secret")
}

func named(t *testing.T, name string, d desk) tools.Tool {
	t.Helper()
	for _, tool := range child.Tools(d, mask) {
		if tool.Definition().Name == name {
			if b, ok := policy.LookupBuiltin(name); !ok || b.Tier != events.ReadOnly {
				t.Fatalf("%s is no built-in tool that only leaves events", name)
			}
			return tool
		}
	}
	t.Fatalf("no tool %s", name)
	return nil
}

func TestDecodeIsStrict(t *testing.T) {
	for _, row := range []struct{ tool, args, field string }{
		{"child.begin", `{"child":"kid","task":"x"}`, ""},
		{"child.begin", `{"child":"kid"}`, "task"},
		{"child.begin", `{"child":"kid","task":""}`, "task"},
		{"child.begin", `{"child":"kid","task":null}`, "task"},
		{"child.begin", `{"child":"kid","task":7}`, "task"},
		{"child.begin", `{"child":"kid","task":"` + strings.Repeat("x", policy.MaxTask+1) + `"}`, "task"},
		{"child.begin", `{"Child":"kid","task":"x"}`, `"Child"`},
		{"O-R20 child.begin", `{"child":"kid","child":"boss","task":"x"}`, `"child"`},
		{"child.begin", `[]`, "request"},
		{"child.begin", `{"child":"kid","task":"x"}{}`, "request"},
		{"child.begin", `{"child":"engine","task":"x"}`, "child"},
		{"child.declare", `{"child":"kid","key":"U","role":"worker"}`, ""},
		{"child.declare", `{"child":"kid","key":"U","role":"worker","allow":"secret"}`, "allow"},
		{"child.declare", `{"child":"kid","key":"U","role":"` + strings.Repeat("x", 999) + `"}`, "role"},
		{"child.declare", `{"child":"kid","key":"U","role":"worker","parent":"boss"}`, `"parent"`},
		{"child.revoke", `{"child":"kid"}`, ""},
		{"child.revoke", `{}`, "child"},
	} {
		_, err := named(t, strings.TrimPrefix(row.tool, "O-R20 "), desk{}).Decode(jsontext.Value(row.args))
		var bad *policy.Malformed
		field := ""
		if errors.As(err, &bad) {
			field = bad.Field
		}
		if field != row.field || err != nil && bad == nil || strings.Contains(field, "secret") {
			t.Errorf("%s %.80s: %v, want a fault of %q", row.tool, row.args, err, row.field)
		}
	}
}

func TestRunSaysWhatTheLoopDid(t *testing.T) {
	refused := engine.Refused{Error: engine.Problem{Code: "conflict", Reason: "taken"}}
	for _, row := range []struct {
		tool, args string
		answer     any
		want       string // the result, or the rule of the refusal
	}{
		{"child.declare", `{"child":"kid","key":"U","role":"worker"}`, engine.Done{Seq: 7, Changed: true}, `{"child":"kid","changed":true}`},
		{"child.declare", `{"child":"kid","key":"U","role":"worker"}`, refused, "conflict"},
		{"child.revoke", `{"child":"kid"}`, engine.Done{}, `{"child":"kid","changed":false}`},
		{"child.begin", `{"child":"kid","task":"x"}`, engine.RoundAnswer{Round: "R", Conversation: "V"}, `{"child":"kid","round":"R","conversation":"V"}`},
		{"child.begin", `{"child":"kid","task":"x"}`, refused, "conflict"},
		{"child.begin", `{"child":"kid","task":"x"}`, nil, "no_process"},
	} {
		tool := named(t, row.tool, desk{row.answer})
		decoded, err := tool.Decode(jsontext.Value(row.args))
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		if row.answer == nil {
			end()
		}
		result, err := tool.Run(ctx, tools.Env{Agent: "boss", Call: "C", Round: "R0"}, decoded.Args)
		end()
		got := string(result)
		var no *tools.Refused
		if errors.As(err, &no) {
			got = no.Rule
		}
		if got != row.want {
			t.Errorf("%s: %q (%v), want %q", row.tool, got, err, row.want)
		}
	}
}
