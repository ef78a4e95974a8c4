package scripts_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rule is one thing that code may not do, seen in its syntax tree.
type rule struct {
	name    string
	because string
	check   func(*source) []finding
	// bad are sources that must be reported, good are such that must not be.
	bad, good []sample
}

// sample is a source at a path.
type sample struct{ path, code string }

var pureDirs = []string{"events", "policy", "projections"}

// clockReads are the functions that read a clock, or a source of randomness,
// by the package that they are in.
var (
	clockReads = map[string][]string{
		"time":                     {"Now", "Since", "Until"},
		"github.com/oklog/ulid/v2": {"Make", "Now", "DefaultEntropy"},
	}
	waits = map[string][]string{
		"time": {"Sleep", "After", "Tick", "NewTimer", "NewTicker", "AfterFunc"},
	}
	randomness = []string{"math/rand", "math/rand/v2", "crypto/rand"}
)

// uses finds where f takes one of names from its package.
func (f *source) uses(names map[string][]string) []finding {
	var found []finding
	ast.Inspect(f.ast, func(n ast.Node) bool {
		for from, all := range names {
			if name := f.selects(n, from); slices.Contains(all, name) {
				found = append(found, f.at(n, "uses %s.%s", from, name))
			}
		}
		return true
	})
	return found
}

