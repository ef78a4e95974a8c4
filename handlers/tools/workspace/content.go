package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"

	"gatebook/events"
	"gatebook/handlers/tools"
	"gatebook/policy/paths"
)

// Stamp names a change: the call that makes it, which becomes the id of what it
// puts into the trash, and engine time.
type Stamp struct {
	Call events.CallID
	Now  events.Instant
	// Was, where not empty, is the SHA-256 of the bytes that a change may replace: where
	// it would replace others it refuses and leaves them.
	Was events.Digest
}

// Content is a part of a file.
type Content struct {
	Data   []byte
	Offset int64
	Size   int64 // of the whole file
}

// Read gives at most limit bytes (at most [MaxContent]) of a file from offset on.
func (ws *Workspace) Read(path paths.Path, offset, limit int64) (Content, error) {
	content, err := ws.read(path, offset, limit)
	return content, fault(path.String(), err)
}

func (ws *Workspace) read(path paths.Path, offset, limit int64) (Content, error) {
	f, name, err := ws.parent(path, false)
	if err != nil {
		return Content{}, err
	}
	defer f.Close()
	file, info, err := f.openFile(name)
	if err != nil {
		return Content{}, err
	}
	defer file.Close()
	left := max(0, info.Size()-offset)
	data := make([]byte, min(left, limit, MaxContent))
	n, err := file.ReadAt(data, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return Content{}, err
	}
	return Content{Data: data[:n], Offset: offset, Size: info.Size()}, nil
}

// Written is what a write did.
type Written struct {
	// Replaced is the trash entry of the former version; empty where the file is new.
	Replaced events.CallID
}

// Write puts content at path, which then holds it whole or not at all. Missing
// folders are made. A former version goes to the trash.
func (ws *Workspace) Write(stamp Stamp, path paths.Path, content []byte) (Written, error) {
	written, err := ws.write(stamp, path, content, false)
	return written, fault(path.String(), err)
}

// Create is Write where nothing is; where something is it refuses and changes
// nothing.
func (ws *Workspace) Create(stamp Stamp, path paths.Path, content []byte) (Written, error) {
	written, err := ws.write(stamp, path, content, true)
	if errors.Is(err, fs.ErrExist) {
		err = refuse("create_only", "is there already, and this call may only make a new file")
	}
	return written, fault(path.String(), err)
}

func (ws *Workspace) write(stamp Stamp, path paths.Path, content []byte, onlyNew bool) (Written, error) {
	f, name, err := ws.parent(path, true)
	if err != nil {
		return Written{}, err
	}
	defer f.Close()
	info, err := f.Lstat(name)
	fresh := errors.Is(err, fs.ErrNotExist)
	if err == nil && onlyNew {
		return Written{}, fs.ErrExist
	}
	if err == nil {
		err = checkFile(info)
	}
	if err != nil && !fresh {
		return Written{}, err
	}
	e, err := ws.newEntry(stamp.Call)
	if err != nil {
		return Written{}, err
	}
	defer e.close()
	f.step("checked")
	if fresh {
		return Written{}, placeNew(e, f, name, content)
	}
	produce := func() error { return e.create(contentName, content) }
	return Written{Replaced: stamp.Call}, replace(e, f, name, produce, path, stamp)
}

// placeNew writes a new file beside its place and moves it there.
func placeNew(e entry, f folder, name string, content []byte) error {
	err := e.create(contentName, content)
	f.step("written")
	if err == nil {
		err = e.move(contentName, f, name)
	}
	if err != nil {
		e.discard()
		return err
	}
	f.step("moved")
	err = f.sync()
	return errors.Join(err, e.remove())
}

// replace makes the new version as the content of a trash entry and exchanges it
// with the former one: the name is never absent, and whatever a kill leaves in the
// entry is one of the two versions, described.
func replace(e entry, f folder, name string, produce func() error, path paths.Path, stamp Stamp) error {
	err := produce()
	f.step("written")
	if err == nil {
		err = e.describe(description{path.String(), stamp.Now})
	}
	if err != nil {
		e.discard()
		return err
	}
	f.step("described")
	ours, err := e.Lstat(contentName)
	if err != nil {
		return err
	}
	// After a failed exchange the entry stays: better one too many than to guess
	// which version it holds.
	if err := e.swap(contentName, f, name); err != nil {
		return err
	}
	f.step("moved")
	if stamp.Was == "" {
		return errors.Join(f.sync(), e.sync())
	}
	if is, err := e.holds(stamp.Was); err != nil || is {
		return errors.Join(err, f.sync(), e.sync())
	}
	return putBack(e, f, name, ours)
}

// putBack takes a version away again that stands in the place of another than was meant:
// for that moment it could be seen, and a kill leaves it, with the other one in the
// trash. What somebody else put in its place meanwhile is kept in the trash.
func putBack(e entry, f folder, name string, ours fs.FileInfo) error {
	if err := e.swap(contentName, f, name); err != nil { // the other version is in the trash then
		return errors.Join(err, f.sync(), e.sync())
	}
	f.step("put back")
	if out, err := e.Lstat(contentName); err == nil && os.SameFile(out, ours) {
		e.discard()
	}
	return errors.Join(errStale, f.sync(), e.sync())
}

// holds says whether the version that an exchange took out has this SHA-256. It is read
// to its end whatever the time: until then nobody knows which version shall stay.
func (e entry) holds(digest events.Digest) (bool, error) {
	file, info, err := e.openFile(contentName)
	if err != nil {
		return false, err
	}
	defer file.Close()
	sum := sha256.New()
	if err := pour(context.Background(), sum, file, info); errors.Is(err, errChanged) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return events.Digest(hex.EncodeToString(sum.Sum(nil))) == digest, nil
}

var errStale = refuse("stale", "is not what the person saw who approved this call, so nothing was changed; a new call asks again")

// Stale is the refusal of a call whose ground has changed since a person approved it.
func Stale() *tools.Refused {
	return &tools.Refused{Rule: "stale", Reason: "what is there is not what the person saw who approved this call, so nothing was changed; a new call asks again"}
}
