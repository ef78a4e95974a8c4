package scripts_test

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// An import test cannot see a rule that leaks by value, so these rules look at
// what handlers do with the values that they carry from the views to policy.

const eventsPath = module + "/events"

// rightsFields are the fields that say what somebody may do.
var rightsFields = strings.Fields("Session Longtime Effective Profile Requested")

var handlerRules = []rule{
	{
		name: "handlers decide nothing by a profile",
		because: `who may do what is policy's alone. A handler may carry the fields ` + strings.Join(rightsFields, ", ") + ` of a value
	of events, policy or projections in three ways: as a field of a composite literal (policy.RoundFacts{Session: row.Session}, or an
	answer of its own; not of a type of events), by assignment to a field, or as an argument. It may not look at one: not in a
	condition, comparison or switch (not even inside a call there, unless the call is to policy), not as an index, and not by way of
	a variable of its own. Hand the row's fields to policy as facts and use its answer`,
		check: inHandlers(readsRights),
		bad: handlerSamples(
			`func f(r projections.Row) { if r.Session != "" {} }`,
			`func f(r projections.Row) { if len(r.Longtime) > 0 {} }`,
			`func f(r *projections.Row) bool { return r.Effective == "none" }`,
			`func f(r projections.Row) { switch r.Profile { case "a": } }`,
			`func f(r projections.Row, s string) { switch s { case r.Profile: } }`,
			`func f(r projections.Row, m map[string]int) int { return m[r.Session] }`,
			`func f(r projections.Row) { s := r.Session; if s == "" {} }`,
			`func f(r projections.Row) { var s = r.Session; _ = s }`,
			`func f(r projections.Row) { if g(r.Session) {} }; func g(string) bool { return true }`,
			`func f() { if projections.ByID(1).Session == "a" {} }`,
			`func f(x policy.RoundFacts) bool { return x.Session == "" }`,
			`func f(r projections.Row) { _ = events.RoundBegun{Effective: r.Session} }`,
			`func f(r projections.Row) { g := func() bool { return r.Open && r.Session == "" }; g() }`,
			`func f(r elsewhere.Row) bool { return r.Session == "" }`,
		),
		good: handlerSamples(
			`func f(r projections.Row) { policy.Decide(policy.RoundFacts{Session: r.Session}) }`,
			`func f(r projections.Row) { if policy.Decide(policy.RoundFacts{Session: r.Session}) {} }`,
			`func f(r projections.Row) { if policy.Covers(r.Session, r.Longtime) {} }`,
			`func f(r projections.Row) any { return answer{Profile: r.Profile} }; type answer struct{ Profile string }`,
			`func f(r projections.Row, x *policy.RoundFacts) { x.Session = r.Session }`,
			`func f(r projections.Row) { show(r.Profile) }; func show(string) {}`,
			`func f(r projections.Row) { if r.Open {} }`,
			`func f(c conn) { if c.Session == "" {} }; type conn struct{ Session string }`,
		),
	},
	{
		name:    "handlers build no principal and no kind",
		because: "who is talking is derived from facts by policy; a handler passes on events.Principal values and the kinds in them, and neither makes nor changes nor names one",
		check:   inHandlers(buildsPrincipal),
		bad: handlerSamples(
			`var p = events.Principal{ID: "anna"}`,
			`var p = &events.Principal{}`,
			`var p = []events.Principal{{ID: "anna"}}`,
			`func f(p events.Principal) { p.ID = "anna" }`,
			`func f(r *projections.Row) { r.Principal.Kind = r.Kind }`,
			`func f(r projections.Row) bool { return r.Principal.Kind == events.PrincipalSelf }`,
			`func f(s string) { _ = events.PrincipalKind(s) }`,
		),
		good: handlerSamples(
			`func f(r projections.Row) { _ = policy.RoundFacts{Principal: r.Principal} }`,
			`func f(r projections.Row) string { return string(r.Principal.Kind) }`,
		),
	},
	{
		name:    "handlers pick no layer of the gate",
		because: "which layer refuses is the gate's answer; a handler itself refuses only as the engine (events.LayerEngine) or for what a tool found on its handle (events.LayerTool)",
		check:   inHandlers(picksLayer),
		bad: handlerSamples(
			`var l = events.LayerRole`,
			`func f(l events.Layer) bool { return l == events.LayerProfile }`,
			`var l = events.Layer("role")`,
		),
		good: handlerSamples(`var a, b = events.LayerEngine, events.LayerTool`),
	},
}