var syntaxRules = []rule{
	{
		name:    "no clock or chance below the handlers",
		because: "facts, rules and folds give the same for the same input, today and when the book is replayed: time, ids and randomness come in as values",
		check: func(f *source) []finding {
			if !f.under(pureDirs...) || f.forTests() {
				return nil
			}
			found := append(f.uses(clockReads), f.uses(waits)...)
			for _, p := range randomness {
				if spec := f.imports[p]; spec != nil {
					found = append(found, f.at(spec, "imports %s", p))
				}
			}
			return found
		},
		bad: []sample{
			{"events/x.go", `package events; import "time"; var t = time.Now()`},
			{"policy/x.go", `package policy; import clock "time"; func f() { _ = clock.Now }`},
			{"projections/x.go", `package projections; import "time"; func f(t time.Time) { _ = time.Since(t) }`},
			{"projections/x.go", `package projections; import "time"; func f() { <-time.After(1) }`},
			{"policy/x.go", `package policy; import _ "math/rand/v2"`},
			{"events/x.go", `package events; import "github.com/oklog/ulid/v2"; var id = ulid.Make()`},
		},
		good: []sample{
			{"events/x.go", `package events; import "time"; func f(t int64) time.Time { return time.UnixMicro(t) }`},
			{"events/x_test.go", `package events; import "time"; var t = time.Now()`},
			{"policy/x.go", `package policy; import "time"; type facts struct{ Now time.Duration }; func f(f facts) { _ = f.Now }`},
			{"infra/clock/x.go", `package clock; import "time"; var t = time.Now()`},
		},
	},
	{
		name:    "handlers read no clock",
		because: "engine time is one clock with rules of its own; a handler is given it at construction",
		check: func(f *source) []finding {
			if !f.under("handlers") || f.forTests() {
				return nil
			}
			return f.uses(clockReads)
		},
		bad: []sample{
			{"handlers/engine/x.go", `package engine; import "time"; func f() { _ = time.Now() }`},
			{"handlers/engine/x.go", `package engine; import "time"; var now = time.Now`},
			{"handlers/engine/x.go", `package engine; import "time"; func f(t time.Time) { _ = time.Until(t) }`},
		},
		good: []sample{
			{"handlers/engine/x.go", `package engine; import "time"; func f(now func() time.Time) { _ = now() }`},
		},
	},
	{
		name:    "nothing sleeps",
		because: "a sleep is a guess: wait for the event itself, or for a timer beside a context, in tests too",
		check: func(f *source) []finding {
			return f.uses(map[string][]string{"time": {"Sleep"}})
		},
		bad: []sample{
			{"infra/x/x.go", `package x; import "time"; func f() { time.Sleep(1) }`},
			{"cmd/gatebook/x_test.go", `package main; import "time"; func f() { time.Sleep(1) }`},
		},
	},
	{
		name:    "no dot imports",
		because: "a reader, and these rules, must see where a name comes from",
		check: func(f *source) []finding {
			var found []finding
			for p, spec := range f.imports {
				if spec.Name != nil && spec.Name.Name == "." {
					found = append(found, f.at(spec, "imports %s with a dot", p))
				}
			}
			return found
		},
		bad: []sample{{"infra/x/x_test.go", `package x; import . "time"; func f() { Sleep(1) }`}},
	},
	{
		name:    "no init",
		because: "work at the start belongs to a constructor, where it has arguments, an error and a caller",
		check: func(f *source) []finding {
			var found []finding
			for _, d := range f.ast.Decls {
				if d, ok := d.(*ast.FuncDecl); ok && d.Recv == nil && d.Name.Name == "init" {
					found = append(found, f.at(d, "has an init function"))
				}
			}
			return found
		},
		bad:  []sample{{"infra/x/x.go", `package x; func init() {}`}},
		good: []sample{{"infra/x/x.go", `package x; type t int; func (t) init() {}`}},
	},
	{
		name:    "no state in a package",
		because: "what changes belongs to a value that somebody makes, owns and closes; variables of a package are constant tables, set once where they are declared",
		check:   packageState,
		bad: []sample{
			{"infra/x/x.go", `package x; var m = map[string]int{}; func f() { m["a"] = 1 }`},
			{"infra/x/x.go", `package x; var s []int; func f() { s = append(s, 1) }`},
			{"infra/x/x.go", `package x; var n int; func f() { n++ }`},
			{"infra/x/x.go", `package x; type t struct{ a int }; var p *t; func f() { p.a = 1 }`},
			{"infra/x/x.go", `package x; var m map[string]int; func f() { delete(m, "a") }`},
			{"infra/x/x.go", `package x; var n int; func f() { g(&n) }; func g(*int) {}`},
			{"infra/x/x.go", `package x; import "sync"; var mu sync.Mutex`},
			{"infra/x/x.go", `package x; import "sync/atomic"; var n atomic.Int64`},
			{"infra/x/x.go", `package x; var c = make(chan int)`},
			{"infra/x/x.go", `package x; import "os"; func f() { os.Args = nil }`},
			{"infra/x/x.go", `package x; var n int; func f() { for n = range 3 {} }`},
		},
		good: []sample{
			{"infra/x/x.go", `package x; var m = map[string]int{"a": 1}; func f() int { return m["a"] }`},
			{"infra/x/x.go", `package x; var m = map[string]int{}; func f() { m := map[string]int{}; m["a"] = 1; n := 0; n++ }`},
			{"infra/x/x.go", `package x; type t struct{ n int }; func (t *t) f() { t.n = 1 }`},
			{"infra/x/x_test.go", `package x; var n int; func f() { n++ }`},
		},
	},
	{
		name:    "no comparison of errors",
		because: "errors are wrapped: ask errors.Is or errors.As, never ==, a type assertion (but to walk Unwrap() []error), or the text",
		check:   comparedErrors,
		bad: []sample{
			{"infra/x/x.go", `package x; import "io"; func f(err error) bool { return err == io.EOF }`},
			{"infra/x/x.go", `package x; func f(e error) bool { return e != ErrGone }`},
			{"infra/x/x.go", `package x; var gone error; func f(a error) bool { return a == gone }`},
			{"infra/x/x.go", `package x; func f(err error) { switch err { case nil, ErrGone: } }`},
			{"infra/x/x.go", `package x; func f(err error) bool { _, ok := err.(*T); return ok }`},
			{"infra/x/x.go", `package x; func f(err error) { switch err.(type) { case *T: } }`},
			{"infra/x/x.go", `package x; func f(err error) { switch e := err.(type) { case *T: _ = e } }`},
			{"infra/x/x.go", `package x; func f(err error) bool { _, ok := err.(interface{ Timeout() bool }); return ok }`},
			{"infra/x/x.go", `package x; import "context"; func f(ctx context.Context) bool { return ctx.Err() == context.Canceled }`},
			{"infra/x/x.go", `package x; import "strings"; func f(err error) bool { return strings.Contains(err.Error(), "gone") }`},
			{"infra/x/x.go", `package x; import "strings"; func f(e error) bool { return strings.HasPrefix(strings.ToLower(e.Error()), "gone") }`},
			{"infra/x/x.go", `package x; func f(e error) bool { return e.Error() == "gone" }`},
			{"infra/x/x.go", `package x; import "regexp"; func f(r *regexp.Regexp, e error) bool { return r.MatchString(e.Error()) }`},
			{"infra/x/x_test.go", `package x; import "io"; func f(err error) bool { return err == io.EOF }`},
		},
		good: []sample{
			{"infra/x/x.go", `package x; func f(err error) bool { return err != nil && nil != err }`},
			{"infra/x/x.go", `package x; import ("errors"; "io"); func f(err error) bool { return errors.Is(err, io.EOF) }`},
			{"infra/x/x.go", `package x; func f(err error) { switch { case err == nil: } }`},
			{"infra/x/x.go", `package x; type r struct { Err string }; func f(r r) bool { return r.Err == "" }`},
			{"infra/x/x.go", `package x; func f(err error) { switch e := err.(type) { case *T: _ = e; case interface{ Unwrap() []error }: } }`},
			{"infra/x/x.go", `package x; func f(err error) { _, _ = err.(interface{ Unwrap() []error }) }`},
			{"infra/x/x.go", `package x; import "io"; type a struct{ Err io.Writer }; func (a *a) f() { _, _ = a.Err.(*t) }`},
			{"infra/x/x_test.go", `package x; import "strings"; func f(err error) bool { return strings.Contains(err.Error(), "line 3") }`},
		},
	},
	{
		name:    "no floats",
		because: "money, time and order must be exact and alike on every machine: integers in micro-units",
		check:   floats,
		bad: []sample{
			{"events/x.go", `package events; type t struct{ cost float64 }`},
			{"policy/x.go", `package policy; func f(n int) float32 { return float32(n) }`},
			{"projections/x.go", `package projections; var x = 0.5`},
		},
		good: []sample{{"infra/x/x.go", `package x; var f float64 = 0.5`}},
	},
}

