package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io/fs"
	"strings"

	"github.com/go-json-experiment/json"

	"gatebook/events"
	"gatebook/policy/paths"
)

// Listing is one page of a folder, in the order of the bytes of the names.
type Listing struct {
	Entries []Entry `json:"entries"`
	// Next is the cursor of the next page; empty on the last one.
	Next string `json:"next,omitzero"`
}

// Entry is one name in a folder. A name that no path argument could hold is
// shown escaped, with a backslash.
type Entry struct {
	Name string `json:"name"`
	// Type is "file", "dir", "link", "other", or "vanished" for an entry that was
	// gone when its metadata was read.
	Type string `json:"type"`
	// Size is that of a file, in bytes.
	Size int64 `json:"size,omitzero"`
	// Modified is the system's time of the last change of a file or a folder.
	Modified events.Instant `json:"modified,omitzero"`
}

// List gives the entries of a folder, without the trash. Their metadata comes
// from the same handle as their names.
func (ws *Workspace) List(ctx context.Context, path paths.Path, cursor string) (Listing, error) {
	after, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return Listing{}, &Error{Path: path.String(), Reason: "the cursor " + events.Quote(cursor) + " is not one that file.list gave"}
	}
	listing, err := ws.list(ctx, path, string(after))
	return listing, fault(path.String(), err)
}

func (ws *Workspace) list(ctx context.Context, path paths.Path, after string) (Listing, error) {
	f, err := ws.folder(path, false)
	if err != nil {
		return Listing{}, err
	}
	defer f.Close()
	keep := func(name string) bool { return name > after && !hidden(path, name) }
	names, err := f.names(ctx, MaxEntries+1, keep, strings.Compare)
	if err != nil {
		return Listing{}, err
	}
	f.step("listed")
	entries, last, err := fill(ctx, names, MaxEntries, f.entry)
	return Listing{Entries: entries, Next: base64.RawURLEncoding.EncodeToString([]byte(last))}, err
}

func hidden(path paths.Path, name string) bool {
	if path.String() != "." {
		return false
	}
	p, err := paths.Parse(name)
	return err == nil && p.Reserved()
}

// fill makes the rows of one page, bounded in number and in bytes, and leaves
// out a name that is not there any more (fs.ErrNotExist). Where names are left
// it gives the last one it used.
func fill[T any](ctx context.Context, names []string, most int, row func(name string) (T, error)) (rows []T, last string, err error) {
	rows = []T{}
	size := 0
	for i, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, "", err
		}
		next, err := row(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		encoded, err := json.Marshal(next)
		if err != nil {
			return nil, "", err
		}
		if size += len(encoded) + 1; i >= most || size > MaxListing {
			return rows, names[i-1], nil
		}
		rows = append(rows, next)
	}
	return rows, "", nil
}

func (f folder) entry(name string) (Entry, error) {
	e := Entry{Name: name, Type: "vanished"}
	if _, err := paths.Parse(name); err != nil {
		e.Name = events.Escape(name)
	}
	info, err := f.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if err != nil {
		return Entry{}, err
	}
	e.Type = typeOf(info)
	if e.Type == "file" {
		e.Size = info.Size()
	}
	if e.Type == "file" || e.Type == "dir" {
		e.Modified = events.InstantOf(info.ModTime())
	}
	return e, nil
}

// Status is what is known of one file or folder.
type Status struct {
	Path string `json:"path"`
	Type string `json:"type"` // "file" or "dir"
	// Size is that of a file, in bytes; 0 of a folder.
	Size int64 `json:"size"`
	// Modified is the system's time of the last change.
	Modified events.Instant `json:"modified"`
	// SHA256 is the digest of a file's content, in hexadecimal; empty for a folder and
	// for a file of more than [MaxHashed] bytes.
	SHA256 string `json:"sha256,omitzero"`
}

// Stat gives what is known of a file or folder. Of a file, metadata and digest are
// from one handle, and of one version.
func (ws *Workspace) Stat(ctx context.Context, path paths.Path) (Status, error) {
	status, err := ws.stat(ctx, path)
	return status, fault(path.String(), err)
}

func (ws *Workspace) stat(ctx context.Context, path paths.Path) (Status, error) {
	if path.String() == "." {
		return statFolder(path, ws.root)
	}
	f, name, err := ws.parent(path, false)
	if err != nil {
		return Status{}, err
	}
	defer f.Close()
	file, info, err := f.openFile(name)
	if errors.Is(err, errFolder) {
		next, err := f.enter(name, false)
		if err != nil {
			return Status{}, err
		}
		defer next.Close()
		return statFolder(path, next)
	}
	if err != nil {
		return Status{}, err
	}
	defer file.Close()
	s := Status{Path: path.String(), Type: "file", Size: info.Size(), Modified: events.InstantOf(info.ModTime())}
	if s.Size > MaxHashed {
		return s, nil
	}
	hash := sha256.New()
	if err := pour(ctx, hash, file, info); err != nil {
		return Status{}, err
	}
	s.SHA256 = hex.EncodeToString(hash.Sum(nil))
	return s, nil
}

func statFolder(path paths.Path, f folder) (Status, error) {
	info, err := f.Stat(".")
	if err != nil {
		return Status{}, err
	}
	return Status{Path: path.String(), Type: "dir", Modified: events.InstantOf(info.ModTime())}, nil
}

func typeOf(info fs.FileInfo) string {
	switch info.Mode().Type() {
	case 0:
		return "file"
	case fs.ModeDir:
		return "dir"
	case fs.ModeSymlink:
		return "link"
	}
	return "other"
}

// TrashPage is one page of the trash, newest first.
type TrashPage struct {
	Entries []Deleted `json:"entries"`
	// Next is the cursor of the next page; empty on the last one.
	Next events.CallID `json:"next,omitzero"`
}

// Trash lists the trash from the entry after cursor on.
func (ws *Workspace) Trash(ctx context.Context, cursor events.CallID) (TrashPage, error) {
	page, err := ws.trash(ctx, cursor)
	return page, fault(trashName, err)
}

func (ws *Workspace) trash(ctx context.Context, cursor events.CallID) (TrashPage, error) {
	trash, err := ws.root.enter(trashName, false)
	if errors.Is(err, fs.ErrNotExist) {
		return TrashPage{Entries: []Deleted{}}, nil
	}
	if err != nil {
		return TrashPage{}, err
	}
	defer trash.Close()
	keep := func(name string) bool {
		_, err := events.ParseULID[events.CallID](name)
		return err == nil && (cursor == "" || name < string(cursor))
	}
	// Ids of later calls are greater.
	names, err := trash.names(ctx, MaxTrash+1, keep, func(a, b string) int { return strings.Compare(b, a) })
	if err != nil {
		return TrashPage{}, err
	}
	entries, last, err := fill(ctx, names, MaxTrash, trash.look)
	return TrashPage{Entries: entries, Next: events.CallID(last)}, err
}

// look reads one entry; fs.ErrNotExist where it holds nothing.
func (f folder) look(name string) (Deleted, error) {
	e, err := f.entryOf(name)
	if errors.Is(err, errNotFolder) || errors.Is(err, errLink) { // nothing that this package made
		err = fs.ErrNotExist
	}
	if err != nil {
		return Deleted{}, err
	}
	defer e.Close()
	info, err := e.Lstat(contentName)
	if err != nil {
		return Deleted{}, err
	}
	return e.deleted(e.description(), info), nil
}
