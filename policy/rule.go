package policy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/policy/paths"
	"gatebook/policy/when"
)

// Rule is a set of calls: those of one tool, or of the tools of one scope, that
// are within all of its limits. What grants takes it exactly; what denies takes it
// as wide as it can be read.
type Rule struct {
	Tool  string `json:"tool,omitzero"`
	Scope string `json:"scope,omitzero"`
	// Paths are patterns ([paths.ParsePattern]) of the workspace paths of a call: all of
	// them where the rule grants, any of them where it denies.
	Paths []string `json:"paths,omitzero"`
	// Exact is the whole of the arguments, one JSON object.
	Exact jsontext.Value `json:"exact,omitzero"`
	// CreateOnly lets a call make a new file and never replace one. Only a grant
	// has it, of a tool that can promise it.
	CreateOnly bool `json:"create_only,omitzero"`
	// MaxPerRound is how many calls of the tool a round may have; 0: no bound. Only
	// a grant has it. Calls that the tool refused do not count.
	MaxPerRound int `json:"max_per_round,omitzero"`
	// When is a CEL expression ([when.Compile]) that is true of a call. An error, or
	// arguments that are not known, is no where the rule grants and yes where it
	// denies.
	When string `json:"when,omitzero"`
}

// limits are the limits for people; empty where there are none.
func (r Rule) limits() string {
	var out []string
	if len(r.Paths) > 0 {
		out = append(out, "paths "+strings.Join(r.Paths, " "))
	}
	if len(r.Exact) > 0 {
		out = append(out, "exactly "+string(r.Exact))
	}
	if r.CreateOnly {
		out = append(out, "new files only")
	}
	if r.MaxPerRound > 0 {
		out = append(out, fmt.Sprintf("at most %d in a round", r.MaxPerRound))
	}
	if r.When != "" {
		out = append(out, "when "+events.Escape(r.When))
	}
	return strings.Join(out, ", ")
}

// String is the rule for people: "tool file.write (paths docs/**)".
func (r Rule) String() string {
	out := "tool " + r.Tool
	if r.Tool == "" {
		out = "scope " + r.Scope
	}
	if limits := r.limits(); limits != "" {
		out += " (" + limits + ")"
	}
	return out
}

// compareRules orders rules; 0 means that they say the same.
func compareRules(a, b Rule) int {
	return cmp.Or(
		cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Scope, b.Scope), slices.Compare(a.Paths, b.Paths), bytes.Compare(a.Exact, b.Exact),
		cmp.Compare(a.MaxPerRound, b.MaxPerRound), compareFlags(a.CreateOnly, b.CreateOnly),
		cmp.Compare(a.When, b.When))
}