// stateful are the types whose values exist to change.
var stateful = map[string][]string{
	"sync":        {"Mutex", "RWMutex", "Map", "Pool", "WaitGroup", "Once", "Cond"},
	"sync/atomic": {"Bool", "Int32", "Int64", "Uint32", "Uint64", "Uintptr", "Pointer", "Value"},
}

// packageState finds variables of a package that are changed after their
// declaration, could be (their address is taken), or exist to be.
func packageState(f *source) []finding {
	if f.test {
		return nil
	}
	var found []finding
	for _, d := range f.ast.Decls {
		if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.VAR {
			ast.Inspect(d, func(n ast.Node) bool {
				_, lit := n.(*ast.FuncLit)
				for from, all := range stateful {
					if name := f.selects(n, from); slices.Contains(all, name) {
						found = append(found, f.at(n, "keeps a %s.%s for the whole package", from, name))
					}
				}
				if _, ok := n.(*ast.ChanType); ok {
					found = append(found, f.at(n, "keeps a channel for the whole package"))
				}
				return !lit
			})
		}
	}
	changed := func(e ast.Expr) {
		if name := f.packageVar(e); name != "" {
			found = append(found, f.at(e, "changes %s, a variable of a package", name))
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				changed(e)
			}
		case *ast.IncDecStmt:
			changed(n.X)
		case *ast.RangeStmt:
			changed(n.Key)
			changed(n.Value)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				changed(n.X)
			}
		case *ast.CallExpr:
			if fun, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 0 && slices.Contains([]string{"delete", "clear", "copy"}, fun.Name) {
				changed(n.Args[0])
			}
		}
		return true
	})
	return found
}

// packageVar names the variable of a package that e is, or is a part of.
func (f *source) packageVar(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.ParenExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.SelectorExpr:
			if base, ok := x.X.(*ast.Ident); ok {
				if _, imported := f.info.Uses[base].(*types.PkgName); imported {
					return base.Name + "." + x.Sel.Name
				}
			}
			e = x.X
		case *ast.Ident:
			if v, ok := f.info.Uses[x].(*types.Var); ok && v.Parent() == f.pkg.Scope() {
				return x.Name
			}
			return ""
		default:
			return ""
		}
	}
}

// errorName is how errors are called in this code.
var errorName = regexp.MustCompile(`^(err|Err|EOF)$|^(err|Err)[A-Z]|[a-z]Err$|^(Canceled|DeadlineExceeded)$`)

// isError tells by type, or where that is not known by name, that e is an error.
func (f *source) isError(e ast.Expr) bool {
	if f.info != nil {
		if t := f.info.Types[e].Type; known(t) {
			return types.Identical(t, types.Universe.Lookup("error").Type())
		}
	}
	switch e := e.(type) {
	case *ast.ParenExpr:
		return f.isError(e.X)
	case *ast.CallExpr:
		sel, ok := e.Fun.(*ast.SelectorExpr)
		return ok && sel.Sel.Name == "Err" && len(e.Args) == 0
	case *ast.SelectorExpr:
		return e.Sel.Name != "Err" && errorName.MatchString(e.Sel.Name) // a field Err may be a writer
	case *ast.Ident:
		return errorName.MatchString(e.Name)
	}
	return false
}

// known says that t could be told from our own code alone.
func known(t types.Type) bool { return t != nil && t != types.Typ[types.Invalid] }

func isNil(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "nil"
}

