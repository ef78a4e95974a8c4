package file

import (
	"context"

	"gatebook/handlers/tools"
	"gatebook/handlers/tools/workspace"
)

func deleteTool(ws *workspace.Workspaces) tools.Tool {
	return &tool[pathOnly]{
		workspaces: ws,
		definition: define("file.delete",
			"Moves a file or a whole folder of your workspace to the trash. Nothing is lost: file.restore brings it back with the id in the result.",
			`{"type":"object","properties":{"path":`+pathSchema+`},"required":["path"],"additionalProperties":false}`),
		fields: []string{"path"},
		decode: func(a *arguments) pathOnly {
			a.require("path")
			return pathOnly{path: a.path("path", "")}
		},
		run: func(_ context.Context, ws *workspace.Workspace, env tools.Env, a pathOnly) (any, error) {
			return ws.Delete(stamp(env), a.path)
		},
	}
}
