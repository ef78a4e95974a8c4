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

// ground is what a call would change, as it is.
type ground struct {
	base   events.Digest // of all of it; empty where unseen
	only   events.Digest // where there is one path, with a file: of its bytes; or [absent]
	text   string        // for people, a sentence for each path
	unseen bool          // there is more than is looked at
}

// add takes in what one name says, in words and as a digest.
func (g *ground) add(name, digest, text string) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%q %s", g.base, name, digest))
	g.base = events.Digest(hex.EncodeToString(sum[:]))
	g.text += text + "\n"
	if digest == "" {
		g.unseen = true
	}
}

// groundOf looks at each path with all that is below.
func groundOf(ctx context.Context, ws *workspace.Workspace, list []paths.Path) (ground, error) {
	var g ground
	for _, p := range list {
		tree, err := ws.Look(ctx, p)
		var refused *tools.Refused
		switch {
		case errors.Is(err, fs.ErrNotExist):
			g.add(p.String(), absent, "There is nothing at "+p.String()+".")
			g.only = absent
		case errors.As(err, &refused): // it stays refused
			g.add(p.String(), "refused", "At "+p.String()+" is what no tool touches: "+refused.Reason+".")
		case err != nil:
			return ground{}, err
		default:
			g.add(p.String(), tree.Type+string(tree.Digest), "At "+p.String()+" is "+inWords(tree)+".")
			if g.unseen = g.unseen || tree.Digest == ""; tree.Type == "file" {
				g.only = tree.Digest
			}
		}
	}
	if len(list) != 1 {
		g.only = ""
	}
	return g, nil
}

func inWords(t workspace.Tree) string {
	if t.Type == "file" {
		return "a file of " + count(t.Bytes, "byte")
	}
	text := fmt.Sprintf("a folder with %s and %s below it, %s in all", count(int64(t.Files), "file"), count(int64(t.Folders), "folder"), count(t.Bytes, "byte"))
	if t.Digest == "" {
		text = fmt.Sprintf("a folder with more below it than is looked at (%d names, %d bytes)", workspace.MaxCopyEntries, workspace.MaxCopyBytes)
	}
	if len(t.Names) > 0 {
		var names []string
		for _, name := range t.Names {
			names = append(names, events.Escape(name))
		}
		text += ": " + strings.Join(names, ", ")
	}
	return text
}

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// groundOf is what a call of the tool would change.
func (t *tool[A]) groundOf(ctx context.Context, ws *workspace.Workspace, c called[A]) (ground, error) {
	if t.ground != nil {
		return t.ground(ctx, ws, c.args)
	}
	return groundOf(ctx, ws, c.paths)
}

// fresh refuses a call whose ground is not what the person saw who approved it. What it
// gives is env for the run: its Base is then the digest of the one file that is to be
// replaced, or [absent], so that the last look is on the handle that the call writes.
func (t *tool[A]) fresh(ctx context.Context, ws *workspace.Workspace, env tools.Env, c called[A]) (tools.Env, error) {
	if env.Base == "" {
		return env, nil
	}
	now, err := t.groundOf(ctx, ws, c)
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
	now, err := t.groundOf(ctx, ws, mine)
	change := tools.Change{Base: now.base, Text: now.text, Unseen: now.unseen}
	if err == nil && t.preview != nil {
		var text string
		text, err = t.preview(ws, mine.args, env.Mask)
		change.Text += text
	}
	return change, errors.Join(err, ws.Close())
}

// rewritten is a unified diff, masked, from what is at path to next of it. It is empty
// where there is nothing, and a sentence where a diff would not help.
func rewritten(ws *workspace.Workspace, path paths.Path, mask func(string) string, next func(old string) (text, why string)) (string, error) {
	old, err := ws.Read(path, 0, workspace.MaxContent)
	var refused *tools.Refused
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.As(err, &refused): // which the ground says
		return "", nil
	case err != nil:
		return "", err
	case old.Size > int64(len(old.Data)):
		return "It is too large to show what would change in it.\n", nil
	case !utf8.Valid(old.Data):
		return "It is no UTF-8 text that a diff could show.\n", nil
	}
	text, why := next(string(old.Data))
	if why != "" {
		return "So it would fail: the file " + why + ".\n", nil
	}
	before, after := string(old.Data), text
	if mask != nil {
		before, after = mask(before), mask(after)
	}
	switch d := string(diff.Diff("now/"+path.String(), []byte(before), "then/"+path.String(), []byte(after))); {
	case d == "" && text != string(old.Data):
		return "Only masked text in it would change.\n", nil
	case d == "":
		return "Nothing in it would change.\n", nil
	case len(d) > maxDiff:
		return fmt.Sprintf("The diff has %d bytes, too many to show; what comes is in the arguments.\n", len(d)), nil
	default:
		return d, nil
	}
}

func previewWrite(ws *workspace.Workspace, a writeArgs, mask func(string) string) (string, error) {
	return rewritten(ws, a.path, mask, func(string) (string, string) { return a.content, "" })
}

func previewAppend(ws *workspace.Workspace, a writeArgs, mask func(string) string) (string, error) {
	return rewritten(ws, a.path, mask, func(old string) (string, string) { return old + a.content, "" })
}

func previewEdit(ws *workspace.Workspace, a editArgs, mask func(string) string) (string, error) {
	return rewritten(ws, a.path, mask, func(old string) (string, string) { return workspace.Replaced(old, a.old, a.text, a.all) })
}

// restoreGround is what a trash entry holds, and what stands where it would go.
func restoreGround(ctx context.Context, ws *workspace.Workspace, a restoreArgs) (ground, error) {
	tree, to, err := ws.LookTrash(ctx, a.id, a.to)
	if err != nil {
		return ground{}, err
	}
	g, err := groundOf(ctx, ws, []paths.Path{to})
	g.only = ""
	g.add(string(a.id), tree.Type+string(tree.Digest), "It brings back to "+to.String()+" "+inWords(tree)+".")
	g.unseen = g.unseen || tree.Digest == ""
	return g, err
}
