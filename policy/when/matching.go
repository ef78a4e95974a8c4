package when

import (
	"fmt"
	"regexp/syntax"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
)

const (
	// MaxProgram is how many instructions the program of a pattern may have.
	MaxProgram = 4096
	// MaxMatching bounds what patterns do on one call, in bytes of text times
	// instructions: at the worst, RE2 runs each instruction for each byte.
	MaxMatching = 32 << 20
)

// PatternSize is the number of instructions of a pattern's program: a short pattern
// can have a long one, (a{100}){10}. The error says what is wrong with the pattern.
func PatternSize(pattern string) (int, error) {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, fmt.Errorf("is not RE2: %w", err)
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return 0, fmt.Errorf("is not RE2: %w", err)
	}
	if n := len(program.Inst); n > MaxProgram {
		return 0, fmt.Errorf("compiles to %d instructions, more than %d: repeat fewer times", n, MaxProgram)
	}
	return len(program.Inst), nil
}

// MayMatch says whether patterns of this size in all may be looked for in this much
// text, both of one call.
func MayMatch(text, size int) bool { return int64(text)*int64(size) <= MaxMatching }

// patternsOf are the sizes of the patterns in an expression, by their text, and all of
// them together, each as often as it is there.
func patternsOf(a *ast.AST) (sizes map[string]int, all int) {
	sizes = map[string]int{}
	ast.PreOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != overloads.Matches {
			return
		}
		if text, ok := patternOf(e.AsCall()); ok {
			size, _ := PatternSize(text) // narrow has refused those with faults
			sizes[text] = size
			all += size
		}
	}))
	return sizes, all
}

// patternOf is the pattern of a call of matches, where it is written out.
func patternOf(call ast.CallExpr) (string, bool) {
	args := call.Args()
	if len(args) == 0 || args[len(args)-1].Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok := args[len(args)-1].AsLiteral().(types.String)
	return string(text), ok
}
