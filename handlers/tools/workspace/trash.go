package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"gatebook/events"
	"gatebook/policy/paths"
)

// The trash is the folder .trash of a workspace. An entry is a folder named by
// the call that made it, with the content under one fixed name and a file that
// describes it. The description is durable before the content comes; an entry
// without content is a rest of a kill and is not shown; content without a
// readable description is shown and restored to a named path.
const (
	trashName       = ".trash"
	contentName     = "content"
	descriptionName = "meta.json"
	// partName is what a copy is made under. It is not content: what a kill leaves
	// there is still whole where it was copied from.
	partName = "part"
	// goneSuffix ends the name of an entry that is being removed for good.
	goneSuffix = ".gone"
)

type description struct {
	Path    string         `json:"path"`
	Deleted events.Instant `json:"deleted"`
}

// Deleted is one entry of the trash.
type Deleted struct {
	ID events.CallID `json:"id"`
	// Path is the original one; empty where it is not known any more.
	Path string `json:"path"`
	// Deleted is engine time.
	Deleted events.Instant `json:"deleted,omitzero"`
	Type    string         `json:"type"` // "file", "dir", or what file.restore refuses
	Size    int64          `json:"size,omitzero"`
}

// Delete moves a file or a whole folder to the trash.
func (ws *Workspace) Delete(stamp Stamp, path paths.Path) (Deleted, error) {
	deleted, err := ws.remove(stamp, path)
	return deleted, fault(path.String(), err)
}

func (ws *Workspace) remove(stamp Stamp, path paths.Path) (Deleted, error) {
	f, name, err := ws.parent(path, false)
	if err != nil {
		return Deleted{}, err
	}
	defer f.Close()
	info, err := f.Lstat(name)
	if err == nil {
		err = checkMovable(info)
	}
	if err != nil {
		return Deleted{}, err
	}
	e, err := ws.newEntry(stamp.Call)
	if err != nil {
		return Deleted{}, err
	}
	defer e.close()
	f.step("checked")
	d := description{path.String(), stamp.Now}
	err = e.describe(d)
	f.step("described")
	if err == nil {
		err = f.move(name, e.folder, contentName)
	}
	if err != nil {
		return Deleted{}, errors.Join(err, e.remove())
	}
	f.step("moved")
	return e.deleted(d, info), errors.Join(e.sync(), f.sync())
}

// Restored is where an entry went.
type Restored struct {
	ID   events.CallID `json:"id"`
	Path string        `json:"path"`
	Type string        `json:"type"`
}

// Restore moves an entry of the trash to its original path, or to another one
// where to is not nil. It never overwrites. Missing folders are made. May is asked
// about the original path, wherever the entry goes; its error is given back and
// nothing moves. A path that is not known leaves the workspace.
func (ws *Workspace) Restore(ctx context.Context, id events.CallID, to *paths.Path, may func(original paths.Path) error) (Restored, error) {
	if _, err := events.ParseULID[events.CallID](string(id)); err != nil {
		return Restored{}, &Error{Path: string(id), Reason: "is not the id of a trash entry"}
	}
	e, info, err := ws.openEntry(id)
	if errors.Is(err, fs.ErrNotExist) {
		return Restored{}, &Error{string(id), "there is no such trash entry", fs.ErrNotExist}
	}
	if err != nil {
		return Restored{}, fault(string(id), err)
	}
	defer e.close()
	target, err := e.target(to)
	if err != nil {
		return Restored{}, err
	}
	original, _ := paths.Parse(e.description().Path)
	if err := may(original); err != nil {
		return Restored{}, err
	}
	if err := e.checkFits(ctx, contentName, original, target); err != nil {
		return Restored{}, fault(target.String(), err)
	}
	return Restored{ID: id, Path: target.String(), Type: typeOf(info)}, fault(target.String(), ws.restore(e, target))
}

func (ws *Workspace) restore(e entry, target paths.Path) error {
	f, name, err := ws.parent(target, true)
	if err != nil {
		return err
	}
	defer f.Close()
	f.step("checked")
	err = e.move(contentName, f, name)
	if errors.Is(err, fs.ErrExist) {
		return &Error{target.String(), "already exists, and nothing is overwritten; " + f.alternative(target), fs.ErrExist}
	}
	if err != nil {
		return err
	}
	f.step("moved")
	return errors.Join(f.sync(), e.remove())
}

