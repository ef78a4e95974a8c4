package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/engine"
)

// callRequest is the request of intent.<agent>.call and, without a tool, of
// intent.<agent>.outcome.
type callRequest struct {
	Round  events.RoundID `json:"round"`
	Handle string         `json:"handle"`
	Key    string         `json:"key,omitzero"`
	Tool   string         `json:"tool,omitzero"`
	Args   jsontext.Value `json:"args,omitzero"`
	Call   string         `json:"call,omitzero"`
	Wait   bool           `json:"wait,omitzero"`
	Cursor int64          `json:"cursor,omitzero"`
}

func (a *App) callCommand() *cobra.Command {
	var q callRequest
	var agent string
	cmd := &cobra.Command{
		Use:   "call --agent ID TOOL [JSON]",
		Short: "Call a tool as an agent, in the round that was begun here",
		Long: `Call a tool with an agent's key, in the round that round begin began. JSON is the
tool's arguments, {} without; "-" reads them from the standard input. The same
--key in the same round gives the recorded answer and runs nothing twice.

Without TOOL, --outcome or --key asks how a former call ended.

  gatebook call --agent alice file.write '{"path":"hello.txt","content":"hello"}'
  gatebook call --agent alice --outcome 01JZ0000000000000000000000`,
		Args:              args(cobra.MaximumNArgs(2)),
		ValidArgsFunction: a.complete(a.toolsOf),
		RunE: func(cmd *cobra.Command, given []string) error {
			id, err := agentFlag(agent)
			if err != nil {
				return err
			}
			verb := "outcome"
			if len(given) > 0 {
				verb = "call"
				if err := a.fillCall(&q, given); err != nil {
					return err
				}
			} else if q.Call == "" && q.Key == "" {
				return usageError{errors.New("name a tool; or --outcome or --key of a former call")}
			} else if _, err := events.ParseULID[events.CallID](q.Call); err != nil && q.Call != "" {
				return usageError{fmt.Errorf("--outcome: %w", err)}
			}
			return a.call(cmd.Context(), id, verb, q)
		},
	}
	f := cmd.Flags()
	f.StringVar(&agent, "agent", "", "the agent")
	f.StringVar(&q.Key, "key", "", "the call's idempotency key")
	f.StringVar(&q.Call, "outcome", "", "ask how this former call ended")
	f.BoolVar(&q.Wait, "wait", false, "with --outcome: answer only when it has ended")
	f.Int64Var(&q.Cursor, "cursor", 0, "with --outcome: the recorded result from this byte on")
	a.completeFlag(cmd, "agent", agentsOf)
	return cmd
}

// fillCall takes tool and arguments. What is not JSON is a usage error: in the
// middle of a request it could be read as something else.
func (a *App) fillCall(q *callRequest, given []string) error {
	if q.Call != "" || q.Wait || q.Cursor != 0 {
		return usageError{errors.New("--outcome, --wait and --cursor ask for a former call: leave out the tool")}
	}
	q.Tool, q.Args = given[0], jsontext.Value("{}")
	if len(given) == 2 && given[1] == "-" {
		raw, err := io.ReadAll(io.LimitReader(a.In, engine.MaxAnswer+1))
		if err != nil {
			return fmt.Errorf("read the arguments: %w", err)
		}
		q.Args = raw
	} else if len(given) == 2 {
		q.Args = jsontext.Value(given[1])
	}
	if len(q.Args) > engine.MaxAnswer {
		return errors.New("the arguments are too large: a request has at most 768 KiB")
	}
	if err := json.Unmarshal(q.Args, new(jsontext.Value)); err != nil {
		return usageError{fmt.Errorf(`the arguments are not one value of strict JSON, such as '{"path":"a.txt"}': %s`, events.Escape(err.Error()))}
	}
	return nil
}

func (a *App) call(ctx context.Context, agent events.AgentID, verb string, q callRequest) error {
	dir, err := a.folder()
	if err != nil {
		return err
	}
	r, err := a.openRound(dir, agent)
	if err != nil {
		return err
	}
	q.Round, q.Handle = r.Round, r.Handle
	c, err := a.agent(agent)
	if err != nil {
		return err
	}
	defer c.close()
	fmt.Fprintf(a.Err, "gatebook: using the key of agent %s\n", agent)
	raw, err := c.request(ctx, verb, q)
	if err != nil {
		return err
	}
	var answer engine.CallAnswer
	var no engine.Refused
	if json.Unmarshal(raw, &no) == nil && no.Error.Code != "" {
		err = &problem{no.Error}
	} else if err = json.Unmarshal(raw, &answer); err != nil {
		return fmt.Errorf("the engine's answer cannot be read; is it of another version? %w", err)
	}
	if a.flags.json {
		// As it came: fields that this program does not know are kept.
		return errors.Join(a.printJSON(jsontext.Value(raw)), saidUnless(err == nil && good(answer)))
	}
	if err != nil {
		return err
	}
	return a.printCall(agent, r.Conversation, answer)
}

// good is a call that ended well or still runs.
func good(c engine.CallAnswer) bool {
	return c.Status == events.StatusOK || c.Status == "" && c.State == engine.StateRunning
}

// printCall prints an answer for people; a call that did not end well is an
// error.
func (a *App) printCall(agent events.AgentID, conversation events.ConversationID, c engine.CallAnswer) error {
	if c.State == engine.StateStaged { // what follows would count on it
		return fmt.Errorf("staged (call %s, event %d): nothing has run; %s\nto hear how it ended: %s\nin a later round of this conversation: %s", c.Call, c.Seq, events.Escape(c.Reason),
			a.command(fmt.Sprintf("call --agent %s --outcome %s", agent, c.Call)),
			a.command(fmt.Sprintf("round begin --agent %s --conversation %s", agent, conversation)))
	}
	if !good(c) {
		return callProblem(c)
	}
	how := string(cmp.Or(c.Status, events.Status(c.State)))
	if c.Replayed {
		how += ", as recorded"
	}
	fmt.Fprintf(a.Out, "%s (call %s, event %d)\n", how, c.Call, c.Seq)
	text := c.Preview
	if len(c.Result) > 0 {
		pretty := c.Result.Clone()
		if err := pretty.Indent(jsontext.WithIndent("  ")); err != nil {
			return err
		}
		text = string(pretty)
	}
	if text != "" {
		fmt.Fprintln(a.Out, escapeLines(text))
	}
	if c.Truncated {
		// What is recorded goes on behind the preview.
		next := cmp.Or(c.Cursor, int64(len(c.Preview)))
		fmt.Fprintf(a.Err, "gatebook: this is a part of %d bytes; the next one: %s\n", c.Size,
			a.command(fmt.Sprintf("call --agent %s --outcome %s --cursor %d", agent, c.Call, next)))
	}
	return nil
}

func callProblem(c engine.CallAnswer) error {
	by := ""
	if c.Layer != "" {
		by = " by layer " + string(c.Layer)
	}
	if c.Rule != "" {
		by += ", rule " + events.Escape(c.Rule)
	}
	why := cmp.Or(c.Reason, c.Error, "no reason was given")
	where := ""
	if c.Call != "" {
		where = fmt.Sprintf(" (call %s, event %d)", c.Call, c.Seq)
	}
	return fmt.Errorf("%s%s: %s%s", c.Status, by, events.Escape(why), where)
}

// escapeLines is Escape for a text of several lines. Backslashes stay as they
// are: in JSON they begin escapes already.
func escapeLines(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || r == '\\' {
			b.WriteRune(r)
		} else {
			b.WriteString(events.Escape(string(r)))
		}
	}
	return b.String()
}
