package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/oklog/ulid/v2"

	"gatebook/events"
	"gatebook/policy/paths"
	"gatebook/policy/trash"
)

// Weigh tells what an agent's trash holds, by the names and not by what descriptions
// say: those can be written by anybody who writes to the folder. It changes nothing,
// makes no folder and waits for no turn. It looks at [MaxWeighed] entries, and weighs
// for [MaxWeighTime]: what it has not weighed counts as nothing.
//
// The age of an entry is that of the call that it is named by. What has another name
// was put there by somebody else: it is as old as the last change of its place, and
// goes as entries do, so that the trash does not grow by it.
func (w *Workspaces) Weigh(ctx context.Context, agent events.AgentID) ([]trash.Entry, error) {
	f, err := w.openTrash(agent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault(trashName, err)
	}
	defer f.Close()
	names, err := f.names(ctx, MaxWeighed, func(string) bool { return true }, strings.Compare)
	if err != nil {
		return nil, fault(trashName, err)
	}
	bounded, stop := context.WithTimeout(ctx, MaxWeighTime)
	defer stop()
	all := make([]trash.Entry, 0, len(names))
	for _, name := range names {
		info, err := f.Lstat(name)
		if err != nil { // a call took it away, or made it and has taken it back
			continue
		}
		e := trash.Entry{Name: name, Time: changed(info), Bytes: f.weigh(bounded, name, 0)}
		id, begun := strings.CutSuffix(name, goneSuffix)
		if begun {
			id, _, _ = strings.Cut(id, ".") // see lift
		}
		if u, err := ulid.ParseStrict(id); err == nil && u.String() == id {
			e.Call, e.Begun, e.Time = events.CallID(id), begun, events.InstantOf(u.Timestamp())
		}
		all = append(all, e)
	}
	return all, ctx.Err()
}

// weigh adds up the files of a tree as far as it can be seen.
func (f folder) weigh(ctx context.Context, name string, depth int) (bytes int64) {
	info, err := f.Lstat(name)
	if err != nil || ctx.Err() != nil || depth > MaxDepth {
		return 0
	}
	if info.Mode().IsRegular() {
		return info.Size()
	}
	next, err := f.enter(name, false)
	if err != nil {
		return 0
	}
	defer next.Close()
	names, err := next.names(ctx, MaxWeighed, func(string) bool { return true }, strings.Compare)
	for _, name := range names {
		if more := next.weigh(ctx, name, depth+1); err == nil && bytes <= math.MaxInt64-more {
			bytes += more
		}
	}
	return bytes
}

func (w *Workspaces) openTrash(agent events.AgentID) (folder, error) {
	at, err := paths.FolderOf(agent)
	if err != nil {
		return folder{}, err
	}
	return w.descend(append(at.Workspace(), trashName), false)
}

// Purged is what is gone for good.
type Purged struct {
	Entries, Bytes int64
}

// Purge removes entries of an agent's trash for good: nothing else does that. Who
// calls it has recorded that they go. It follows no link: a link is removed itself,
// and what takes the place of a folder in the last moment is not entered.
//
// First of all an entry loses its name, by one rename under the agent's turn: from
// then on no tool shows or restores it. So a kill leaves an entry that is whole, or one
// that the next run finishes ([trash.Entry.Begun]), and a call waits for one rename and
// never for the removal of a tree. An entry that was restored meanwhile stays so. What
// cannot be removed stays, and the first error says why.
func (w *Workspaces) Purge(ctx context.Context, agent events.AgentID, entries []trash.Entry) (p Purged, err error) {
	f, err := w.openTrash(agent)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, fault(trashName, err)
	}
	defer f.Close()
	for _, e := range entries {
		if ctx.Err() != nil {
			return p, errors.Join(err, ctx.Err())
		}
		if failed := w.purge(ctx, f, agent, e, &p); failed != nil && err == nil {
			err = fault(path.Join(trashName, e.Name), failed)
		}
	}
	return p, err
}

func (w *Workspaces) purge(ctx context.Context, f folder, agent events.AgentID, e trash.Entry, p *Purged) error {
	er := eraser{trash: f, call: e.Call, Purged: p}
	name := e.Name
	if e.Call != "" && !e.Begun {
		name += goneSuffix
		err := w.condemn(ctx, f, agent, e.Name, name)
		if errors.Is(err, fs.ErrExist) { // what an earlier run left of one of that name
			if err = er.erase(ctx, name); err == nil {
				err = w.condemn(ctx, f, agent, e.Name, name)
			}
		}
		if err != nil {
			return err
		}
	}
	if _, err := f.Lstat(name); errors.Is(err, fs.ErrNotExist) { // restored, or gone
		return nil
	}
	err := er.erase(ctx, name)
	if err == nil {
		p.Entries++
	}
	return err
}

// condemn takes the name of an entry away from it, durably.
func (w *Workspaces) condemn(ctx context.Context, f folder, agent events.AgentID, name, gone string) error {
	done, err := w.turn(ctx, agent)
	if err != nil {
		return err
	}
	defer done()
	if err := f.move(name, f, gone); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	f.step("condemned")
	return f.sync()
}

// eraser removes one entry of a trash for good, and counts that.
type eraser struct {
	*Purged
	trash  folder
	call   events.CallID // that made the entry; empty for what no call put there
	lifted []string      // what was too deep where it was, and waits in the trash
}

// erase removes an entry with all below it.
func (er *eraser) erase(ctx context.Context, name string) error {
	err := er.remove(ctx, er.trash, name, 0)
	for err == nil && len(er.lifted) > 0 {
		name, er.lifted = er.lifted[0], er.lifted[1:]
		err = er.remove(ctx, er.trash, name, 0)
	}
	return err
}

// remove removes what has a name, with all below it.
func (er *eraser) remove(ctx context.Context, f folder, name string, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	info, err := f.Lstat(name)
	if err == nil && info.IsDir() {
		if depth == MaxDepth {
			return er.lift(f, name)
		}
		var next folder
		if next, err = f.enter(name, false); err == nil {
			err = er.clear(ctx, next, depth+1)
			next.Close()
		}
		if errors.Is(err, errLink) || errors.Is(err, errNotFolder) { // it took the folder's place, and goes itself
			err = nil
		}
	}
	if err == nil {
		f.step("erasing")
		err = f.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.Mode().IsRegular() {
		er.Bytes += info.Size()
	}
	f.step("erased")
	return err
}

// lift brings a folder up into the trash, for each level holds a handle and a frame of
// the stack. Where it is now it is taken like what it was a part of, also after a kill.
func (er *eraser) lift(f folder, name string) error {
	for n := 1; ; n++ {
		up := strings.TrimPrefix(string(er.call)+"."+strconv.Itoa(n)+goneSuffix, ".")
		err := f.move(name, er.trash, up)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			f.step("lifted")
			er.lifted = append(er.lifted, up)
		}
		return err
	}
}

// clear removes all that is in f. What remove takes for done is not there any more, so
// each turn of the loop has less before it.
func (er *eraser) clear(ctx context.Context, f folder, depth int) error {
	for {
		dir, err := f.Open(".")
		if err != nil {
			return err
		}
		names, err := dir.Readdirnames(MaxTrash)
		dir.Close()
		if errors.Is(err, io.EOF) || err == nil && len(names) == 0 {
			return nil
		}
		for _, name := range names {
			if err == nil {
				err = er.remove(ctx, f, name, depth)
			}
		}
		if err != nil {
			return err
		}
	}
}
