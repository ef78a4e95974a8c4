// Package install keeps folders on this machine equal to what people approved of what
// agents proposed, so that a program can load it from there.
//
// Start with [New] and [Installer.Run]. The folder of a kind holds each approved version
// as <agent>/<name>, and nothing else that is on record.
//
// What the package promises:
//
//   - What is put there has the bytes whose digest was approved, from what the engine
//     keeps by that digest: no repository, branch or work tree is looked at.
//   - What is refused, replaced or rolled back is taken away by the next look, and so is
//     what was changed by hand put back. A look follows every decision, and every minute.
//   - A file is there as a whole or not at all, whatever ends the engine.
//   - What is in the folder and on no record is not ours: it stays, and [Status] names it,
//     for nobody approved it and it may be loaded all the same.
//   - No link in the folder is followed out of it, and none at a file's place or above it
//     is followed at all. The folder itself is a person's to make and to choose.
//
// One installer works on a folder. Whoever else can write there can change a file between
// two looks: the folder belongs to the engine's user alone.
package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gatebook/events"
	"gatebook/policy/paths"
	"gatebook/projections"
)

const (
	lookEvery  = time.Minute
	askEvery   = time.Second // whether the catalog in force has other folders
	maxForeign = 20          // that a status names
)

// Config is what an installer needs. All is required.
type Config struct {
	Store interface{ Snapshot() projections.Snapshot }
	// Blob gives what the engine keeps by a digest.
	Blob func(events.Digest) ([]byte, error)
	// Kinds are the folders by kind, of the catalog in force.
	Kinds func() map[events.AssetType]string
	// Data is the engine's own folder, where agents write: none of Kinds may be in it.
	Data string
	Log  func(level, text string)
}

// Status is how it stands with the folder of one kind.
type Status struct {
	Kind      events.AssetType `json:"kind"`
	Folder    string           `json:"folder"`
	Installed int              `json:"installed"`
	// Problem is the first thing that is wrong; empty where nothing is.
	Problem string `json:"problem,omitzero"`
	// Foreign are files that are on no record, at most 20 of the Strangers that there are.
	Foreign   []string `json:"foreign,omitzero"`
	Strangers int      `json:"strangers,omitzero"`
}

// Installer keeps the folders. Safe for concurrent use.
type Installer struct {
	cfg  Config
	wake chan struct{}

	mu     sync.Mutex
	status []Status
}

// New gives an installer; nothing runs yet.
func New(cfg Config) *Installer { return &Installer{cfg: cfg, wake: make(chan struct{}, 1)} }

// Wake lets the installer look soon. It does not block.
func (i *Installer) Wake() {
	select {
	case i.wake <- struct{}{}:
	default: // it will look already
	}
}

// Status is what the last look found, by kind in order.
func (i *Installer) Status() []Status {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.status)
}

// Run looks at once, after each [Installer.Wake], where the folders are others, and every
// minute, until ctx ends.
func (i *Installer) Run(ctx context.Context) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	i.run(ctx, tick.C)
}

func (i *Installer) run(ctx context.Context, tick <-chan time.Time) {
	var kinds map[events.AssetType]string
	var looked time.Time // as the ticks tell it
	for due := true; ctx.Err() == nil; {
		if now := i.cfg.Kinds(); due || !maps.Equal(kinds, now) {
			kinds = now
			i.look(ctx, kinds)
		}
		select {
		case t := <-tick:
			if due = t.Sub(looked) >= lookEvery; due {
				looked = t
			}
		case <-i.wake:
			due = true
		case <-ctx.Done():
		}
	}
}

// look makes every folder equal to one state of the views.
func (i *Installer) look(ctx context.Context, kinds map[events.AssetType]string) {
	var all []Status
	snap := i.cfg.Store.Snapshot()
	defer snap.Close()
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		s := Status{Kind: kind, Folder: kinds[kind]}
		if err := i.one(ctx, snap, &s); err != nil {
			s.Problem = err.Error()
		}
		if ctx.Err() != nil {
			return // it is half a look
		}
		all = append(all, s)
	}
	i.mu.Lock()
	was := i.status
	i.status = all
	i.mu.Unlock()
	i.tell(was, all)
}

