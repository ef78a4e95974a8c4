package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"path"
	"strings"

	"gatebook/events"
	"gatebook/policy/paths"
)

// Tree is what stands at a path, with all that is below.
type Tree struct {
	// Digest is of the bytes of a file; of a folder of all names, kinds and bytes below
	// it. It is empty where there is more than [MaxCopyEntries] or [MaxCopyBytes].
	Digest events.Digest
	Type   string // "file" or "dir"
	// Files and Folders below a folder, Bytes in all, and the first names in it.
	Files, Folders int
	Bytes          int64
	Names          []string
}

// maxTreeNames is how many names of a folder a [Tree] has.
const maxTreeNames = 20

// Look tells what stands at path. What no tool touches, a link say, is refused at path
// itself, and below it counts by its name and kind.
func (ws *Workspace) Look(ctx context.Context, path paths.Path) (Tree, error) {
	return look(ctx, path.String(), func(l *looker) error { return l.at(ws, path) })
}

// LookTrash tells what a trash entry holds, and where a restore to that path, or where
// to is nil to its original one, would bring it.
func (ws *Workspace) LookTrash(ctx context.Context, id events.CallID, to *paths.Path) (Tree, paths.Path, error) {
	e, _, err := ws.openEntry(id)
	if errors.Is(err, fs.ErrNotExist) {
		err = &Error{string(id), "there is no such trash entry", fs.ErrNotExist}
	}
	if err != nil {
		return Tree{}, paths.Path{}, fault(string(id), err)
	}
	defer e.close()
	target, err := e.target(to)
	if err != nil {
		return Tree{}, paths.Path{}, err
	}
	tree, err := look(ctx, string(id), func(l *looker) error { return l.one(e.folder, contentName) })
	return tree, target, err
}

func look(ctx context.Context, name string, at func(*looker) error) (Tree, error) {
	l := looker{ctx: ctx, sum: sha256.New()}
	err := at(&l)
	if errors.Is(err, errEnough) {
		l.Digest = ""
		return l.Tree, nil
	}
	if err != nil {
		return Tree{}, fault(name, err)
	}
	if l.Type == "dir" {
		l.Digest = events.Digest(hex.EncodeToString(l.sum.Sum(nil)))
	}
	return l.Tree, nil
}

// looker goes through one tree.
type looker struct {
	Tree
	ctx     context.Context // of the one call that it lives for
	sum     hash.Hash
	entries int
	whole   bool // it is the workspace itself, whose trash does not count
}

func (l *looker) at(ws *Workspace, p paths.Path) error {
	if p.String() == "." {
		l.Type, l.whole = "dir", true
		return l.folder(ws.root, "")
	}
	f, name, err := ws.parent(p, false)
	if err != nil {
		return err
	}
	defer f.Close()
	return l.one(f, name)
}

// one looks at what has a name, with all that is below.
func (l *looker) one(f folder, name string) (err error) {
	l.Type = "file"
	l.Digest, err = l.file(f, name)
	if !errors.Is(err, errFolder) {
		return err
	}
	next, err := f.enter(name, false)
	if err != nil {
		return err
	}
	defer next.Close()
	l.Type, l.Files = "dir", 0
	return l.folder(next, "")
}

// file gives the digest of a file's bytes.
func (l *looker) file(f folder, name string) (events.Digest, error) {
	file, info, err := f.openFile(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	l.Files++
	if l.Bytes += info.Size(); l.Bytes > MaxCopyBytes {
		return "", errEnough
	}
	one := sha256.New()
	if err := pour(l.ctx, one, file, info); err != nil {
		return "", err
	}
	return events.Digest(hex.EncodeToString(one.Sum(nil))), nil
}

func (l *looker) folder(f folder, below string) error {
	keep := func(name string) bool { return below != "" || !l.whole || name != trashName }
	names, err := f.names(l.ctx, MaxCopyEntries-l.entries+1, keep, strings.Compare)
	if err != nil {
		return err
	}
	if below == "" {
		l.Names = names[:min(len(names), maxTreeNames)]
	}
	for _, name := range names {
		if l.entries++; l.entries > MaxCopyEntries {
			return errEnough
		}
		if err := l.ctx.Err(); err != nil {
			return err
		}
		if err := l.entry(f, name, path.Join(below, name)); err != nil {
			return err
		}
	}
	return nil
}

// entry adds one name below a folder to the digest.
func (l *looker) entry(f folder, name, at string) error {
	digest, err := l.file(f, name)
	var no *refusal
	switch {
	case errors.Is(err, errFolder):
		next, err := f.enter(name, false)
		if err != nil {
			return err
		}
		defer next.Close()
		l.Folders++
		fmt.Fprintf(l.sum, "%q folder\n", at)
		return l.folder(next, at)
	case errors.As(err, &no), errors.Is(err, fs.ErrNotExist): // it stays what no tool touches, or has gone
		fmt.Fprintf(l.sum, "%q other\n", at)
		return nil
	case err != nil:
		return err
	}
	fmt.Fprintf(l.sum, "%q %s\n", at, digest)
	return nil
}
