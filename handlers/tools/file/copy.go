package file

import (
	"context"
	"fmt"

	"gatebook/handlers/tools"
	"gatebook/handlers/tools/workspace"
)

func copyTool(ws *workspace.Workspaces) tools.Tool {
	return &tool[fromTo]{
		workspaces: ws,
		definition: define("file.copy",
			fmt.Sprintf("Copies a file or a whole folder of your workspace, at most %d files and folders with %d bytes, and makes missing folders. Nothing is overwritten: where something is at to already, nothing is copied. A folder with a link in it is not copied.",
				workspace.MaxCopyEntries, workspace.MaxCopyBytes),
			fromToSchema),
		fields: []string{"from", "to"},
		decode: decodeFromTo,
		run: func(ctx context.Context, ws *workspace.Workspace, env tools.Env, a fromTo) (any, error) {
			return ws.Copy(ctx, stamp(env), a.from, a.to)
		},
	}
}
