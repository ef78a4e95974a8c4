// Package propose holds asset.propose, the tool by which an agent proposes something that
// people may then approve: a skill, a server's definition, a policy.
//
// Start with [New]. A call writes the content and a document about it into a git
// repository, as one commit on a branch of its own, looks whether the commit holds exactly
// that, and asks the engine's loop to put it on record, blocked.
//
// What the package promises: nothing that it writes is run or loaded by it; a name is
// refused before anything is decided where git or any system could take it for something
// else; nothing is put on record that the repository does not hold; what looks like a
// secret goes nowhere.
//
// Where the engine is ended between the commit and the record, the call has no known
// outcome, and the branch, which has the call's name, stays for people to see.
package propose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/strictjson"
	"gatebook/handlers/tools"
	"gatebook/policy"
	"gatebook/policy/asset"
	"gatebook/policy/proposal"
	"gatebook/projections"
)

// Config is what the tool needs. All is required.
type Config struct {
	Loop interface {
		Submit(context.Context, engine.Command) error
	}
	Store interface{ Snapshot() projections.Snapshot }
	// Settings are those in force.
	Settings func() proposal.Settings
	// Write makes the commit and gives its whole id. An error that wraps [ErrConflict] is
	// told to the agent as such; of any other the agent hears that there is one.
	Write func(ctx context.Context, repository string, c Commit) (id string, err error)
	// Read reads a file out of a commit.
	Read func(ctx context.Context, repository, commit, path string) ([]byte, error)
	// BadPath says why a repository takes no file of this name; nil where it does.
	BadPath func(name string) error
	Mask    func(string) (masked string, changed bool)
	Log     func(level, text string)
}

// ErrConflict is for a path that something else in the repository stands in the way of.
var ErrConflict = errors.New("something else in the repository has that name")

// Commit is what a repository gets.
type Commit struct {
	Branch, Message string
	Author          events.AgentID
	When            events.Instant
	Files           [2]File // the content and its document
}

// File is one file of a [Commit].
type File struct{ Path, Content string }

// New gives the tool.
func New(cfg Config) tools.Tool { return &tool{cfg} }

type tool struct{ cfg Config }

type arguments struct {
	Kind    events.AssetType `json:"kind"`
	Name    string           `json:"name"`
	Content string           `json:"content"`
	Text    string           `json:"document"`
}

// Definition implements [tools.Tool].
func (*tool) Definition() tools.Definition {
	return tools.Definition{
		Name:        policy.ToolAssetPropose,
		Description: "Proposes something that you made, for people to decide about: it is kept as a commit on a branch of its own and is blocked until one of them approves it. Say in the document what it does, why it is needed, and what could go wrong. Nothing runs or loads it now.",
		Schema: jsontext.Value(fmt.Sprintf(`{"type":"object","properties":{`+
			`"kind":{"type":"string","description":"What it is: one of the kinds that the catalog takes."},`+
			`"name":{"type":"string","maxLength":%d,"description":"Its file name; slashes part folders."},`+
			`"content":{"type":"string","maxLength":%d,"description":"The whole of it."},`+
			`"document":{"type":"string","maxLength":%d,"description":"What people should know who decide."}},`+
			`"required":["kind","name","content","document"],"additionalProperties":false}`, proposal.MaxName, proposal.MaxContent, proposal.MaxText)),
	}
}

// Decode implements [tools.Tool].
func (t *tool) Decode(raw jsontext.Value) (tools.Decoded, error) {
	var a arguments
	if bad := strictjson.Decode(raw, &a); bad != nil {
		return tools.Decoded{}, bad
	}
	for _, f := range []struct {
		name, text string
		most       int
	}{{"kind", string(a.Kind), events.MaxName}, {"name", a.Name, proposal.MaxName}, {"content", a.Content, proposal.MaxContent}, {"document", a.Text, proposal.MaxText}} {
		if why := t.badText(f.text, f.most); why != "" {
			return tools.Decoded{}, &policy.Malformed{Field: f.name, Reason: why}
		}
	}
	if why := proposal.BadName(a.Name); why != "" {
		return tools.Decoded{}, &policy.Malformed{Field: "name", Reason: why}
	}
	if err := t.cfg.BadPath(a.Name); err != nil {
		return tools.Decoded{}, &policy.Malformed{Field: "name", Reason: err.Error()}
	}
	return tools.Decoded{Args: a}, nil
}

func (t *tool) badText(text string, most int) string {
	switch {
	case strings.TrimSpace(text) == "":
		return "is missing"
	case len(text) > most:
		return fmt.Sprintf("has %d bytes, at most %d", len(text), most)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return "is no text"
	}
	if _, secret := t.cfg.Mask(text); secret {
		return "holds what looks like a secret, which must not be kept; leave it out"
	}
	return ""
}