func inHandlers(check func(*source) []finding) func(*source) []finding {
	return func(f *source) []finding {
		if !f.under("handlers") || f.forTests() {
			return nil
		}
		return check(f)
	}
}

// readsRights finds fields of rights that are looked at.
func readsRights(f *source) []finding {
	var found []finding
	walk(f.ast, func(stack []ast.Node) {
		sel, ok := stack[len(stack)-1].(*ast.SelectorExpr)
		if !ok || !slices.Contains(rightsFields, sel.Sel.Name) || !f.fieldOfFacts(sel) {
			return
		}
		if how := f.looksAt(stack); how != "" {
			found = append(found, f.at(sel, "looks at %s %s", types.ExprString(sel), how))
		}
	})
	return found
}

// fieldOfFacts says that sel is a field of a struct of events, policy or
// projections. A value whose type cannot be told counts as one.
func (f *source) fieldOfFacts(sel *ast.SelectorExpr) bool {
	if id, ok := sel.X.(*ast.Ident); ok {
		if _, imported := f.info.Uses[id].(*types.PkgName); imported {
			return false
		}
	}
	if obj := f.info.Uses[sel.Sel]; obj != nil {
		v, field := obj.(*types.Var)
		return field && v.IsField() && ofFacts(v.Pkg())
	}
	return !known(f.info.Types[sel.X].Type)
}

func ofFacts(p *types.Package) bool {
	return p != nil && slices.ContainsFunc(pureDirs, func(d string) bool { return within(p.Path(), module+"/"+d) })
}

// looksAt says how the expression at the end of the stack is used, where that is
// more than carrying it.
func (f *source) looksAt(stack []ast.Node) string {
	inCall := false
	for i := len(stack) - 1; i > 0; i-- {
		child, parent := stack[i], stack[i-1]
		switch p := parent.(type) {
		case *ast.CallExpr:
			if sel, ok := p.Fun.(*ast.SelectorExpr); ok && f.selects(sel, module+"/policy") != "" && child != p.Fun {
				return ""
			}
			inCall = true
		case *ast.CompositeLit:
			if n, ok := types.Unalias(f.info.Types[p].Type).(*types.Named); ok && n.Obj().Pkg() != nil && within(n.Obj().Pkg().Path(), eventsPath) {
				return "to build a fact"
			}
			return ""
		case *ast.BinaryExpr:
			if p.Op != token.ADD {
				return "in a condition"
			}
		case *ast.SwitchStmt, *ast.CaseClause:
			return "in a switch"
		case *ast.IfStmt, *ast.ForStmt:
			return "in a condition"
		case *ast.IndexExpr:
			if child == p.Index {
				return "as an index"
			}
		case *ast.ValueSpec:
			return keeps(inCall)
		case *ast.AssignStmt:
			return assigns(p, child, inCall)
		case ast.Stmt, *ast.FuncLit:
			return ""
		}
	}
	return ""
}

func keeps(inCall bool) string {
	if inCall {
		return ""
	}
	return "by way of a variable"
}

// assigns allows writing to a field, and from field to field.
func assigns(a *ast.AssignStmt, child ast.Node, inCall bool) string {
	for i, e := range a.Rhs {
		if e != child || len(a.Lhs) != len(a.Rhs) {
			continue
		}
		if _, variable := a.Lhs[i].(*ast.Ident); variable {
			return keeps(inCall)
		}
	}
	return ""
}

