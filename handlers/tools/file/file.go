// Package file holds the tools with which an agent works in its workspace:
// they list, read, stat and search, write, append and edit, copy and move, and
// delete, with a trash to look into and to restore from.
//
// Start with [Tools]. Each tool is one file: its definition, its arguments, and
// the one method of [workspace.Workspace] that it calls.
//
// What the package promises: arguments are decoded strictly and once (exact
// keys, no duplicate, none unknown, no null, one value); every path among them
// has passed the lexical rules of policy and is given to the gate; results are
// canonical JSON; there is no folder to be "in" and no state between calls; and
// no tool makes a link.
//
// Dependency: rogpeppe/go-internal/diff, unified diffs as the Go project makes them,
// for what a person is shown before they approve a call.
package file

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gatebook/handlers/tools"
	"gatebook/handlers/tools/workspace"
	"gatebook/policy/paths"
)

// Tools gives the file tools over the workspaces ws.
func Tools(ws *workspace.Workspaces) []tools.Tool {
	return []tools.Tool{
		listTool(ws), readTool(ws), statTool(ws), searchTool(ws),
		writeTool(ws), appendTool(ws), editTool(ws), copyTool(ws), moveTool(ws),
		deleteTool(ws), trashTool(ws), restoreTool(ws),
	}
}

// tool is a file tool whose decoded arguments are an A.
type tool[A any] struct {
	definition tools.Definition
	workspaces *workspace.Workspaces
	fields     []string // all argument names
	decode     func(*arguments) A
	run        func(context.Context, *workspace.Workspace, tools.Env, A) (any, error)
	// preview says what a call would change beyond which paths it touches; nil for no
	// more than that.
	preview func(ws *workspace.Workspace, args A, mask func(string) string) (string, error)
	// ground is what a call would change; nil where the paths among its arguments are all.
	ground func(context.Context, *workspace.Workspace, A) (ground, error)
}

// called are the decoded arguments of one call, with the paths among them.
type called[A any] struct {
	args  A
	paths []paths.Path
}

func (t *tool[A]) Definition() tools.Definition { return t.definition }

// Decode implements [tools.Tool].
func (t *tool[A]) Decode(raw jsontext.Value) (tools.Decoded, error) {
	args, malformed := parse(raw, t.fields)
	if malformed != nil {
		return tools.Decoded{}, malformed
	}
	decoded := t.decode(args)
	if args.malformed != nil {
		return tools.Decoded{}, args.malformed
	}
	return tools.Decoded{Args: called[A]{decoded, args.paths}, Paths: args.paths}, nil
}

// Run implements [tools.Tool].
func (t *tool[A]) Run(ctx context.Context, env tools.Env, args tools.Args) (jsontext.Value, error) {
	mine, ok := args.(called[A])
	if !ok {
		return nil, fmt.Errorf("%s: these are arguments of another tool", t.definition.Name)
	}
	ws, err := t.workspaces.Open(ctx, env.Agent)
	if err != nil {
		return nil, err
	}
	var result any
	if env, err = t.fresh(ctx, ws, env, mine); err == nil {
		result, err = t.run(ctx, ws, env, mine.args)
	}
	if err := errors.Join(err, ws.Close()); err != nil {
		return nil, err
	}
	return canonical(result)
}

func canonical(result any) (jsontext.Value, error) {
	raw, err := json.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("the result: %w", err)
	}
	value := jsontext.Value(raw)
	if err := value.Canonicalize(); err != nil {
		return nil, fmt.Errorf("the result: %w", err)
	}
	return value, nil
}

func stamp(env tools.Env) workspace.Stamp {
	s := workspace.Stamp{Call: env.Call, Now: env.Now}
	if env.Base != absent {
		s.Was = env.Base
	}
	return s
}

// pathSchema describes a path argument to a model.
const pathSchema = `{"type":"string","description":"Path in your workspace, with / between its parts, such as notes/a.txt; not absolute, no trailing slash."}`

func define(name, description, schema string) tools.Definition {
	return tools.Definition{Name: name, Description: description, Schema: jsontext.Value(schema)}
}

// fromToSchema is the schema of a tool that takes two paths.
const fromToSchema = `{"type":"object","properties":{"from":` + pathSchema + `,"to":` + pathSchema + `},"required":["from","to"],"additionalProperties":false}`

// fromTo are the arguments of a tool that takes two paths.
type fromTo struct{ from, to paths.Path }

func decodeFromTo(a *arguments) fromTo {
	a.require("from")
	a.require("to")
	return fromTo{from: a.path("from", ""), to: a.path("to", "")}
}

// pathOnly are the arguments of a tool that takes one path.
type pathOnly struct{ path paths.Path }
