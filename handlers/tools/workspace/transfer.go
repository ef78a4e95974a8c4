package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"gatebook/policy/paths"
)

// Moved is what a move did.
type Moved struct {
	From string `json:"from"`
	To   string `json:"to"`
	Type string `json:"type"`
}

// Move gives a file or a whole folder another path. It is one rename between two
// handles: it is there under one of the two paths at any moment, links in a moved
// folder are moved as they are, and nothing is overwritten. Missing folders are made.
// A folder is moved no further down than what is below it can be.
func (ws *Workspace) Move(ctx context.Context, from, to paths.Path) (Moved, error) {
	f, name, info, err := ws.source(from, to)
	if err != nil {
		return Moved{}, err
	}
	defer f.Close()
	if err := f.checkFits(ctx, name, from, to); err != nil {
		return Moved{}, fault(to.String(), err)
	}
	g, newName, err := ws.parent(to, true)
	if err != nil {
		return Moved{}, fault(to.String(), err)
	}
	defer g.Close()
	f.step("checked")
	err = f.move(name, g, newName)
	switch {
	case errors.Is(err, fs.ErrExist):
		return Moved{}, taken(to)
	case errors.Is(err, syscall.EINVAL): // two spellings of one folder, on some systems
		return Moved{}, fault(to.String(), errInside)
	case err != nil:
		return Moved{}, fault(from.String(), err)
	}
	f.step("moved")
	// The new name first: a power cut between the two may leave both names, never none.
	return Moved{from.String(), to.String(), typeOf(info)}, fault(to.String(), errors.Join(g.sync(), f.sync()))
}

// source opens the folder that holds from, which can be moved or copied to to as far
// as is known before anything is made.
func (ws *Workspace) source(from, to paths.Path) (folder, string, fs.FileInfo, error) {
	for _, p := range []paths.Path{from, to} {
		if err := inside(p); err != nil {
			return folder{}, "", nil, fault(p.String(), err)
		}
	}
	f, name, err := ws.parent(from, false)
	if err != nil {
		return folder{}, "", nil, fault(from.String(), err)
	}
	info, err := f.Lstat(name)
	if err == nil {
		err = checkMovable(info)
	}
	if err != nil {
		f.Close()
		return folder{}, "", nil, fault(from.String(), err)
	}
	if paths.Within(from.String(), to.String()) {
		f.Close()
		return folder{}, "", nil, fault(to.String(), errInside)
	}
	return f, name, info, nil
}

// checkFits refuses to bring a folder down to where what is below it has more
// components than a path may have. Only what goes further down is looked through.
func (f folder) checkFits(ctx context.Context, name string, from, to paths.Path) error {
	depth := len(components(to))
	if depth <= len(components(from)) {
		return nil
	}
	err := f.checkHeight(ctx, name, paths.MaxComponents-depth)
	if errors.Is(err, errNotFolder) {
		return nil
	}
	return err
}

