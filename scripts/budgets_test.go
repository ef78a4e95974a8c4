package scripts_test

import (
	"fmt"
	"go/ast"
	"strings"
	"testing"
)

// The budgets. Tests are not counted.
const (
	maxFileLines    = 500
	maxFuncLines    = 60
	maxPackageFiles = 15
	// maxCommandFiles is for cmd/gatebook, which has a file per subcommand.
	maxCommandFiles = 45
)

// raise lifts one budget for one file ("events/codec.go"), one function
// ("events/codec.go Decode") or one folder ("events"). An entry that is no
// longer needed fails the test.
type raise struct {
	what    string
	limit   int
	because string
}

var raised = []raise{}

// checkBudgets finds what is over its budget, and raises without use or reason.
func checkBudgets(tr *tree, raised []raise) []finding {
	var found []finding
	used := map[string]bool{}
	spend := func(what string, have, limit int, unit string) {
		for _, r := range raised {
			if r.what == what && have > limit {
				used[what], limit = true, r.limit
			}
		}
		if have > limit {
			found = append(found, finding{path: what, text: fmt.Sprintf("%d %s, the budget is %d", have, unit, limit)})
		}
	}
	folders := map[string]int{}
	for _, f := range tr.files {
		if f.test {
			continue
		}
		folders[f.dir]++
		spend(f.path, f.size, maxFileLines, "lines")
		for name, lines := range f.functions() {
			spend(f.path+" "+name, lines, maxFuncLines, "lines")
		}
	}
	for dir, files := range folders {
		limit := maxPackageFiles
		if dir == "cmd/gatebook" {
			limit = maxCommandFiles
		}
		spend(dir, files, limit, "files")
	}
	for _, r := range raised {
		if !used[r.what] {
			found = append(found, finding{path: r.what, text: "its budget is raised without need; take the entry out"})
		}
		if len(strings.Fields(r.because)) < 5 {
			found = append(found, finding{path: r.what, text: "its budget is raised without a reason"})
		}
	}
	return found
}

// functions gives the lines of each function, its literals included; a literal
// outside of functions is named by its line.
func (f *source) functions() map[string]int {
	all := map[string]int{}
	lines := func(n ast.Node) int { return f.fset.Position(n.End()).Line - f.fset.Position(n.Pos()).Line + 1 }
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			name := n.Name.Name
			if n.Recv != nil && len(n.Recv.List) == 1 {
				name = receiver(n.Recv.List[0].Type) + "." + name
			}
			all[name] = max(all[name], lines(n))
			return false
		case *ast.FuncLit:
			all[fmt.Sprintf("line %d", f.fset.Position(n.Pos()).Line)] = lines(n)
			return false
		}
		return true
	})
	return all
}

// receiver is the name of a receiver's type.
func receiver(e ast.Expr) string {
	for {
		switch t := e.(type) {
		case *ast.StarExpr:
			e = t.X
		case *ast.IndexExpr:
			e = t.X
		case *ast.IndexListExpr:
			e = t.X
		case *ast.Ident:
			return t.Name
		default:
			return "?"
		}
	}
}

func TestBudgets(t *testing.T) {
	report(t, "small files, functions and packages are read before they are trusted; a larger one needs a reason in the table",
		checkBudgets(readTree(t), raised))
}

func TestBudgetsSeeABreach(t *testing.T) {
	body := func(lines int) string { return "{\n" + strings.Repeat("_ = 0\n", lines-2) + "}\n" }
	code := map[string]string{
		"events/long.go": "package events\n" + strings.Repeat("\n", maxFileLines),
		"events/func.go": "package events\nfunc a() " + body(maxFuncLines+1) + "func b() " + body(maxFuncLines) +
			"func (x *T[K]) c() " + body(maxFuncLines+2) + "var d = func() " + body(maxFuncLines+3),
		"events/long_test.go": "package events\n" + strings.Repeat("\n", maxFileLines) + "func a() " + body(100),
	}
	for i := range maxPackageFiles + 1 {
		code[fmt.Sprintf("policy/f%d.go", i)] = "package policy\n"
		code[fmt.Sprintf("cmd/gatebook/f%d.go", i)] = "package main\n"
	}
	tr := mustTree(t, code)
	over := []string{"events/long.go", "events/func.go a", "events/func.go T.c", "events/func.go line 185", "policy"}
	found := fmt.Sprintf("%v", checkBudgets(tr, nil))
	for _, what := range over {
		if !strings.Contains(found, what+":") {
			t.Errorf("%s is over its budget and was not seen in %s", what, found)
		}
	}
	if got := checkBudgets(tr, nil); len(got) != len(over) {
		t.Errorf("%d are over, %d found: %v", len(over), len(got), got)
	}
	var lifted []raise
	for _, what := range over {
		lifted = append(lifted, raise{what, 1000, "one table that belongs together"})
	}
	if got := checkBudgets(tr, lifted); len(got) != 0 {
		t.Errorf("raised, and yet: %v", got)
	}
	wrong := append(lifted, raise{"events/gone.go", 600, "one table that belongs together"})
	wrong[0].because, wrong[1].limit = "large", maxFuncLines
	if got := checkBudgets(tr, wrong); len(got) != 3 {
		t.Errorf("no reason, still over, not needed: 3 findings, got %v", got)
	}
}
