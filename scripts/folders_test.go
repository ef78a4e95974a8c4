package scripts_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// deleters are the functions of the workspace that may remove, each with what it
// removes. All else that an agent loses goes to its trash.
var deleters = map[string]string{
	"erase":   "what was decided to go, and recorded before",
	"discard": "what a call has just made itself",
	"remove":  "an entry of the trash without content",
	"furnish": "a temporary file that it has made itself",
}

var folderRules = []rule{
	{
		name:    "one place knows the folders of agents",
		because: "who joins the parts of an agent's folder again may mean another place than the gate does: ask paths.FolderOf",
		check: func(f *source) []finding {
			// identity keeps the keys of agents in a folder of its own.
			if f.forTests() || f.under("policy/paths", "scripts") || f.path == "infra/identity/key.go" {
				return nil
			}
			var found []finding
			walk(f.ast, func(stack []ast.Node) {
				lit, ok := stack[len(stack)-1].(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return
				}
				text, err := strconv.Unquote(lit.Value)
				if err == nil && (slices.Contains(strings.Fields("Workspace Identity.md Soul.md AgentSettings.json"), text) || text == "agents" && joined(stack)) {
					found = append(found, f.at(lit, "names %q", text))
				}
			})
			return found
		},
		bad: []sample{
			{"handlers/x/x.go", `package x; var f = []string{"a", "Workspace"}`},
			{"cmd/gatebook/x.go", `package main; import "path/filepath"; var f = filepath.Join("data", "agents", "alice")`},
			{"infra/x/x.go", `package x; func (d dir) f() string { return d.in("agents") }`},
			{"handlers/x/x.go", `package x; const f = "Soul.md"`},
			{"handlers/x/x.go", `package x; var f = []string{"agents", "alice"}`},
		},
		good: []sample{
			{"policy/paths/x.go", `package paths; const f = "Workspace"`},
			{"handlers/x/x.go", `package x; var f = ask("agents"); func ask(string) int { return 0 }`},
			{"handlers/x/x_test.go", `package x; const f = "Workspace"`},
		},
	},
	{
		name:    "nothing but the job deletes for good",
		because: "what an agent deletes or replaces goes to the trash, and what leaves the trash for good is decided and recorded before: only " + fmt.Sprint(sorted(deleters)) + " of the workspace remove anything",
		check: func(f *source) []finding {
			if f.forTests() || !f.under("handlers/tools") {
				return nil
			}
			var found []finding
			for _, d := range f.ast.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if ok && f.dir == "handlers/tools/workspace" && deleters[fn.Name.Name] != "" {
					continue
				}
				ast.Inspect(d, func(n ast.Node) bool {
					if sel, ok := n.(*ast.SelectorExpr); ok && slices.Contains(strings.Fields("Remove RemoveAll Unlink Unlinkat Rmdir Truncate"), sel.Sel.Name) {
						found = append(found, f.at(sel, "removes by %s", sel.Sel.Name))
					}
					return true
				})
			}
			return found
		},
		bad: []sample{
			{"handlers/tools/file/x.go", `package file; import "os"; func erase() { _ = os.Remove("a") }`},
			{"handlers/tools/workspace/x.go", `package workspace; func (f folder) move() { f.RemoveAll("a") }`},
			{"handlers/tools/workspace/x.go", `package workspace; import "os"; var drop = os.RemoveAll`},
			{"handlers/tools/workspace/x.go", `package workspace; import "golang.org/x/sys/unix"; func f() { unix.Unlinkat(0, "a", 0) }`},
		},
		good: []sample{{"handlers/tools/workspace/x.go", `package workspace; func (f folder) erase() { f.Remove("a") }`}},
	},
}

// joined says that the literal at the end of the stack is a part of a path.
func joined(stack []ast.Node) bool {
	if len(stack) < 2 {
		return false
	}
	switch p := stack[len(stack)-2].(type) {
	case *ast.CompositeLit:
		return true
	case *ast.CallExpr:
		name := ""
		switch fun := p.Fun.(type) {
		case *ast.SelectorExpr:
			name = fun.Sel.Name
		case *ast.Ident:
			name = fun.Name
		}
		return slices.Contains(strings.Fields("Join in descend enter OpenRoot Open Mkdir MkdirAll"), name)
	}
	return false
}

func sorted(m map[string]string) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func TestFolders(t *testing.T) { checkTree(t, folderRules) }

func TestFoldersSeeABreach(t *testing.T) { checkSamples(t, folderRules, nil) }

// A function that is listed and removes nothing any more leaves the list.
func TestDeletersAreNeeded(t *testing.T) {
	used := map[string]bool{}
	for _, f := range readTree(t).files {
		if f.dir != "handlers/tools/workspace" || f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				used[fn.Name.Name] = true
			}
		}
	}
	for _, name := range sorted(deleters) {
		if !used[name] {
			t.Errorf("%s is gone", name)
		}
	}
}
