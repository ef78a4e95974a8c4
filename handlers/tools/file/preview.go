package file

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"gatebook/events"
	"gatebook/handlers/tools"
	"gatebook/handlers/tools/workspace"
	"gatebook/policy/paths"
)

// absent is the state of a path where nothing is.
const absent = "absent"

// maxDiff bounds a unified diff, in bytes. What a larger one would show is in the
// arguments.
const maxDiff = 128 << 10

// state is what stands at the paths of a call.
type state struct {
	base events.Digest // of all of it
	only events.Digest // where there is one path, with a file: of its bytes; or [absent]
	text string        // for people, a sentence for each path
}

// stateOf looks at each path: at the bytes of a file, at the names, sizes and times of
// what is in a folder, one level deep, at most [workspace.MaxEntries] of them.
func stateOf(ctx context.Context, ws *workspace.Workspace, list []paths.Path) (state, error) {
	all := sha256.New()
	var s state
	for _, p := range list {
		one, text, err := stateAt(ctx, ws, p)
		if err != nil {
			return state{}, err
		}
		fmt.Fprintf(all, "%q %s\n", p.String(), one)
		s.text += text + "\n"
		if len(list) == 1 && (one == absent || sha256Form(one)) {
			s.only = events.Digest(one)
		}
	}
	s.base = events.Digest(hex.EncodeToString(all.Sum(nil)))
	return s, nil
}

func sha256Form(s string) bool {
	_, err := events.ParseDigest(s)
	return err == nil
}

func stateAt(ctx context.Context, ws *workspace.Workspace, p paths.Path) (digest, text string, err error) {
	status, err := ws.Stat(ctx, p)
	var refused *tools.Refused
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return absent, "There is nothing at " + p.String() + ".", nil
	case errors.As(err, &refused): // it stays refused
		return refused.Rule, "At " + p.String() + " is what no tool touches: " + refused.Reason + ".", nil
	case err != nil:
		return "", "", err
	case status.SHA256 != "":
		return status.SHA256, fmt.Sprintf("At %s is a file of %d bytes.", p, status.Size), nil
	case status.Type == "file":
		return fmt.Sprint(status.Size, status.Modified), fmt.Sprintf("At %s is a file of %d bytes.", p, status.Size), nil
	}
	listing, err := ws.List(ctx, p, "")
	if err != nil {
		return "", "", err
	}
	sum := sha256.New()
	for _, e := range listing.Entries {
		fmt.Fprintf(sum, "%q %s %d %d\n", e.Name, e.Type, e.Size, e.Modified)
	}
	more := ""
	if listing.Next != "" {
		more = " and more"
	}
	return "folder " + hex.EncodeToString(sum.Sum(nil)), fmt.Sprintf("At %s is a folder of %d entries%s.", p, len(listing.Entries), more), nil
}

// fresh refuses a call whose ground is not what the person saw who approved it. What it
// gives is env for the run: its Base is then the digest of the one file that is to be
// replaced, or [absent], so that the last look is on the handle that the call writes.
func fresh(ctx context.Context, ws *workspace.Workspace, env tools.Env, list []paths.Path) (tools.Env, error) {
	if env.Base == "" {
		return env, nil
	}
	now, err := stateOf(ctx, ws, list)
	if err != nil {
		return env, err
	}
	if now.base != env.Base {
		return env, workspace.Stale()
	}
	env.Base = now.only
	return env, nil
}

// Preview implements [tools.Previewer].
func (t *tool[A]) Preview(ctx context.Context, env tools.Env, args tools.Args) (tools.Change, error) {
	mine, ok := args.(called[A])
	if !ok {
		return tools.Change{}, fmt.Errorf("%s: these are arguments of another tool", t.definition.Name)
	}
	ws, err := t.workspaces.Open(ctx, env.Agent)
	if err != nil {
		return tools.Change{}, err
	}
	now, err := stateOf(ctx, ws, mine.paths)
	change := tools.Change{Base: now.base, Text: now.text}
	if err == nil && t.preview != nil {
		var text string
		text, err = t.preview(ws, mine.args)
		change.Text += text
	}
	return change, errors.Join(err, ws.Close())
}

// rewritten is a unified diff from what is at path to next of it. It is empty where
// there is nothing yet, and a sentence where a diff would not help.
func rewritten(ws *workspace.Workspace, path paths.Path, next func(old string) (string, error)) (string, error) {
	old, err := ws.Read(path, 0, workspace.MaxContent)
	var refused *tools.Refused
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, &refused) { // which the state says
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if old.Size > int64(len(old.Data)) || !utf8.Valid(old.Data) {
		return "It is no UTF-8 text that a diff could show.\n", nil
	}
	text, err := next(string(old.Data))
	if err != nil {
		return err.Error() + "\n", nil
	}
	d := string(diff.Diff("now/"+path.String(), old.Data, "then/"+path.String(), []byte(text)))
	switch {
	case d == "":
		return "Nothing in it would change.\n", nil
	case len(d) > maxDiff:
		return fmt.Sprintf("The diff has %d bytes, too many to show; what comes is in the arguments.\n", len(d)), nil
	}
	return d, nil
}

func previewWrite(ws *workspace.Workspace, a writeArgs) (string, error) {
	return rewritten(ws, a.path, func(string) (string, error) { return a.content, nil })
}

func previewAppend(ws *workspace.Workspace, a writeArgs) (string, error) {
	return rewritten(ws, a.path, func(old string) (string, error) { return old + a.content, nil })
}

func previewEdit(ws *workspace.Workspace, a editArgs) (string, error) {
	return rewritten(ws, a.path, func(old string) (string, error) {
		if n := strings.Count(old, a.old); n == 0 || n > 1 && !a.all {
			return "", fmt.Errorf("the text that it would replace stands in it %d times, so it would fail", n)
		}
		return strings.ReplaceAll(old, a.old, a.text), nil
	})
}
