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
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/policy/paths"
)

// Definition is what an agent is told about a tool.
type Definition struct {
	Name        string         `json:"name"`
	Title       string         `json:"title,omitzero"`
	Description string         `json:"description"`
	Schema      jsontext.Value `json:"inputSchema"` // JSON Schema of the arguments
	Result      jsontext.Value `json:"outputSchema,omitzero"`
	// Annotations are what the tool says of itself beside.
	Annotations jsontext.Value `json:"annotations,omitzero"`
}

// Canonical is the whole definition in RFC 8785 form: the order of keys says nothing,
// everything else does.
func (d Definition) Canonical() ([]byte, error) {
	raw, err := json.Marshal(d)
	value := jsontext.Value(raw)
	if err == nil {
		err = value.Canonicalize()
	}
	if err != nil {
		return nil, fmt.Errorf("tool %s: %w", events.Quote(d.Name), err)
	}
	return value, nil
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

// ErrUnknown is for a tool that ended, and nobody can say whether it did what it was asked
// for: call.completed "unknown".
var ErrUnknown = errors.New("what the tool did is not known")

// Refused is a refusal found while running: call.completed "denied", layer "tool".
type Refused struct {
	Rule   string // "link", "hard_link", "special_file", …
	Reason string
}

func (r *Refused) Error() string { return r.Rule + ": " + r.Reason }

// Registry holds the tools by name: those of the program, and those that owners outside
// of it offer now. Safe for concurrent use.
type Registry struct {
	mu  sync.Mutex // of whoever changes it
	all atomic.Pointer[map[string]Entry]
	own map[string]bool // owners of the program's tools
}

// Entry is a tool with its key, its whole definition, and the digest that pins it.
type Entry struct {
	Tool
	Key      events.ToolKey
	Digest   events.Digest
	Document []byte // the definition, canonical; not to be changed
}

// Tier is what a tool that is not in the closed list of built-ins says of itself
// ("" for nothing, which counts as privileged).
func (e Entry) Tier() events.Tier {
	if t, ok := e.Tool.(interface{ Tier() events.Tier }); ok {
		return t.Tier()
	}
	return ""
}

// KeyOf is the key of a tool: one that names no owner is the engine's own.
func KeyOf(t Tool) (events.ToolKey, error) {
	k := events.ToolKey{Owner: events.OwnerBuiltin, Name: t.Definition().Name}
	o, ok := t.(interface{ Owner() string })
	if ok {
		k.Owner = o.Owner()
	}
	switch {
	case !ok && strings.Contains(k.Name, "/"):
		return k, fmt.Errorf("tool %s: a slash parts the owner from the name: %w", events.Quote(k.Name), fs.ErrInvalid)
	case ok && (k.Owner == "" || k.Owner == events.OwnerBuiltin || strings.Contains(k.Owner, "/")):
		return k, fmt.Errorf("tool %s: owner %s: %w", events.Quote(k.Name), events.Quote(k.Owner), fs.ErrInvalid)
	}
	return k, nil
}

// NewRegistry makes the registry of a program's tools. It refuses two of one name.
func NewRegistry(all ...Tool) (*Registry, error) {
	r := &Registry{own: map[string]bool{events.OwnerBuiltin: true}}
	entries := map[string]Entry{}
	if err := enter(entries, all); err != nil {
		return nil, err
	}
	for _, e := range entries {
		r.own[e.Key.Owner] = true
	}
	r.all.Store(&entries)
	return r, nil
}

func enter(entries map[string]Entry, all []Tool) error {
	for _, t := range all {
		e, err := NewEntry(t)
		if err != nil {
			return err
		}
		if _, double := entries[e.Key.String()]; double {
			return fmt.Errorf("tool %s: %w", e.Key, fs.ErrExist)
		}
		entries[e.Key.String()] = e
	}
	return nil
}

// Offer takes the tools of an owner in the place of all that it offered before; none of
// them withdraws it. All of them or, with an error, none is taken: [fs.ErrExist] for the
// owner of tools of the program, and for two tools of one name; [fs.ErrInvalid] for a tool
// that is not the owner's.
func (r *Registry) Offer(owner string, all ...Tool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.own[owner] {
		return fmt.Errorf("owner %s: %w", events.Quote(owner), fs.ErrExist)
	}
	next := maps.Clone(*r.all.Load())
	maps.DeleteFunc(next, func(_ string, e Entry) bool { return e.Key.Owner == owner })
	for _, t := range all {
		if key, err := KeyOf(t); err != nil || key.Owner != owner {
			return fmt.Errorf("tool %s, offered by %s: %w", events.Quote(key.String()), events.Quote(owner), cmp.Or(err, fs.ErrInvalid))
		}
	}
	if err := enter(next, all); err != nil {
		return err
	}
	r.all.Store(&next)
	return nil
}

// NewEntry pins a tool by its definition.
func NewEntry(t Tool) (Entry, error) {
	key, err := KeyOf(t)
	if err != nil {
		return Entry{}, err
	}
	doc, err := t.Definition().Canonical()
	return Entry{Tool: t, Key: key, Digest: events.DigestOf(doc), Document: doc}, err
}

// Lookup finds a tool by its exact name ([events.ToolKey.String]).
func (r *Registry) Lookup(name string) (Entry, bool) {
	e, ok := (*r.all.Load())[name]
	return e, ok
}

// Names lists the tools in order.
func (r *Registry) Names() []string {
	return slices.Sorted(maps.Keys(*r.all.Load()))
}