// result is what the agent gets.
type result struct {
	Asset    events.AssetID    `json:"asset"`
	Kind     events.AssetType  `json:"kind"`
	Name     string            `json:"name"`
	Version  events.Digest     `json:"version"`
	State    events.AssetState `json:"state"`
	Branch   string            `json:"branch"`
	Commit   string            `json:"commit"`
	Path     string            `json:"path"`
	Document string            `json:"document"`
}

// Run implements [tools.Tool].
func (t *tool) Run(ctx context.Context, env tools.Env, args tools.Args) (jsontext.Value, error) {
	a, ok := args.(arguments)
	if !ok {
		return nil, fmt.Errorf("%s: these are arguments of another tool", policy.ToolAssetPropose)
	}
	s := t.cfg.Settings()
	switch {
	case !s.On():
		return nil, &tools.Refused{Rule: "off", Reason: "proposals are off now"}
	case !slices.Contains(s.Names(), string(a.Kind)):
		return nil, &tools.Refused{Rule: "kind", Reason: "nothing of this kind can be proposed; the kinds are " + strings.Join(s.Names(), ", ")}
	}
	p := proposal.Proposal{Kind: a.Kind, Agent: env.Agent, Name: a.Name, Content: a.Content, Text: a.Text, Call: env.Call, Round: env.Round, Time: env.Now}
	if err := t.proposed(p); err != nil {
		return nil, err
	}
	document := p.Document(s)
	commit, err := t.write(ctx, s, p, document)
	if err != nil {
		return nil, err
	}
	id, err := t.register(ctx, &engine.ProposeAsset{Proposal: p, Commit: commit, Document: document, Cause: env.Cause})
	if err != nil {
		return nil, err
	}
	return json.Marshal(result{
		Asset: id, Kind: p.Kind, Name: p.Name, Version: p.Version(), State: events.AssetStateBlocked,
		Branch: p.Branch(), Commit: commit, Path: p.Path(s), Document: p.DocumentPath(s),
	})
}

// proposed refuses what is on record, before it becomes a commit.
func (t *tool) proposed(p proposal.Proposal) error {
	snap := t.cfg.Store.Snapshot()
	defer snap.Close()
	row, found, err := projections.AssetByVersion(snap, p.Kind, string(p.Agent), p.Name, p.Version())
	if err != nil {
		t.cfg.Log("warn", "asset.propose: "+err.Error())
		return errors.New("the views cannot be read")
	}
	if !found {
		return nil
	}
	return refused(policy.Proposed(asset.Facts{Asset: row.Asset, State: row.State}))
}

func refused(no *policy.Refusal) error {
	return &tools.Refused{Rule: string(no.Code), Reason: no.Reason}
}

// write commits the proposal, and reads it back.
func (t *tool) write(ctx context.Context, s proposal.Settings, p proposal.Proposal, document string) (string, error) {
	c := Commit{
		Branch: p.Branch(), Message: p.Message(), Author: p.Agent, When: p.Time,
		Files: [2]File{{p.Path(s), p.Content}, {p.DocumentPath(s), document}},
	}
	id, err := t.cfg.Write(ctx, s.Repository, c)
	if errors.Is(err, ErrConflict) {
		return "", &tools.Refused{Rule: "conflict", Reason: ErrConflict.Error() + ", or one that some systems take for it; choose another name"}
	}
	for _, f := range c.Files {
		if err != nil {
			break
		}
		var got []byte
		if got, err = t.cfg.Read(ctx, s.Repository, id, f.Path); err == nil && string(got) != f.Content {
			err = fmt.Errorf("commit %s holds something else as %s than was written", id, events.Quote(f.Path))
		}
	}
	if err != nil {
		t.cfg.Log("warn", "asset.propose: "+err.Error())
		if ctx.Err() != nil {
			return "", fmt.Errorf("the repository took too long: %w", ctx.Err())
		}
		return "", errors.New("the repository cannot be written, and nothing is on record; the people who run the engine see why in its log")
	}
	return id, nil
}

// register puts it on record.
func (t *tool) register(ctx context.Context, command *engine.ProposeAsset) (events.AssetID, error) {
	answer := make(chan any, 1)
	command.Answer = func(v any) { answer <- v }
	if err := t.cfg.Loop.Submit(ctx, command); err != nil {
		return "", fmt.Errorf("it is committed on branch %s and not on record: %w", command.Proposal.Branch(), err)
	}
	switch got := (<-answer).(type) { // it is decided, whatever becomes of the call
	case engine.AssetAnswer:
		return got.Asset, nil
	case engine.Refused:
		return "", &tools.Refused{Rule: got.Error.Code, Reason: got.Error.Reason}
	default:
		return "", fmt.Errorf("the engine answered with a %T", got)
	}
}
