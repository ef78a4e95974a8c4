package paths

import (
	"fmt"
	"regexp"
	"strings"
)

// Pattern says which workspace paths a rule is about, component by component:
// * is anything within one, ** alone any number of them, none too, and <slug> one
// or more of a-z, 0-9 and -. Everything else stands for itself.
type Pattern struct {
	text  string
	parts []part
}

// part is one component of a pattern.
type part struct {
	many    bool   // **
	literal string // where there is nothing to match
	plain   string // literal without format characters, as a path's component is then
	form    *regexp.Regexp
	folded  *regexp.Regexp // form without regard to case and format characters
}

// maxParts bounds a pattern, in components.
const maxParts = 32

const (
	anyParts = "**"
	anyText  = "*"
	slugText = "<slug>"
)

// ParsePattern reads a pattern. What a path may not have, a pattern may not.
func ParsePattern(text string) (Pattern, error) {
	plain := strings.NewReplacer(anyParts, "x", anyText, "x", slugText, "x").Replace(text)
	p, err := Parse(plain)
	switch {
	case strings.ContainsAny(plain, "<>"): // or a misspelt one would stand for itself, and match nothing
		return Pattern{}, fmt.Errorf("the pattern %s: the only name in angle brackets is %s", text, slugText)
	case err != nil:
		return Pattern{}, fmt.Errorf("the pattern %s names no path of a workspace: %w", text, err)
	case p.Leaves() || p.Reserved() || p.String() != plain:
		return Pattern{}, fmt.Errorf("the pattern %s is not a plain path: no . or .. steps, and not the trash folder", text)
	case text == ".":
		return Pattern{text: text}, nil
	}
	components := strings.Split(text, "/")
	if len(components) > maxParts {
		return Pattern{}, fmt.Errorf("the pattern %s has more than %d components", text, maxParts)
	}
	out := Pattern{text: text}
	for _, component := range components {
		switch {
		case component != anyParts:
			if strings.Contains(component, anyParts) {
				return Pattern{}, fmt.Errorf("the pattern %s: ** stands for whole components, alone between slashes", text)
			}
			out.parts = append(out.parts, parsePart(component))
		case len(out.parts) > 0 && out.parts[len(out.parts)-1].many:
			return Pattern{}, fmt.Errorf("the pattern %s: ** twice in a row is one ** too many", text)
		default:
			out.parts = append(out.parts, part{many: true})
		}
	}
	return out, nil
}

func parsePart(component string) part {
	if !strings.Contains(component, anyText) && !strings.Contains(component, slugText) {
		return part{literal: component, plain: plainName(component)}
	}
	form := strings.NewReplacer(`\*`, `.*`, slugText, `[a-z0-9-]+`).Replace(regexp.QuoteMeta(component))
	return part{form: regexp.MustCompile(`^(?s:` + form + `)$`), folded: regexp.MustCompile(`^(?is:` + plainName(form) + `)$`)}
}

func (p Pattern) String() string { return p.text }

// Matches says whether the path is one of the pattern's, by its exact bytes.
func (p Pattern) Matches(path Path) bool {
	return !path.Leaves() && p.walk(path, false)&p.end() != 0
}

// Refuses says whether a rule that denies the pattern has to deny the path, on a
// file system that may not tell case apart; with deep also where the path is a
// folder above one of the pattern's. A path that leaves the workspace may be any.
func (p Pattern) Refuses(path Path, deep bool) bool {
	states := p.walk(path, true)
	return path.Leaves() || states&p.end() != 0 || deep && states != 0
}

// end is the state in which every component has matched.
func (p Pattern) end() uint64 { return 1 << len(p.parts) }

// walk runs the path through the pattern. Bit i of the answer says that what came
// can be the first i components of the pattern's.
func (p Pattern) walk(path Path, fold bool) uint64 {
	states := p.skip(1)
	if path.String() == "." {
		return states
	}
	for component := range strings.SplitSeq(path.String(), "/") {
		var next uint64
		for i, part := range p.parts {
			switch {
			case states&(1<<i) == 0:
			case part.many:
				next |= 1 << i
			case part.matches(component, fold):
				next |= 1 << (i + 1)
			}
		}
		if states = p.skip(next); states == 0 {
			return 0
		}
	}
	return states
}

// skip lets every ** that is next stand for no component.
func (p Pattern) skip(states uint64) uint64 {
	for i, part := range p.parts {
		if part.many && states&(1<<i) != 0 {
			states |= 1 << (i + 1)
		}
	}
	return states
}

func (p part) matches(component string, fold bool) bool {
	if fold {
		component = plainName(component)
	}
	switch {
	case p.form == nil && fold:
		return strings.EqualFold(p.plain, component)
	case p.form == nil:
		return p.literal == component
	case fold:
		return p.folded.MatchString(component)
	}
	return p.form.MatchString(component)
}
