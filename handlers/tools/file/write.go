package file

import (
	"context"
	"errors"
	"fmt"

	"gatebook/events"
	"gatebook/handlers/tools"
	"gatebook/handlers/tools/workspace"
	"gatebook/policy/paths"
)

type writeArgs struct {
	path    paths.Path
	content string
}

type writeResult struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes"`
	// Effect is "created" or "replaced"; Replaced is the trash id of the former
	// version.
	Effect   string        `json:"effect"`
	Replaced events.CallID `json:"replaced,omitzero"`
}

func writeTool(ws *workspace.Workspaces) tools.Tool {
	return &tool[writeArgs]{
		workspaces: ws,
		definition: define("file.write",
			fmt.Sprintf("Writes a whole text file in your workspace (at most %d bytes of UTF-8) and makes missing folders. A file that is there already is replaced; its former version goes to the trash and the result gives its id (replaced), with which file.restore brings it back.", workspace.MaxContent),
			fmt.Sprintf(`{"type":"object","properties":{"path":%s,"content":{"type":"string","maxLength":%d,"description":"the whole new content"}},"required":["path","content"],"additionalProperties":false}`,
				pathSchema, workspace.MaxContent)),
		fields: []string{"path", "content"},
		decode: func(a *arguments) writeArgs {
			a.require("path")
			return writeArgs{path: a.path("path", ""), content: a.content("content", 0, workspace.MaxContent)}
		},
		preview: previewWrite,
		run: func(_ context.Context, ws *workspace.Workspace, env tools.Env, a writeArgs) (any, error) {
			write := ws.Write
			if env.CreateOnly || env.Base == absent {
				write = ws.Create
			}
			written, err := write(stamp(env), a.path, []byte(a.content))
			if err != nil && env.Base == absent && !env.CreateOnly && isThere(err) {
				err = workspace.Stale()
			}
			if err != nil {
				return nil, err
			}
			r := writeResult{Path: a.path.String(), Bytes: len(a.content), Effect: "created", Replaced: written.Replaced}
			if written.Replaced != "" {
				r.Effect = "replaced"
			}
			return r, nil
		},
	}
}

// isThere says that a write which may only make a new file found one.
func isThere(err error) bool {
	var refused *tools.Refused
	return errors.As(err, &refused) && refused.Rule == "create_only"
}
