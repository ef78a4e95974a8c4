package file

import (
	"context"
	"fmt"

	"gatebook/handlers/tools"
	"gatebook/handlers/tools/workspace"
)

func statTool(ws *workspace.Workspaces) tools.Tool {
	return &tool[pathOnly]{
		workspaces: ws,
		definition: define("file.stat",
			fmt.Sprintf("Tells type (file, dir), size in bytes and time of the last change of one path of your workspace, and the SHA-256 of a file of at most %d bytes, in hexadecimal.", workspace.MaxHashed),
			`{"type":"object","properties":{"path":`+pathSchema+`},"required":["path"],"additionalProperties":false}`),
		fields: []string{"path"},
		decode: func(a *arguments) pathOnly {
			a.require("path")
			return pathOnly{path: a.path("path", "")}
		},
		run: func(ctx context.Context, ws *workspace.Workspace, _ tools.Env, a pathOnly) (any, error) {
			return ws.Stat(ctx, a.path)
		},
	}
}