// comparedErrors finds errors that are told apart in another way than with the
// functions of the package errors. Tests may look at the text: it is for people,
// and that is what such a test is about.
func comparedErrors(f *source) []finding {
	var found []finding
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op != token.EQL && n.Op != token.NEQ {
				break
			}
			if (f.isError(n.X) || f.isError(n.Y)) && !isNil(n.X) && !isNil(n.Y) {
				found = append(found, f.at(n, "compares an error with %s", n.Op))
			}
			if !f.test && (isText(n.X) || isText(n.Y)) {
				found = append(found, f.at(n, "compares the text of an error"))
			}
		case *ast.SwitchStmt:
			if n.Tag != nil && f.isError(n.Tag) {
				found = append(found, f.at(n, "compares an error in a switch"))
			}
		case *ast.TypeSwitchStmt:
			if e := switched(n); f.isError(e) && !slices.ContainsFunc(n.Body.List, unwraps) {
				found = append(found, f.at(n, "switches on the type of an error"))
			}
		case *ast.TypeAssertExpr:
			if n.Type != nil && f.isError(n.X) && !unwraps(n.Type) {
				found = append(found, f.at(n, "asserts the type of an error"))
			}
		case *ast.CallExpr:
			if !f.test && searches(n) && slices.ContainsFunc(n.Args, holdsText) {
				found = append(found, f.at(n, "searches the text of an error"))
			}
		}
		return true
	})
	return found
}

// switched is the value whose type s asks for.
func switched(s *ast.TypeSwitchStmt) ast.Expr {
	var e ast.Expr
	ast.Inspect(s.Assign, func(n ast.Node) bool {
		if a, ok := n.(*ast.TypeAssertExpr); ok && e == nil {
			e = a.X
		}
		return e == nil
	})
	return e
}

// unwraps says that n is, or is the case of, an interface with Unwrap: who walks
// the tree of a joined error has no other way.
func unwraps[N ast.Node](n N) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if t, ok := n.(*ast.InterfaceType); ok && len(t.Methods.List) == 1 && len(t.Methods.List[0].Names) == 1 {
			found = found || t.Methods.List[0].Names[0].Name == "Unwrap"
		}
		_, body := n.(ast.Stmt)
		_, clause := n.(*ast.CaseClause)
		return !found && (!body || clause)
	})
	return found
}

// isText says that e is x.Error().
func isText(e ast.Node) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) > 0 {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Error"
}

func holdsText(e ast.Expr) bool {
	held := false
	ast.Inspect(e, func(n ast.Node) bool {
		held = held || isText(n)
		return !held
	})
	return held
}

var searching = regexp.MustCompile(`^(Contains|Has(Prefix|Suffix)|EqualFold|(Last)?Index|Count|Cut|Compare|Match|Find|Equal)`)

// searches says that a call looks for something in a text.
func searches(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && searching.MatchString(sel.Sel.Name)
}

func floats(f *source) []finding {
	if !f.under(pureDirs...) || f.test {
		return nil
	}
	var found []finding
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if slices.Contains(strings.Fields("float32 float64 complex64 complex128"), n.Name) {
				found = append(found, f.at(n, "uses %s", n.Name))
			}
		case *ast.BasicLit:
			if n.Kind == token.FLOAT {
				found = append(found, f.at(n, "uses the float %s", n.Value))
			}
		}
		return true
	})
	return found
}

func TestSyntax(t *testing.T) { checkTree(t, syntaxRules) }

func TestSyntaxSeesABreach(t *testing.T) { checkSamples(t, syntaxRules, nil) }

func checkTree(t *testing.T, rules []rule) {
	tr := readTree(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, f := range tr.files {
				report(t, r.because, r.check(f))
			}
		})
	}
}

// checkSamples shows each rule its samples, beside the code in base that they
// import.
func checkSamples(t *testing.T, rules []rule, base map[string]string) {
	seen := func(t *testing.T, r rule, s sample) string {
		code := map[string]string{s.path: s.code}
		for p, c := range base {
			code[p] = c
		}
		for _, f := range mustTree(t, code).files {
			if f.path == s.path {
				return fmt.Sprint(r.check(f))
			}
		}
		return ""
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if len(r.bad) == 0 {
				t.Error("a rule without a sample that breaks it")
			}
			for _, s := range r.bad {
				if got := seen(t, r, s); got == "[]" {
					t.Errorf("not seen in %s: %s", s.path, s.code)
				}
			}
			for _, s := range r.good {
				if got := seen(t, r, s); got != "[]" {
					t.Errorf("reported without cause in %s: %s: %s", s.path, s.code, got)
				}
			}
		})
	}
}
