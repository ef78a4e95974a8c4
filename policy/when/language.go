package when

import (
	"errors"
	"fmt"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
)

// functions are all that there are. Those of times are not: they read the zones of the
// machine.
var functions = []string{
	operators.Conditional, operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.NotStrictlyFalse,
	operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
	operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo, operators.Negate,
	operators.Index, operators.In,
	overloads.Size, overloads.Contains, overloads.StartsWith, overloads.EndsWith, overloads.Matches,
	overloads.TypeConvertInt, overloads.TypeConvertDouble, overloads.TypeConvertString,
}

// newLanguage has no map and no filter: what they build could be built on again, and
// grow with each step.
func newLanguage() (*cel.Env, error) {
	subset := &env.LibrarySubset{IncludeMacros: []string{operators.Has, operators.All, operators.Exists, operators.ExistsOne}}
	for _, name := range functions {
		subset.IncludeFunctions = append(subset.IncludeFunctions, &env.Function{Name: name})
	}
	options := []cel.EnvOption{cel.StdLib(cel.StdLibSubset(subset))}
	for _, name := range Variables() {
		options = append(options, cel.Variable(name, variables[name].kind))
	}
	return cel.NewCustomEnv(options...)
}

func faultAt(at common.Location, what string) error {
	if at == nil || at.Line() < 1 {
		return errors.New(what)
	}
	return fmt.Errorf("%d:%d: %s", at.Line(), at.Column()+1, what)
}

// narrow finds what CEL has and this language has not.
func narrow(a *ast.AST) error {
	var fault error
	ast.PreOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if what := beyond(e); what != "" && fault == nil {
			fault = faultAt(a.SourceInfo().GetStartLocation(e.ID()), what)
		}
	}))
	return fault
}

// beyond says what is wrong with one part of an expression; "" for nothing.
func beyond(e ast.Expr) string {
	switch e.Kind() {
	case ast.MapKind, ast.StructKind:
		return "a map or a message cannot be written out here"
	case ast.ListKind:
		if slices.ContainsFunc(e.AsList().Elements(), func(e ast.Expr) bool { return e.Kind() != ast.LiteralKind }) {
			return "a list that is written out holds plain values only"
		}
	case ast.CallKind:
		if call := e.AsCall(); call.FunctionName() == overloads.Matches {
			return badPattern(call)
		}
	}
	return ""
}

// badPattern wants the pattern in the expression, so that it is checked here, and no
// agent brings one.
func badPattern(call ast.CallExpr) string {
	text, ok := patternOf(call)
	if !ok {
		return "the pattern of matches is written out as text"
	}
	if _, err := PatternSize(text); err != nil {
		return err.Error()
	}
	return ""
}
