package file

import (
	"context"

	"gatebook/handlers/tools"
	"gatebook/handlers/tools/workspace"
)

func moveTool(ws *workspace.Workspaces) tools.Tool {
	return &tool[fromTo]{
		workspaces: ws,
		definition: define("file.move",
			"Gives a file or a whole folder of your workspace another path, and makes missing folders. Nothing is overwritten: where something is at to already, nothing is moved.",
			fromToSchema),
		fields: []string{"from", "to"},
		decode: decodeFromTo,
		run: func(ctx context.Context, ws *workspace.Workspace, _ tools.Env, a fromTo) (any, error) {
			return ws.Move(ctx, a.from, a.to)
		},
	}
}
