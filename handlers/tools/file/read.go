package file

import (
	"context"
	"encoding/base64"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/handlers/tools"
	"gatebook/handlers/tools/workspace"
	"gatebook/policy/paths"
)

// maxOffset is the largest number that canonical JSON keeps exactly.
const maxOffset = 1<<53 - 1

type readArgs struct {
	path          paths.Path
	offset, limit int64
}

type readResult struct {
	Path     string `json:"path"`
	Content  string `json:"content"`
	Encoding string `json:"encoding"` // "utf-8" or "base64"
	Size     int64  `json:"size"`     // bytes of the whole file
	Offset   int64  `json:"offset"`
	// Truncated says that bytes follow; Next is then the offset of the first of them.
	Truncated bool  `json:"truncated"`
	Next      int64 `json:"next,omitzero"`
}

func readTool(ws *workspace.Workspaces) tools.Tool {
	return &tool[readArgs]{
		workspaces: ws,
		definition: define("file.read",
			"Reads a file of your workspace. Text comes as it is, other content as base64 (see encoding). If truncated is true, call again with offset set to next.",
			fmt.Sprintf(`{"type":"object","properties":{"path":%s,"offset":{"type":"integer","minimum":0,"maximum":%d,"description":"first byte; 0 unless given"},"limit":{"type":"integer","minimum":1,"maximum":%d,"description":"most bytes; %d unless given"}},"required":["path"],"additionalProperties":false}`,
				pathSchema, maxOffset, workspace.MaxContent, workspace.DefaultRead)),
		fields: []string{"path", "offset", "limit"},
		decode: func(a *arguments) readArgs {
			a.require("path")
			return readArgs{
				path:   a.path("path", ""),
				offset: a.number("offset", 0, 0, maxOffset),
				limit:  a.number("limit", workspace.DefaultRead, 1, workspace.MaxContent),
			}
		},
		run: func(_ context.Context, ws *workspace.Workspace, _ tools.Env, a readArgs) (any, error) {
			content, err := ws.Read(a.path, a.offset, a.limit)
			if err != nil {
				return nil, err
			}
			return show(a.path, content), nil
		},
	}
}

// show turns a part of a file into text where it is text.
func show(path paths.Path, c workspace.Content) readResult {
	data := c.Data
	if c.Offset+int64(len(data)) < c.Size {
		data = workspace.WholeRunes(data)
	}
	r := readResult{Path: path.String(), Content: string(data), Encoding: "utf-8", Size: c.Size, Offset: c.Offset}
	if !fitsAsText(data) {
		data = c.Data
		r.Content, r.Encoding = base64.StdEncoding.EncodeToString(data), "base64"
	}
	if end := c.Offset + int64(len(data)); end < c.Size {
		r.Truncated, r.Next = true, end
	}
	return r
}

// fitsAsText is false too for text that is longer as a JSON string than the
// largest content is as base64: the answer has a bound.
func fitsAsText(data []byte) bool {
	if !utf8.Valid(data) {
		return false
	}
	quoted, err := jsontext.AppendQuote(nil, data)
	return err == nil && len(quoted) <= base64.StdEncoding.EncodedLen(workspace.MaxContent)+2
}
