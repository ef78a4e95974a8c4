package policy

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/policy/when"
)

// ContentRule refuses calls, or lets them wait for a person, by what stands in their arguments: a text, or the name
// of a member, at any depth, in which Pattern (RE2) is found.
type ContentRule struct {
	Pattern string `json:"pattern"`
	// Tools and Scopes say which calls it looks at; without either, all.
	Tools  []string `json:"tools,omitzero"`
	Scopes []string `json:"scopes,omitzero"`
	// Verdict is deny or stage.
	Verdict events.Verdict `json:"verdict"`
	// Reason is what the agent hears; it must not repeat the pattern.
	Reason string `json:"reason,omitzero"`
}

// contentRule is a compiled ContentRule.
type contentRule struct {
	name, reason string
	form         *regexp.Regexp
	size         int     // of the pattern's program
	tools        toolSet // nil: all
	stages       bool    // lets wait for a person; else refuses
}

// compileContent gives the rules in the order of their names.
func (c *Catalog) compileContent() ([]contentRule, error) {
	var out []contentRule
	for _, name := range inOrder(c.Content) {
		r := c.Content[name]
		form, err := regexp.Compile(r.Pattern)
		if err != nil {
			return nil, err
		}
		size, err := when.PatternSize(r.Pattern)
		if err != nil {
			return nil, err
		}
		one := contentRule{name: name, reason: r.Reason, form: form, size: size, stages: r.Verdict == events.Stage}
		if len(r.Tools)+len(r.Scopes) > 0 {
			one.tools = setOf(r.Tools)
			for _, scope := range r.Scopes {
				one.tools.add(c.Scopes[scope].Tools)
			}
		}
		out = append(out, one)
	}
	return out, nil
}

func refuseBaseline(g *gate) *refused {
	if l, why := g.c.baseline.denial(g); l != nil {
		return deny(events.LayerBaseline, "deny", fmt.Sprintf("%sthe catalog denies %s to everybody", because(why), l))
	}
	return nil
}

func refusePrivate(g *gate) *refused {
	if g.c.catalog.Tools[g.tool].Private && g.facts.Round.Principal.Kind != events.PrincipalInternal {
		return deny(events.LayerBaseline, "private", g.name()+" is private: only a job's round (kind internal) may use it")
	}
	return nil
}

// refuseContent looks at the arguments as the tool will get them. What cannot be
// looked at is refused, too much text for a pattern as well: it is known before the
// work is done.
func refuseContent(g *gate) *refused {
	about := slices.DeleteFunc(slices.Clone(g.c.content), func(r contentRule) bool {
		return r.tools != nil && !r.tools[g.tool]
	})
	if len(about) == 0 {
		return nil
	}
	texts, ok := textsOf(g.req.Args)
	if !ok {
		return deny(events.LayerBaseline, "content", "the content rules could not look at the arguments, so the call is refused")
	}
	total := 0
	for _, t := range texts {
		total += len(t)
	}
	work := 0 // of all of them: many small patterns are a large one
	for _, r := range about {
		if work += r.size; !when.MayMatch(total, work) {
			return deny(events.LayerBaseline, "content", "there is too much text in the arguments for the content rules to look at within their bound, so the call is refused; send less in one call")
		}
		switch found := slices.ContainsFunc(texts, r.form.MatchString); {
		case found && !r.stages:
			return deny(events.LayerBaseline, "content "+r.name,
				cmp.Or(r.reason, "the content rule "+r.name+" refuses what stands in the arguments; leave it out"))
		case found && g.found == nil: // it waits where no layer refuses
			g.found = &staging{"content " + r.name, cmp.Or(r.reason, "a person must approve what stands in the arguments, by the content rule "+r.name)}
		}
	}
	return nil
}

// TextsOf are all names and texts in arguments, as far as they can be read.
func TextsOf(arguments jsontext.Value) []string {
	texts, _ := textsOf(arguments)
	return texts
}

// textsOf are all names and texts in a JSON value, and whether it could be read.
func textsOf(value jsontext.Value) ([]string, bool) {
	dec := jsontext.NewDecoder(bytes.NewReader(value))
	var texts []string
	for dec.PeekKind() != 0 {
		token, err := dec.ReadToken()
		if err != nil {
			return texts, false
		}
		if token.Kind() == '"' {
			texts = append(texts, token.String())
		}
	}
	return texts, len(value) > 0 && dec.StackDepth() == 0
}

// content compares content rules: one that is gone, or says something else,
// widens.
func (d *diff) content(a, b map[string]ContentRule) {
	for _, name := range union(a, b) {
		x, had := a[name]
		y, has := b[name]
		at := "content." + name
		switch {
		case !had:
			d.add(at, "added", false)
		case !has:
			d.add(at, "removed", true)
		default:
			d.value(at+".pattern", x.Pattern, y.Pattern)
			d.value(at+".verdict", string(x.Verdict), string(y.Verdict))
			if !slices.Equal(x.Tools, y.Tools) || !slices.Equal(x.Scopes, y.Scopes) {
				d.add(at, "is about other calls", true)
			}
			if x.Reason != y.Reason {
				d.add(at+".reason", "changed", false)
			}
		}
	}
}
