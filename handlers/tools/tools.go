// Package tools is the registry of what the engine can run, and the contract
// of a tool.
//
// Start with [Tool] and [Registry]. A tool decodes its arguments strictly and
// once ([Tool.Decode], before any decision, no IO), and runs outside the engine's
// loop after its decision is durable ([Tool.Run]).
//
// What the package promises: a tool never sees the raw request, its definition
// is pinned by the digest of its whole text, and an end that is neither a result
// nor a refusal is an error of the call, never of the engine.
package tools

import (
	"context"
	"fmt"
	"io/fs"
	"sort"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/policy/paths"
)

// Definition is what an agent is told about a tool.
type Definition struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Schema      jsontext.Value `json:"inputSchema"` // JSON Schema of the arguments
}

// Digest pins the whole definition.
func (d Definition) Digest() (events.Digest, error) {
	raw, err := json.Marshal(d)
	if err != nil {
		return "", fmt.Errorf("tool %s: %w", d.Name, err)
	}
	return events.DigestOf(raw), nil
}

// Args are decoded arguments; only their own tool knows the type.
type Args any

// Decoded is what a strict decode gives.
type Decoded struct {
	Args  Args
	Paths []paths.Path // workspace paths among the arguments
}

// Env is what a run gets beside its arguments.
type Env struct {
	Agent events.AgentID
	Call  events.CallID
	Round events.RoundID
	Cause events.EventID // of the decision, for what follows from the call
	// Now is engine time, for names that carry it.
	Now events.Instant
	// May says whether the call would have been allowed with one more path, that was
	// not among its arguments. The error is a *[Refused]. It is there for the tools that
	// policy knows to find one, and nil for all others.
	May func(paths.Path) error
	// CreateOnly says that the call may make something new and MUST replace nothing:
	// a tool that policy knows to promise that refuses where there is something.
	CreateOnly bool
	// Base, where not empty, is the state that a person approved the change of: a
	// [Previewer] MUST refuse (rule "stale") where it finds another.
	Base events.Digest
	// Mask masks the secrets in a text that a preview shows; nil for none.
	Mask func(string) string
}

// Previewer is a tool that can say what a call would change. Safe for concurrent use.
type Previewer interface {
	// Preview touches nothing. Its error is text for people.
	Preview(ctx context.Context, env Env, args Args) (Change, error)
}

// Change is what a call would change, for the person who decides about it.
type Change struct {
	// Base stands for the state as it is; the same state has the same digest.
	Base events.Digest
	Text string // a unified diff, or a sentence
	// Unseen says that not all of it could be looked at, so that nobody may approve it.
	Unseen bool
}

// Tool is one named operation. Its methods are safe for concurrent use.
type Tool interface {
	Definition() Definition
	// Decode reads canonical JSON strictly. Its only error is *policy.Malformed
	// and it touches nothing.
	Decode(arguments jsontext.Value) (Decoded, error)
	// Run does the work. It MUST end soon after ctx does. A *[Refused] says that
	// the tool found, on an opened handle, what it may not touch; any other error
	// is the call's error, whose text must be fit for the agent: no host path, no
	// secret.
	Run(ctx context.Context, env Env, args Args) (jsontext.Value, error)
}

// Refused is a refusal found while running: call.completed "denied", layer "tool".
type Refused struct {
	Rule   string // "link", "hard_link", "special_file", …
	Reason string
}

func (r *Refused) Error() string { return r.Rule + ": " + r.Reason }

// Registry holds the tools by name.
type Registry struct {
	tools map[string]Entry
}

// Entry is a tool with the digest that pins it.
type Entry struct {
	Tool
	Digest events.Digest
}

// Tier is what a tool that is not in the closed list of built-ins says of itself
// ("" for nothing, which counts as privileged).
func (e Entry) Tier() events.Tier {
	if t, ok := e.Tool.(interface{ Tier() events.Tier }); ok {
		return t.Tier()
	}
	return ""
}

// NewRegistry refuses two tools of one name.
func NewRegistry(all ...Tool) (*Registry, error) {
	r := &Registry{tools: map[string]Entry{}}
	for _, t := range all {
		name := t.Definition().Name
		if _, double := r.tools[name]; double {
			return nil, fmt.Errorf("tool %s: %w", name, fs.ErrExist)
		}
		digest, err := t.Definition().Digest()
		if err != nil {
			return nil, err
		}
		r.tools[name] = Entry{Tool: t, Digest: digest}
	}
	return r, nil
}

// Lookup finds a tool by its exact name.
func (r *Registry) Lookup(name string) (Entry, bool) {
	e, ok := r.tools[name]
	return e, ok
}

// Names lists the tools in order.
func (r *Registry) Names() []string {
	names := make([]string, 0, len(r.tools))
	for n := range r.tools {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}