// buildsPrincipal finds principals and kinds that are made, changed or named.
func buildsPrincipal(f *source) []finding {
	var found []finding
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if f.isOf(n, "Principal") {
				found = append(found, f.at(n, "builds an events.Principal"))
			}
		case *ast.CallExpr:
			if f.selects(n.Fun, eventsPath) == "PrincipalKind" {
				found = append(found, f.at(n, "builds an events.PrincipalKind"))
			}
		case *ast.SelectorExpr:
			if c, ok := f.info.Uses[n.Sel].(*types.Const); ok && isNamed(c.Type(), "PrincipalKind") {
				found = append(found, f.at(n, "names the kind events.%s", n.Sel.Name))
			}
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				if sel, ok := e.(*ast.SelectorExpr); ok && f.isOf(sel.X, "Principal") {
					found = append(found, f.at(sel, "changes a principal's %s", sel.Sel.Name))
				}
			}
		}
		return true
	})
	return found
}

// isOf says that e is of the named type of events, or points to it.
func (f *source) isOf(e ast.Expr, name string) bool {
	t := f.info.Types[e].Type
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	return isNamed(t, name)
}

func isNamed(t types.Type, name string) bool {
	n, ok := t.(*types.Named)
	return ok && n.Obj().Name() == name && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == eventsPath
}

// picksLayer finds layers of the gate in a handler.
func picksLayer(f *source) []finding {
	var found []finding
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if f.selects(n.Fun, eventsPath) == "Layer" {
				found = append(found, f.at(n, "builds an events.Layer"))
			}
		case *ast.SelectorExpr:
			c, ok := f.info.Uses[n.Sel].(*types.Const)
			if ok && isNamed(c.Type(), "Layer") && n.Sel.Name != "LayerEngine" && n.Sel.Name != "LayerTool" {
				found = append(found, f.at(n, "picks events.%s", n.Sel.Name))
			}
		}
		return true
	})
	return found
}

// walk visits every node with its ancestors, the node last.
func walk(root ast.Node, visit func(stack []ast.Node)) {
	var stack []ast.Node
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		stack = append(stack, n)
		visit(stack)
		return true
	})
}

func TestHandlers(t *testing.T) { checkTree(t, handlerRules) }

func TestHandlersSeeABreach(t *testing.T) {
	checkSamples(t, handlerRules, map[string]string{
		"events/x.go": `package events
			type PrincipalKind string
			const PrincipalSelf PrincipalKind = "self"
			type Principal struct { ID string; Kind PrincipalKind }
			type RoundBegun struct { Effective string }
			type Layer string
			const ( LayerRole Layer = "role"; LayerProfile Layer = "profile"; LayerEngine Layer = "engine"; LayerTool Layer = "tool" )`,
		"policy/x.go": `package policy
			import "gatebook/events"
			type RoundFacts struct { Session string; Principal events.Principal }
			func Decide(RoundFacts) bool { return false }
			func Covers(a, b string) bool { return false }`,
		"projections/x.go": `package projections
			import "gatebook/events"
			type Row struct { Session, Longtime, Effective, Profile string; Open bool; Kind events.PrincipalKind; Principal events.Principal }
			func ByID(int) Row { return Row{} }`,
	})
}

// The rules above lean on names in events; where one is renamed they would see
// nothing, and this test says so.
func TestHandlerRulesKnowTheirTypes(t *testing.T) {
	for _, f := range readTree(t).files {
		if f.dir != "events" || f.pkg == nil {
			continue
		}
		for _, name := range strings.Fields("Principal PrincipalKind PrincipalSelf Layer LayerEngine LayerTool") {
			if f.pkg.Scope().Lookup(name) == nil {
				t.Errorf("events.%s is gone: the rules for handlers must follow", name)
			}
		}
		return
	}
	t.Error("the package events was not found")
}

// handlerSamples puts each body into a file of a handler.
func handlerSamples(bodies ...string) []sample {
	var all []sample
	for _, b := range bodies {
		head := "package engine\nimport (\n"
		for _, p := range append(slices.Clone(pureDirs), "elsewhere") {
			if strings.Contains(b, p+".") {
				head += "\t\"" + module + "/" + p + "\"\n"
			}
		}
		all = append(all, sample{"handlers/engine/x.go", head + ")\n" + b + "\n"})
	}
	return all
}