func compareFlags(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// within says that every call of r's limits is within those of other. Of two
// expressions only that is known when they are the same text.
func (r Rule) within(other Rule) bool {
	return (len(other.Paths) == 0 || len(r.Paths) > 0 && subset(r.Paths, other.Paths)) &&
		(len(other.Exact) == 0 || bytes.Equal(r.Exact, other.Exact)) &&
		(r.CreateOnly || !other.CreateOnly) &&
		(other.When == "" || r.When == other.When) &&
		(other.MaxPerRound == 0 || r.MaxPerRound > 0 && r.MaxPerRound <= other.MaxPerRound)
}

func subset(a, b []string) bool {
	return !slices.ContainsFunc(a, func(s string) bool { return !slices.Contains(b, s) })
}

// limit is a compiled Rule.
type limit struct {
	Rule
	patterns []paths.Pattern
	when     *when.Program // nil: always
}

func (c *Compiled) compileRule(r Rule) (limit, error) {
	l := limit{Rule: r}
	for _, text := range r.Paths {
		p, err := paths.ParsePattern(text)
		if err != nil {
			return l, err
		}
		l.patterns = append(l.patterns, p)
	}
	if r.When == "" {
		return l, nil
	}
	p, known := c.programs[r.When]
	if !known {
		return l, fmt.Errorf("the expression %s was not compiled", events.Quote(r.When))
	}
	l.when = &p
	return l, nil
}

// outside says that a call is not within a rule: by which limit and, where that
// does not say it already, why.
type outside struct{ limit, why string }

// exceeded names the limit that the call is not within; it is empty where the call is
// within all. A limit on what is not known of the call is exceeded.
func (l *limit) exceeded(g *gate) outside {
	if name := l.beyond(g); name != "" {
		return outside{limit: name}
	}
	if l.when == nil {
		return outside{}
	}
	if g.above && (l.when.Reads("used") || l.when.Reads("step")) {
		return outside{"when", "it counts in the round of the agent above, and not over those that it causes"}
	}
	if is, err := l.when.Eval(g.vars()); err != nil {
		return outside{"when", whyNot(err)}
	} else if !is {
		return outside{limit: "when"}
	}
	return outside{}
}

// beyond is the limit that needs no expression.
func (l *limit) beyond(g *gate) string {
	switch {
	case len(l.Exact) > 0 && !bytes.Equal(l.Exact, g.req.Args):
		return "exact"
	case len(l.patterns) > 0 && !l.allPaths(g.req.Paths):
		return "paths"
	case l.MaxPerRound > 0 && (g.above || g.facts.Round.Used >= int64(l.MaxPerRound)): // it counts in one round only
		return "max_per_round"
	}
	return ""
}

func (l *limit) allPaths(list []paths.Path) bool {
	outside := func(p paths.Path) bool {
		return !slices.ContainsFunc(l.patterns, func(pattern paths.Pattern) bool { return pattern.Matches(p) })
	}
	return len(list) > 0 && !slices.ContainsFunc(list, outside)
}

// denies says whether a rule that denies is about the call, and why where that is
// not known. One that names paths or arguments is also about a call of which they are
// not known, but for a path that the tool finds and asks about; one with an expression
// is also about a call of which that gives no answer.
func (l *limit) denies(g *gate) (is bool, why string) {
	if len(l.Exact) > 0 && len(g.req.Args) > 0 && !bytes.Equal(l.Exact, g.req.Args) {
		return false, ""
	}
	if len(l.patterns) > 0 && (len(g.req.Paths) > 0 || g.finds) && !slices.ContainsFunc(g.req.Paths, func(p paths.Path) bool {
		return slices.ContainsFunc(l.patterns, func(pattern paths.Pattern) bool { return pattern.Refuses(p, g.deep) })
	}) {
		return false, ""
	}
	if l.when == nil {
		return true, ""
	}
	is, err := l.when.Eval(g.vars())
	if err != nil {
		return true, whyNot(err)
	}
	return is, ""
}

// vars are the call as the expressions of rules see it. They are made once for a
// call, and only where one asks; arguments that cannot be read are not known.
func (g *gate) vars() *when.Vars {
	if g.seen != nil {
		return g.seen
	}
	args, err := when.ParseArguments(g.req.Args)
	if err != nil {
		args = when.Arguments{}
	}
	round := g.facts.Round
	g.seen = &when.Vars{
		Args: args, Tool: g.tool, Agent: string(g.req.Agent), Role: g.agent.Role,
		Channel: string(round.Channel), Conversation: string(round.Conversation),
		PrincipalID: round.Principal.ID, PrincipalKind: string(round.Principal.Kind),
		Profile: g.profile, Step: round.Steps + 1, Used: round.Used,
	}
	return g.seen
}

// whyNot says why an expression gave no answer. It repeats nothing of the arguments,
// as the message of the error may.
func whyNot(err error) string {
	switch {
	case errors.Is(err, when.ErrArguments):
		return "the arguments could not be looked at"
	case errors.Is(err, when.ErrCost):
		return "to find out costs more than a rule may"
	case errors.Is(err, when.ErrNotBool):
		return "it gives neither true nor false of these arguments"
	case errors.Is(err, when.ErrEval):
		return "it cannot be told of these arguments; one is missing or of another type, or the arithmetic failed"
	}
	return "the evaluation broke off"
}

// because is why a condition gave no answer, to be put before what the rule says.
func because(why string) string {
	if why == "" {
		return ""
	}
	return "a condition (when) gave no answer, which counts as the narrower one: " + why + "; "
}

// rules are compiled rules by tool, each list in the order of their texts.
type rules map[string][]*limit

// compileRules sorts rules under the tools that they are about. Rules that have
// passed the checker compile.
func (c *Compiled) compileRules(list []Rule) (rules, error) {
	out := rules{}
	for _, r := range list {
		l, err := c.compileRule(r)
		if err != nil {
			return nil, err
		}
		for _, tool := range c.catalog.toolsOf(r) {
			out[tool] = append(out[tool], &l)
		}
	}
	return out, nil
}

func (c *Catalog) toolsOf(r Rule) []string {
	if r.Tool != "" {
		return []string{r.Tool}
	}
	return c.Scopes[r.Scope].Tools
}

// grant looks for a rule that covers the call. Where none does, no is the limit
// that the first one names; where no rule is about the tool, it is empty.
func (r rules) grant(g *gate) (by *limit, no outside) {
	for _, l := range r[g.tool] {
		exceeded := l.exceeded(g)
		if exceeded.limit == "" && (by == nil || by.CreateOnly) {
			by = l // one that asks for less is as good
		}
		if no.limit == "" {
			no = exceeded
		}
	}
	if by != nil {
		no = outside{}
	}
	return by, no
}

// denial gives the first rule that denies the call, and its why; nil where none does.
func (r rules) denial(g *gate) (*limit, string) {
	for _, l := range r[g.tool] {
		if is, why := l.denies(g); is {
			return l, why
		}
	}
	return nil, ""
}

// only says of a call that is beyond a limit what the rules allow of its tool.
func (r rules) only(g *gate, no outside) string {
	if no.limit == "" {
		return ""
	}
	return "; " + g.name() + " only so: " + r.forms(g.tool)
}

// forms are the limits that the rules name for a tool, for people.
func (r rules) forms(tool string) string {
	var out []string
	for _, l := range r[tool] {
		out = append(out, l.limits())
	}
	return strings.Join(out, "; or ")
}

// rights are what a profile or a policy says: calls that are allowed, without
// those that are denied.
type rights struct {
	allow rules // nil: whatever is not denied
	deny  rules
}

// compileRights compiles what allows and what denies; a nil allow allows all.
func (c *Compiled) compileRights(allow, deny []Rule) (r rights, err error) {
	if allow != nil {
		if r.allow, err = c.compileRules(allow); err != nil {
			return r, err
		}
	}
	r.deny, err = c.compileRules(deny)
	return r, err
}

// within says that r allows nothing that other does not.
func (r rights) within(other rights) bool {
	return (other.allow == nil || r.allow != nil && r.allow.within(other.allow)) && other.deny.within(r.deny)
}

// within says that each rule of r is within one of other's, for its tool.
func (r rules) within(other rules) bool {
	for tool, list := range r {
		for _, l := range list {
			if !slices.ContainsFunc(other[tool], func(o *limit) bool { return l.Rule.within(o.Rule) }) {
				return false
			}
		}
	}
	return true
}

// String lists the tools that rules are about, for people.
func (r rules) String() string {
	const most = 12
	names := inOrder(r)
	switch {
	case len(names) == 0:
		return "nothing"
	case len(names) > most:
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}
