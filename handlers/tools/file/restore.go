package file

import (
	"context"

	"gatebook/events"
	"gatebook/handlers/tools"
	"gatebook/handlers/tools/workspace"
	"gatebook/policy/paths"
)

type restoreArgs struct {
	id events.CallID
	to *paths.Path // nil: the original path
}

func restoreTool(ws *workspace.Workspaces) tools.Tool {
	return &tool[restoreArgs]{
		workspaces: ws,
		definition: define("file.restore",
			"Brings an entry of the trash back to its original path, or to path if given, and makes missing folders. Nothing is overwritten: if the path is taken, the error names a free one.",
			`{"type":"object","properties":{"id":{"type":"string","description":"id of the entry, from file.trash, file.delete, file.write, file.edit or file.append"},"path":`+pathSchema+`},"required":["id"],"additionalProperties":false}`),
		fields: []string{"id", "path"},
		decode: func(a *arguments) restoreArgs {
			a.require("id")
			args := restoreArgs{id: a.call("id")}
			if _, given := a.values["path"]; given {
				to := a.path("path", "")
				args.to = &to
			}
			return args
		},
		ground: restoreGround,
		run: func(ctx context.Context, ws *workspace.Workspace, env tools.Env, a restoreArgs) (any, error) {
			return ws.Restore(ctx, a.id, a.to, env.May)
		},
	}
}
