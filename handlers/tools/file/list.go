package file

import (
	"context"

	"gatebook/handlers/tools"
	"gatebook/handlers/tools/workspace"
	"gatebook/policy/paths"
)

type listArgs struct {
	path   paths.Path
	cursor string
}

func listTool(ws *workspace.Workspaces) tools.Tool {
	return &tool[listArgs]{
		workspaces: ws,
		definition: define("file.list",
			"Lists one folder of your workspace, not the folders in it: name, type (file, dir, link, other, vanished), size in bytes and time of the last change, sorted by name. Without path it lists the workspace itself. If the result has next, pass it as cursor to get more.",
			`{"type":"object","properties":{"path":`+pathSchema+`,"cursor":{"type":"string","description":"next of the former page"}},"additionalProperties":false}`),
		fields: []string{"path", "cursor"},
		decode: func(a *arguments) listArgs {
			return listArgs{path: a.path("path", "."), cursor: a.text("cursor", "")}
		},
		run: func(ctx context.Context, ws *workspace.Workspace, _ tools.Env, a listArgs) (any, error) {
			return ws.List(ctx, a.path, a.cursor)
		},
	}
}
