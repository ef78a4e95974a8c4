package file

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"

	"gatebook/events"
	"gatebook/handlers/tools"
	"gatebook/handlers/tools/workspace"
	"gatebook/policy/paths"
	"gatebook/policy/when"
)

type searchArgs struct {
	path paths.Path
	find workspace.Finder
}

func searchTool(ws *workspace.Workspaces) tools.Tool {
	return &tool[searchArgs]{
		workspaces: ws,
		definition: define("file.search",
			fmt.Sprintf("Finds lines in the text files of your workspace, in a file or everywhere below a folder: path, line number, and at most %d bytes of the line. Without path it searches the whole workspace. Links and what is no text are skipped. If truncated is true there may be more: search a smaller folder, or for something rarer.", workspace.MaxExcerpt),
			fmt.Sprintf(`{"type":"object","properties":{"pattern":{"type":"string","minLength":1,"maxLength":%d,"description":"text within one line, upper and lower case as given"},"path":%s,"regexp":{"type":"boolean","description":"pattern is a regular expression (RE2), such as (?i)todo; false unless given"}},"required":["pattern"],"additionalProperties":false}`,
				workspace.MaxPattern, pathSchema)),
		fields: []string{"pattern", "path", "regexp"},
		decode: func(a *arguments) searchArgs {
			pattern := a.content("pattern", 1, workspace.MaxPattern)
			return searchArgs{path: a.path("path", "."), find: a.finder(pattern, a.flag("regexp"))}
		},
		run: func(ctx context.Context, ws *workspace.Workspace, _ tools.Env, a searchArgs) (any, error) {
			return ws.Search(ctx, a.path, a.find)
		},
	}
}

// finder compiles a pattern, and refuses one that can find nothing or that may take
// too long for a line.
func (a *arguments) finder(pattern string, expression bool) workspace.Finder {
	if a.malformed != nil {
		return nil
	}
	if !expression {
		if strings.ContainsAny(pattern, "\r\n") {
			a.fail("pattern", "holds a line break; what is found is within one line")
		}
		return func(line []byte) []int {
			if at := bytes.Index(line, []byte(pattern)); at >= 0 {
				return []int{at, at + len(pattern)}
			}
			return nil
		}
	}
	steps, err := when.PatternSize(pattern)
	if err == nil && steps > workspace.MaxSteps {
		err = fmt.Errorf("compiles to %d steps, more than %d: repeat fewer times", steps, workspace.MaxSteps)
	}
	if err != nil {
		a.fail("pattern", events.Escape(err.Error()))
		return nil
	}
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		a.fail("pattern", "is not RE2")
		return nil
	}
	return compiled.FindIndex
}