// alternative names a free path beside target.
func (f folder) alternative(target paths.Path) string {
	ext := path.Ext(target.String())
	stem := strings.TrimSuffix(target.String(), ext)
	if path.Base(target.String()) == ext { // a name like .env
		stem, ext = target.String(), ""
	}
	for n := 1; n <= MaxNames; n++ {
		other := stem + "-restored-" + strconv.Itoa(n) + ext
		if _, err := f.Lstat(path.Base(other)); errors.Is(err, fs.ErrNotExist) {
			return "the path " + events.Quote(other) + " is free"
		}
	}
	return "name another path"
}

// entry is an opened entry of the trash.
type entry struct {
	folder
	trash folder
	id    events.CallID
}

// newEntry makes the entry of a call. The names are made durable by describe.
func (ws *Workspace) newEntry(call events.CallID) (entry, error) {
	if _, err := events.ParseULID[events.CallID](string(call)); err != nil {
		return entry{}, err
	}
	trash, err := ws.root.enter(trashName, true)
	if err != nil {
		return entry{}, err
	}
	err = trash.Mkdir(string(call), folderMode)
	if err == nil {
		var e entry
		if e, err = trash.entryOf(string(call)); err == nil {
			return e, nil
		}
	}
	trash.Close()
	return entry{}, err
}

// openEntry opens an entry that holds something that may be restored.
func (ws *Workspace) openEntry(id events.CallID) (entry, fs.FileInfo, error) {
	trash, err := ws.root.enter(trashName, false)
	if err != nil {
		return entry{}, nil, err
	}
	e, err := trash.entryOf(string(id))
	if err != nil {
		trash.Close()
		return entry{}, nil, err
	}
	info, err := e.Lstat(contentName)
	if err == nil {
		err = checkMovable(info)
	}
	if err != nil {
		e.close()
		return entry{}, nil, err
	}
	return e, info, nil
}

func (f folder) entryOf(name string) (entry, error) {
	opened, err := f.enter(name, false)
	return entry{opened, f, events.CallID(name)}, err
}

// close closes the entry and the trash.
func (e entry) close() {
	e.folder.Close()
	e.trash.Close()
}

func (e entry) deleted(d description, info fs.FileInfo) Deleted {
	deleted := Deleted{ID: e.id, Path: d.Path, Deleted: d.Deleted, Type: typeOf(info)}
	if deleted.Type == "file" {
		deleted.Size = info.Size()
	}
	return deleted
}

// describe writes the description and makes all of the entry durable.
func (e entry) describe(d description) error {
	raw, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if err := e.create(descriptionName, raw); err != nil {
		return err
	}
	return errors.Join(e.sync(), e.trash.sync())
}

// description is the zero value where there is none that can be read.
func (e entry) description() description {
	file, _, err := e.openFile(descriptionName)
	if err != nil {
		return description{}
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, MaxDescription))
	var d description
	if err != nil || json.Unmarshal(raw, &d, json.RejectUnknownMembers(true)) != nil {
		return description{}
	}
	return d
}

// target is where the entry goes back to. A recorded path is held to the same
// rules as one that an agent gives: the trash is a folder like others, and what
// stands in it may have been put there.
func (e entry) target(to *paths.Path) (paths.Path, error) {
	if to != nil {
		return *to, nil
	}
	p, err := paths.Parse(e.description().Path)
	if err != nil {
		return paths.Path{}, &Error{Path: string(e.id), Reason: "its original path is not known; name one to restore it to"}
	}
	return p, nil
}

// discard takes back an entry whose content is only what its own call wrote.
func (e entry) discard() {
	_ = e.Remove(contentName) // what stays is an entry too many, nothing else
	_ = e.RemoveAll(partName)
	_ = e.remove()
}

// remove takes an entry out of the trash, unless it still has content.
func (e entry) remove() error {
	if _, err := e.Lstat(contentName); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := e.Remove(descriptionName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return e.trash.Remove(string(e.id))
}