// checkHeight is errDeep where a folder has entries more than levels below it.
func (f folder) checkHeight(ctx context.Context, name string, levels int) error {
	next, err := f.enter(name, false)
	if err != nil {
		return err
	}
	defer next.Close()
	dir, err := next.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(MaxCopyEntries)
		for _, e := range entries {
			switch {
			case levels == 0:
				return errDeep
			case ctx.Err() != nil:
				return ctx.Err()
			case e.IsDir():
				if err := next.checkHeight(ctx, e.Name(), levels-1); err != nil {
					return err
				}
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func taken(to paths.Path) error {
	return &Error{to.String(), "already exists, and nothing is overwritten; name another path, or take it away with file.move or file.delete first", fs.ErrExist}
}

// Copied is what a copy did.
type Copied struct {
	From string `json:"from"`
	To   string `json:"to"`
	Type string `json:"type"`
	// Files is how many files were made, Bytes what they hold together.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// Copy makes a second file or folder. It is made under a name that nobody sees,
// fsynced, and then moved to its path, where it is whole or not at all; nothing is
// overwritten. Missing folders are made. A folder that holds a link, a file with a
// second name, a special file or a name that no path may have is not copied: a copy
// that leaves something out would look like a whole one.
func (ws *Workspace) Copy(ctx context.Context, stamp Stamp, from, to paths.Path) (Copied, error) {
	f, name, info, err := ws.source(from, to)
	if err != nil {
		return Copied{}, err
	}
	defer f.Close()
	if err := ws.free(to); err != nil {
		return Copied{}, fault(to.String(), err)
	}
	e, err := ws.newEntry(stamp.Call)
	if err != nil {
		return Copied{}, fault(to.String(), err)
	}
	defer e.close()
	c := copier{ctx: ctx, Copied: Copied{From: from.String(), To: to.String(), Type: typeOf(info)}}
	f.step("checked")
	err = c.entry(f, name, e.folder, partName, "")
	f.step("written")
	if err == nil {
		err = ws.put(e, to)
	}
	if err != nil {
		e.discard()
		return Copied{}, fault(from.String(), err)
	}
	return c.Copied, fault(to.String(), e.remove())
}

// free says that nothing is at path, and makes nothing.
func (ws *Workspace) free(path paths.Path) error {
	f, name, err := ws.parent(path, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = taken(path)
	}
	return err
}

// put moves what was made in an entry to its path.
func (ws *Workspace) put(e entry, to paths.Path) error {
	g, newName, err := ws.parent(to, true)
	if err != nil {
		return fault(to.String(), err)
	}
	defer g.Close()
	err = e.move(partName, g, newName)
	if errors.Is(err, fs.ErrExist) {
		return taken(to)
	}
	if err != nil {
		return fault(to.String(), err)
	}
	g.step("moved")
	return fault(to.String(), g.sync())
}

// copier copies one tree and counts what it makes.
type copier struct {
	Copied
	ctx     context.Context // of the one call that it lives for
	entries int
}

// entry copies name in from to newName in into; below is its path under the source.
// What it opens decides whether it is a file or a folder. Its errors name the entry.
func (c *copier) entry(from folder, name string, into folder, newName, below string) error {
	source := path.Join(c.From, below)
	if _, err := paths.Parse(path.Join(c.To, below)); err != nil {
		return &Error{Path: source, Reason: "cannot be copied: its new path " + err.Error()}
	}
	if c.entries++; c.entries > MaxCopyEntries {
		return c.tooMuch()
	}
	if err := c.ctx.Err(); err != nil {
		return err
	}
	err := c.file(from, name, into, newName)
	if errors.Is(err, errFolder) {
		err = c.folder(from, name, into, newName, below)
	}
	return fault(source, err)
}

func (c *copier) tooMuch() error {
	return &Error{Path: c.From, Reason: fmt.Sprintf("is too much for one call: at most %d files and folders with %d bytes are copied at once; copy the parts", MaxCopyEntries, MaxCopyBytes)}
}

func (c *copier) file(from folder, name string, into folder, newName string) error {
	file, info, err := from.openFile(name)
	if err != nil {
		return err
	}
	defer file.Close()
	c.Files++
	if c.Bytes += info.Size(); c.Bytes > MaxCopyBytes {
		return c.tooMuch()
	}
	err = into.createFrom(c.ctx, newName, file, info, nil)
	from.step("copied")
	return err
}

func (c *copier) folder(from folder, name string, into folder, newName, below string) error {
	f, err := from.enter(name, false)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := into.Mkdir(newName, folderMode); err != nil {
		return err
	}
	g, err := into.enter(newName, false)
	if err != nil {
		return err
	}
	defer g.Close()
	names, err := f.names(c.ctx, MaxCopyEntries-c.entries+1, func(string) bool { return true }, strings.Compare)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := c.entry(f, name, g, name, path.Join(below, name)); err != nil {
			return err
		}
	}
	return g.sync()
}
