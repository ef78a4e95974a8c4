// Package workspace opens the one folder of an agent that its file tools may
// touch, and does what they need on opened handles.
//
// Start with [New], then [Workspaces.Open] for each call, and one of the methods
// of [Workspace]. Where the folder of an agent is, [paths.FolderOf] says; the data folder
// itself may be reached through links, nothing below it may.
//
// What the package promises:
//
//   - A check and the use after it share one handle. A path is walked one
//     component at a time; a link anywhere in it is refused, also one that stays
//     inside, and so is a file with a second name (hard link) or one that is no
//     regular file. Where the number of names cannot be known the file is refused.
//   - No call deletes for good or overwrites; only [Workspaces.Purge] deletes, of the
//     trash, what was decided to go. What a write or an edit
//     replaces and what is deleted goes to .trash, under the id of the call that did
//     it, and can be restored; what an append replaces is the beginning of the new
//     version. A kill at any moment loses no content, and a path shows a change as a
//     whole or not at all.
//   - What looks through or copies a tree is bounded in entries, bytes and time.
//   - Calls of one agent take turns. Calls of different agents do not meet.
//   - An error shows the path that the agent gave, escaped, and no other.
//
// No handle is kept between calls, so there is nothing to close but the
// [Workspace]. Moving between two folder handles without overwriting is a system
// call that the standard library does not offer: that is what golang.org/x/sys
// is for. On a system without it (see system_other.go) every file is refused.
package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"gatebook/events"
	"gatebook/policy/paths"
)

// Every bound of the file tools in one place. Sizes are bytes.
const (
	// MaxContent is the most that one call writes or reads.
	MaxContent = 512 << 10
	// DefaultRead is what a read gives when it does not say.
	DefaultRead = 64 << 10
	// MaxEntries is how many entries one listing of a folder holds.
	MaxEntries = 10_000
	// MaxTrash is how many entries one listing of the trash holds.
	MaxTrash = 1_000
	// MaxListing is the size of the entries of one listing; with it the whole
	// answer stays under the 768 KiB that an answer may have.
	MaxListing = 640 << 10
	// MaxDescription is the size of the file that describes a trash entry. A
	// path of 4096 bytes fits however it is escaped.
	MaxDescription = 32 << 10
	// MaxAppended is how large an append may make a file. An append writes the whole
	// file anew.
	MaxAppended = 16 << 20
	// MaxLines is how many line numbers an edit gives.
	MaxLines = 1_000
	// MaxCopyEntries and MaxCopyBytes are the most that one copy makes: each file is
	// fsynced, and all of it must fit into the time of one call.
	MaxCopyEntries = 2_000
	MaxCopyBytes   = 64 << 20
	// MaxHashed is how large a file may be to get a digest with its metadata.
	MaxHashed = 64 << 20
	// MaxPattern is the length of what a search looks for; MaxSteps is how many
	// steps it may have as a compiled expression, which bounds the time for a line.
	MaxPattern = 1 << 10
	MaxSteps   = 512
	// MaxSearchTime, MaxSearchEntries and MaxSearchBytes are what one search looks
	// through before it gives what it has.
	MaxSearchTime    = 5 * time.Second
	MaxSearchEntries = 20_000
	MaxSearchBytes   = 256 << 20
	// MaxSearchFile is how large a file may be to be searched, MaxLine how far into
	// a line a search looks.
	MaxSearchFile = 16 << 20
	MaxLine       = 64 << 10
	// MaxMatches is how many lines a search gives, MaxExcerpt how much of each.
	MaxMatches = 1_000
	MaxExcerpt = 256
	// MaxWeighed is how many entries of a trash, and how many names of a folder in it,
	// the job that empties it looks at; MaxWeighTime is how long it adds up their sizes.
	MaxWeighed   = 100_000
	MaxWeighTime = 30 * time.Second
	// MaxDepth is how deep the job that empties the trash goes down at once: what is
	// deeper it lifts first. No tool makes a tree as deep.
	MaxDepth = 256
	// MaxNames is how many names are tried to find a free one.
	MaxNames = 100

	folderMode = 0o700
	fileMode   = 0o600
)

// Workspaces gives out the workspaces of one data folder. It is safe for
// concurrent use and holds no open file.
type Workspaces struct {
	dir string
	// step, where not nil, is called between the steps of an operation: tests
	// change the disk there, or end the operation as a kill would.
	step func(name string)

	mu    sync.Mutex
	turns map[events.AgentID]chan struct{} // holds one value while a call has the turn
}

