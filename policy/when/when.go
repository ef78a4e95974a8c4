package when

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"
)

const (
	// MaxSize is how long an expression may be, in bytes.
	MaxSize = 1 << 10
	// MaxCost is what one evaluation may cost: about so many steps, which are some
	// tens of milliseconds at the most.
	MaxCost = 100_000
)

// Why an expression gave neither true nor false. The message of the wrapping error
// can repeat what stands in the arguments.
var (
	ErrArguments = errors.New("the arguments are not known")
	ErrCost      = errors.New("the cost limit is exceeded")
	ErrEval      = errors.New("the evaluation failed")
	ErrNotBool   = errors.New("the result is neither true nor false")
	ErrPanic     = errors.New("the evaluation broke off")
)

// Vars are what an expression sees.
type Vars struct {
	Args                                     Arguments
	Tool, Agent, Role, Channel, Conversation string
	PrincipalID, PrincipalKind, Profile      string
	Step, Used                               int64
}

// variables are the names of [Vars], their types and where they are.
var variables = map[string]struct {
	kind *cel.Type
	of   func(*Vars) any
}{
	"args":           {cel.MapType(cel.StringType, cel.DynType), func(v *Vars) any { return v.Args.value }},
	"tool":           {cel.StringType, func(v *Vars) any { return v.Tool }},
	"agent":          {cel.StringType, func(v *Vars) any { return v.Agent }},
	"role":           {cel.StringType, func(v *Vars) any { return v.Role }},
	"channel":        {cel.StringType, func(v *Vars) any { return v.Channel }},
	"conversation":   {cel.StringType, func(v *Vars) any { return v.Conversation }},
	"principal.id":   {cel.StringType, func(v *Vars) any { return v.PrincipalID }},
	"principal.kind": {cel.StringType, func(v *Vars) any { return v.PrincipalKind }},
	"profile":        {cel.StringType, func(v *Vars) any { return v.Profile }},
	"step":           {cel.IntType, func(v *Vars) any { return v.Step }},
	"used":           {cel.IntType, func(v *Vars) any { return v.Used }},
}

// Variables are the names that an expression can use, in order. The caller owns the
// slice.
func Variables() []string { return slices.Sorted(maps.Keys(variables)) }

// ResolveName gives a variable to CEL.
func (v *Vars) ResolveName(name string) (any, bool) {
	one, ok := variables[name]
	if !ok {
		return nil, false
	}
	return one.of(v), true
}

// Parent is there for CEL: nothing is around.
func (v *Vars) Parent() interpreter.Activation { return nil }

// Program is a compiled expression. It never changes and is safe for concurrent use.
type Program struct {
	program  cel.Program
	reads    map[string]bool
	patterns int // the size of all of them
}

// language is made once: it is the same for all expressions.
var language = sync.OnceValues(newLanguage)

// Compile checks an expression and makes it ready to be asked. The error is for the
// person who wrote it: where it can be said, "line:column: " and what is wrong there.
func Compile(expr string) (p Program, err error) {
	defer func() {
		if recover() != nil {
			p, err = Program{}, fmt.Errorf("is not a CEL expression that can be compiled: %w", ErrPanic)
		}
	}()
	if expr == "" || len(expr) > MaxSize {
		return Program{}, fmt.Errorf("want a CEL expression of 1 to %d bytes", MaxSize)
	}
	env, err := language()
	if err != nil {
		return Program{}, fmt.Errorf("make the language: %w", err)
	}
	checked, issues := env.Compile(expr)
	if faults := issues.Errors(); len(faults) > 0 {
		return Program{}, faultAt(faults[0].Location, faults[0].Message)
	}
	if t := checked.OutputType(); !t.IsExactType(cel.BoolType) && t.Kind() != types.DynKind {
		return Program{}, fmt.Errorf("gives %s: want what is true or false", t)
	}
	native := checked.NativeRep()
	if err := narrow(native); err != nil {
		return Program{}, err
	}
	sizes, all := patternsOf(native)
	program, err := env.Program(checked, cel.EvalOptions(cel.OptOptimize), cel.CostTracking(prices{sizes}), cel.CostLimit(MaxCost))
	if err != nil {
		return Program{}, fmt.Errorf("is not a CEL expression that can be run: %w", err)
	}
	return Program{program, namesOf(native), all}, nil
}

func namesOf(a *ast.AST) map[string]bool {
	names := map[string]bool{}
	for _, r := range a.ReferenceMap() {
		names[r.Name] = true
	}
	return names
}

// Reads says whether the expression names a variable.
func (p Program) Reads(variable string) bool { return p.reads[variable] }

// Eval is what the expression gives. What is not known of a call, or goes wrong, is
// an error that wraps one of this package's.
func (p Program) Eval(vars *Vars) (bool, error) {
	switch {
	case vars.Args.value == nil:
		return false, ErrArguments
	case !MayMatch(vars.Args.text, p.patterns): // CEL counts a match after it is made
		return false, ErrCost
	}
	return p.eval(vars)
}

func (p Program) eval(vars interpreter.Activation) (is bool, err error) {
	defer func() {
		if recover() != nil {
			is, err = false, ErrPanic
		}
	}()
	out, _, err := p.program.Eval(vars)
	var stopped interpreter.EvalCancelledError
	var failed *types.Err
	switch {
	case errors.As(err, &stopped) && stopped.Cause == interpreter.CostLimitExceeded:
		return false, ErrCost
	case errors.As(err, &failed):
		return false, fmt.Errorf("%w: %w", ErrEval, err)
	case err != nil: // CEL itself recovered
		return false, fmt.Errorf("%w: %w", ErrPanic, err)
	}
	given, ok := out.(types.Bool)
	if !ok {
		return false, ErrNotBool
	}
	return bool(given), nil
}