// tell logs a problem once, and its end.
func (i *Installer) tell(was, is []Status) {
	before := map[events.AssetType]string{}
	for _, s := range was {
		before[s.Kind] = s.Problem
	}
	for _, s := range is {
		switch old := before[s.Kind]; {
		case s.Problem == old:
		case s.Problem == "":
			i.cfg.Log("info", fmt.Sprintf("what is approved of kind %s is in %s again", s.Kind, events.Quote(s.Folder)))
		default:
			i.cfg.Log("warn", fmt.Sprintf("what is approved of kind %s: %s", s.Kind, s.Problem))
		}
	}
}

// one makes the folder of one kind equal to what is approved of it.
func (i *Installer) one(ctx context.Context, r projections.Reader, s *Status) error {
	if err := i.apart(s.Folder); err != nil {
		return err
	}
	want, problems := recorded(ctx, r, s.Kind)
	if want == nil {
		return problems
	}
	root, err := os.OpenRoot(s.Folder)
	if err != nil {
		return fmt.Errorf("there is no folder %s that can be opened; make it, for the engine's user: %w", events.Quote(s.Folder), reason(err))
	}
	defer root.Close()
	f := folder{root: root, blob: i.cfg.Blob}
	f.clear()
	var errs []error
	names := slices.Sorted(maps.Keys(want))
	for _, name := range names { // first, so that nothing stands in another's way
		if want[name] == "" {
			errs = append(errs, f.remove(name))
		}
	}
	for _, name := range names {
		if want[name] == "" || ctx.Err() != nil {
			continue
		}
		err := f.put(name, want[name])
		if err == nil {
			s.Installed++
		}
		errs = append(errs, err)
	}
	errs = append(errs, f.foreign(want, s))
	return first(problems, errs)
}

// apart says where a folder and the engine's own are not apart.
func (i *Installer) apart(folder string) error {
	a, err := filepath.EvalSymlinks(folder)
	b, err2 := filepath.EvalSymlinks(i.cfg.Data)
	if err != nil || err2 != nil {
		return nil // opening it says why
	}
	a, b = a+string(filepath.Separator), b+string(filepath.Separator)
	if strings.HasPrefix(a, b) || strings.HasPrefix(b, a) {
		return fmt.Errorf("the folder %s and the data folder, where agents write, are not apart; choose another", events.Quote(folder))
	}
	return nil
}

// recorded are the paths of everything on record of a kind, with the version that is
// approved, or nothing. The error is about single ones, or where there is no map about
// all.
func recorded(ctx context.Context, r projections.Reader, kind events.AssetType) (map[string]events.Digest, error) {
	want := map[string]events.Digest{}
	var bad error
	for before := events.Seq(0); ; {
		page, err := projections.Assets(r, projections.AssetFilter{Type: kind, Before: before, Limit: projections.MaxPage})
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("the views cannot be read: %w", err)
		}
		for _, row := range page.Rows {
			name := row.Owner + "/" + row.Name
			if p, err := paths.Parse(name); err != nil || p.Leaves() || p.String() != name || strings.HasPrefix(name, tempPrefix) {
				bad = fmt.Errorf("asset %s has a name that no file can have", row.Asset)
				continue
			}
			if row.State == events.AssetStateApproved {
				want[name] = row.Version
			} else if _, there := want[name]; !there {
				want[name] = ""
			}
		}
		if before = page.Next; before == 0 {
			return want, bad
		}
	}
}

// first is the first problem, with how many more there are.
func first(err error, errs []error) error {
	errs = slices.DeleteFunc(append([]error{err}, errs...), func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return fmt.Errorf("%w, and %d more problems", errs[0], len(errs)-1)
}

// reason is an error of the file system without the path, which its reader knows.
func reason(err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err
	}
	var link *os.LinkError
	if errors.As(err, &link) {
		return link.Err
	}
	return err
}