// New uses the data folder dir, which must exist when a workspace is opened.
func New(dir string) *Workspaces {
	return &Workspaces{dir: dir, turns: map[events.AgentID]chan struct{}{}}
}

// Workspace is one agent's folder for the time of one call. It is for one
// goroutine, and MUST be closed.
type Workspace struct {
	root folder
	done func()
}

// Open waits for the agent's turn and opens its workspace, which it makes (mode
// 0700) where it is missing. Its errors are an [*Error] or that of ctx.
func (w *Workspaces) Open(ctx context.Context, agent events.AgentID) (*Workspace, error) {
	at, err := paths.FolderOf(agent)
	if err != nil {
		return nil, err
	}
	done, err := w.turn(ctx, agent)
	if err != nil {
		return nil, err
	}
	root, err := w.descend(at.Workspace(), true)
	if err != nil {
		done()
		return nil, fault(".", err)
	}
	return &Workspace{root: root, done: done}, nil
}

func (w *Workspaces) turn(ctx context.Context, agent events.AgentID) (done func(), err error) {
	w.mu.Lock()
	turn, ok := w.turns[agent]
	if !ok {
		turn = make(chan struct{}, 1)
		w.turns[agent] = turn
	}
	w.mu.Unlock()
	if err := ctx.Err(); err != nil { // select takes either when both are ready
		return nil, err
	}
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// descend opens the folder of those names below the data folder.
func (w *Workspaces) descend(names []string, create bool) (folder, error) {
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return folder{}, err
	}
	return folder{root, w.mark}.descend(names, create)
}

// Furnish makes an agent's folder and what belongs into it, where that is missing: the
// workspace, and the files that say who the agent is (mode 0600). It touches nothing
// that is there, of whatever kind. Each file is there as a whole or not at all. Two may do
// it at once, each with a mark of its own.
func (w *Workspaces) Furnish(ctx context.Context, agent events.AgentID, role, mark string) error {
	at, err := paths.FolderOf(agent)
	if err != nil {
		return err
	}
	done, err := w.turn(ctx, agent)
	if err != nil {
		return err
	}
	defer done()
	ws, err := w.descend(at.Workspace(), true)
	if err != nil {
		return fault(at.String(), err)
	}
	defer ws.Close()
	f, err := w.descend(at.Parts(), false)
	if err != nil {
		return fault(at.String(), err)
	}
	defer f.Close()
	for name, content := range map[string]string{
		paths.Identity: "# " + string(agent) + "\n\nid: " + string(agent) + "\nrole: " + role + "\n",
		paths.Soul:     "<!-- How this agent should behave. -->\n",
		paths.Settings: "{}\n",
	} {
		if err := f.furnish(name, mark, []byte(content)); err != nil {
			return fault(name, err)
		}
	}
	return nil
}

// furnish makes one file under a name with the mark, which a kill may leave, and moves
// it to its own.
func (f folder) furnish(name, mark string, content []byte) error {
	if _, err := f.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	temp := ".new-" + mark + "-" + name
	if err := f.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := f.create(temp, content)
	f.step("written")
	if err == nil {
		err = f.move(temp, f, name)
	}
	if err != nil {
		_ = f.Remove(temp) // one file too many, and nothing else
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return errors.Join(err, f.sync())
}

func (w *Workspaces) mark(name string) {
	if w.step != nil {
		w.step(name)
	}
}

// Close gives the turn to the next call.
func (ws *Workspace) Close() error {
	err := ws.root.Close()
	ws.done()
	return err
}

// folder opens the folder that path names.
func (ws *Workspace) folder(path paths.Path, create bool) (folder, error) {
	if err := inside(path); err != nil {
		return folder{}, err
	}
	return ws.descend(components(path), create)
}

// parent opens the folder that holds what path names, and gives the name in it.
func (ws *Workspace) parent(path paths.Path, create bool) (folder, string, error) {
	if err := inside(path); err != nil {
		return folder{}, "", err
	}
	names := components(path)
	if len(names) == 0 {
		return folder{}, "", errWhole
	}
	last := len(names) - 1
	f, err := ws.descend(names[:last], create)
	return f, names[last], err
}

func (ws *Workspace) descend(names []string, create bool) (folder, error) {
	again, err := ws.root.OpenRoot(".")
	if err != nil {
		return folder{}, err
	}
	return folder{again, ws.root.step}.descend(names, create)
}

var errWhole = errors.New("is the workspace itself")
