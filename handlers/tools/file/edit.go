package file

import (
	"context"
	"fmt"

	"gatebook/events"
	"gatebook/handlers/tools"
	"gatebook/handlers/tools/workspace"
	"gatebook/policy/paths"
)

type editArgs struct {
	path      paths.Path
	old, text string
	all       bool
}

type editResult struct {
	Path         string `json:"path"`
	Replacements int    `json:"replacements"`
	// Lines are the lines of the new version where the replacements begin, the first of
	// them where they are many.
	Lines []int `json:"lines"`
	// Before and After are the sizes of the file, in bytes.
	Before int64 `json:"before"`
	After  int64 `json:"after"`
	// Replaced is the trash id of the former version.
	Replaced events.CallID `json:"replaced"`
}

func editTool(ws *workspace.Workspaces) tools.Tool {
	return &tool[editArgs]{
		workspaces: ws,
		definition: define("file.edit",
			fmt.Sprintf("Replaces text in a UTF-8 file of your workspace (at most %d bytes before and after). The text old must stand in it exactly once, white space and line breaks included; with all it is replaced wherever it stands. The former version goes to the trash and the result gives its id (replaced), with which file.restore brings it back.", workspace.MaxContent),
			fmt.Sprintf(`{"type":"object","properties":{"path":%s,"old":{"type":"string","minLength":1,"maxLength":%[2]d,"description":"the text as it stands in the file"},"new":{"type":"string","maxLength":%[2]d,"description":"what takes its place; may be empty"},"all":{"type":"boolean","description":"replace every occurrence; false unless given"}},"required":["path","old","new"],"additionalProperties":false}`,
				pathSchema, workspace.MaxContent)),
		fields: []string{"path", "old", "new", "all"},
		decode: func(a *arguments) editArgs {
			a.require("path")
			args := editArgs{
				path: a.path("path", ""),
				old:  a.content("old", 1, workspace.MaxContent),
				text: a.content("new", 0, workspace.MaxContent),
				all:  a.flag("all"),
			}
			if args.old == args.text {
				a.fail("new", "is the same as old")
			}
			return args
		},
		preview: previewEdit,
		run: func(_ context.Context, ws *workspace.Workspace, env tools.Env, a editArgs) (any, error) {
			done, err := ws.Edit(stamp(env), a.path, a.old, a.text, a.all)
			return editResult{
				Path: a.path.String(), Replacements: done.Count, Lines: done.Lines,
				Before: done.Before, After: done.After, Replaced: done.Replaced,
			}, err
		},
	}
}
