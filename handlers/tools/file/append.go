package file

import (
	"context"
	"fmt"

	"gatebook/events"
	"gatebook/handlers/tools"
	"gatebook/handlers/tools/workspace"
)

type appendResult struct {
	Path string `json:"path"`
	// Before and After are the sizes of the file, in bytes.
	Before int64 `json:"before"`
	After  int64 `json:"after"`
	// Replaced is the trash id of a former version that somebody else changed in the
	// same moment.
	Replaced events.CallID `json:"replaced,omitzero"`
}

func appendTool(ws *workspace.Workspaces) tools.Tool {
	return &tool[writeArgs]{
		workspaces: ws,
		definition: define("file.append",
			fmt.Sprintf("Puts text (at most %d bytes of UTF-8) at the end of a file of your workspace, as it is: no line break is added. The file must exist; file.write makes one. It may have at most %d bytes afterwards.", workspace.MaxContent, workspace.MaxAppended),
			fmt.Sprintf(`{"type":"object","properties":{"path":%s,"content":{"type":"string","minLength":1,"maxLength":%d,"description":"what comes after the end"}},"required":["path","content"],"additionalProperties":false}`,
				pathSchema, workspace.MaxContent)),
		fields: []string{"path", "content"},
		decode: func(a *arguments) writeArgs {
			a.require("path")
			return writeArgs{path: a.path("path", ""), content: a.content("content", 1, workspace.MaxContent)}
		},
		preview: previewAppend,
		run: func(ctx context.Context, ws *workspace.Workspace, env tools.Env, a writeArgs) (any, error) {
			done, err := ws.Append(ctx, stamp(env), a.path, []byte(a.content))
			return appendResult{Path: a.path.String(), Before: done.Before, After: done.After, Replaced: done.Kept}, err
		},
	}
}
