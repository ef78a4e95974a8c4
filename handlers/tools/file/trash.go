package file

import (
	"context"

	"gatebook/events"
	"gatebook/handlers/tools"
	"gatebook/handlers/tools/workspace"
)

type trashArgs struct{ cursor events.CallID }

func trashTool(ws *workspace.Workspaces) tools.Tool {
	return &tool[trashArgs]{
		workspaces: ws,
		definition: define("file.trash",
			"Lists the trash of your workspace, newest first: id, original path, time of deletion, type and size. It holds what file.delete moved there and the former versions of files that file.write replaced. If the result has next, pass it as cursor to get more.",
			`{"type":"object","properties":{"cursor":{"type":"string","description":"next of the former page"}},"additionalProperties":false}`),
		fields: []string{"cursor"},
		decode: func(a *arguments) trashArgs { return trashArgs{cursor: a.call("cursor")} },
		run: func(ctx context.Context, ws *workspace.Workspace, _ tools.Env, a trashArgs) (any, error) {
			return ws.Trash(ctx, a.cursor)
		},
	}
}
