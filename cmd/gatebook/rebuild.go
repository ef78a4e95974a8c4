package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/integrity"
	"gatebook/handlers/people"
	"gatebook/handlers/views"
	"gatebook/infra/datadir"
	"gatebook/infra/pebblekv"
	"gatebook/projections"
	"gatebook/projections/rebuild"
)

func (a *App) rebuildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rebuild",
		Short: "Build the views anew from the book, beside the old ones",
		Long: `Fold the whole book into new views beside the old ones, compare the two, and put
the new ones in use. The old ones are deleted where they are equal, else kept. The
exit code is 4 where they are not equal, or where the book does not extend the head.

Where an engine runs, it does this itself and goes on deciding meanwhile; this asks
for an operator, or an approver's passphrase. It goes on where this command ends
before it.

  gatebook rebuild --json`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.collectLess()
			var r rebuilt
			err := a.stopped(func(n *node) error {
				var err error
				r, err = n.rebuild(cmd.Context())
				return err
			})
			if errors.Is(err, datadir.ErrLocked) {
				locked := err
				if r, err = a.rebuildRunning(cmd.Context()); errors.Is(err, errUnreachable) && !errors.Is(err, errEnded) {
					err = errors.Join(locked, err)
				}
			}
			if err != nil {
				return err
			}
			return a.sayRebuilt(r)
		},
	}
}

// rebuilt is the answer of rebuild, with an engine running or not.
type rebuilt = views.Rebuilt

func (a *App) sayRebuilt(r rebuilt) error {
	if a.flags.json {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.Out, "%d events in %s, %d a second; root %s\n", r.Events, took(r.Duration), r.PerSecond, r.Root)
		if r.Equal && r.Trouble == "" {
			fmt.Fprintln(a.Out, "the old views were equal and are deleted; the new ones are in use")
		}
	}
	if r.Trouble != "" {
		fmt.Fprintf(a.Err, "gatebook: warning: the new views are in use, and the old ones may still be there: %s\n", events.Escape(oneLine(r.Trouble)))
	}
	switch {
	case r.Compared && !r.Equal:
		return &integrity.Damage{Reason: "the old views were not what the book says (" + oneLine(r.Why) + "); the new ones are in use, the old ones are kept in " + r.Kept}
	case !r.Equal && r.Why != "":
		kept := "the old ones are kept in " + r.Kept
		if r.Kept == "" {
			kept = "there are no old ones"
		}
		fmt.Fprintf(a.Err, "gatebook: the old views could not be compared (%s); the new ones are in use, %s\n", events.Escape(oneLine(r.Why)), kept)
	}
	return nil
}

// rebuild builds new views beside the old ones, compares, and switches.
func (n *node) rebuild(ctx context.Context) (r rebuilt, err error) {
	if _, err := n.openBookAlone(ctx); err != nil {
		return r, err
	}
	dir, s := n.cfg.dir, n.stores
	if err := removeUnfinished(dir); err != nil {
		return r, err
	}
	if s.views, s.folder, err = newViews(dir, viewsOptions(n.cfg)); err != nil {
		return r, err
	}
	s.fresh = true // until it is adopted, close removes it
	took, err := s.catchUp(ctx, n.cfg)
	if err != nil {
		return r, err
	}
	if r, err = s.measured(events.MicrosOf(took)); err != nil {
		return r, err
	}
	old, err := n.compareOld(ctx, &r)
	if err != nil {
		return r, err
	}
	if r.Equal { // a process that is killed leaves nothing of them
		if err := datadir.WriteFile(unfinished(old), nil); err != nil {
			return r, err
		}
	}
	if err := s.adopt(); err != nil {
		return r, err
	}
	if r.Equal {
		if err := removeViews(old); err != nil {
			r.Trouble = err.Error()
		}
		return r, nil
	}
	if old != "" {
		r.Kept = old
	}
	return r, nil
}

// measured describes the views.
func (s *stores) measured(d events.Micros) (rebuilt, error) {
	tip, err := integrity.Tip(s.views)
	if err != nil {
		return rebuilt{}, err
	}
	r := rebuilt{Events: tip.Size, Duration: d, Root: tip.Root.String(), Views: filepath.Base(s.folder)}
	r.PerSecond = int64(tip.Size) * 1_000_000 / max(1, int64(d))
	r.Fingerprint, r.Rows, err = fingerprint(s.views)
	return r, err
}

func fingerprint(store projections.Store) (events.Digest, int64, error) {
	snap := store.Snapshot()
	defer snap.Close()
	return rebuild.Fingerprint(snap)
}

// compareOld compares the views in use, brought up to the book's end, with what r
// says of the new ones. It gives their folder, empty where there are none.
func (n *node) compareOld(ctx context.Context, r *rebuilt) (string, error) {
	folder, err := viewsFolder(n.cfg.dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, datadir.ErrDamaged) {
		r.Why = err.Error()
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if !exists(folder) {
		r.Why = "their folder is gone"
		return "", nil
	}
	old, err := pebblekv.Open(folder, viewsOptions(n.cfg))
	if errors.Is(err, pebblekv.ErrDamaged) {
		r.Why = err.Error()
		return folder, nil
	}
	if err != nil {
		return "", err
	}
	// A view database that opens may still lack rows.
	err = fold(ctx, n.stores.book(), old, func(string, events.Seq, events.Seq) {})
	if errors.Is(err, integrity.ErrDamage) || errors.Is(err, projections.ErrStore) {
		r.Why, r.Compared = err.Error(), true
		return folder, old.Close()
	}
	if err != nil {
		return "", errors.Join(err, old.Close())
	}
	sum, rows, err := fingerprint(old)
	r.Compared, r.Equal = err == nil, sum == r.Fingerprint
	if !r.Equal {
		r.Why = fmt.Sprintf("%d rows, fingerprint %s, want %d rows, fingerprint %s", rows, sum, r.Rows, r.Fingerprint)
	}
	return folder, errors.Join(err, old.Close())
}

// builder builds the views of a running engine anew.
func (n *node) builder() *views.Builder {
	return views.New(views.Config{
		Book: currentBook{n.stores}, Live: n.stores.live, Head: n.stores.headNow, Build: n.build,
		Loop: n.engine, Damaged: n.damaged, Room: func() error { return room(n.cfg.dir) }, Now: time.Now,
	})
}

// build makes new views beside those in use.
func (n *node) build() (views.Building, error) {
	s := n.stores
	store, folder, err := newViews(s.dir, viewsOptions(n.cfg))
	if err != nil {
		return views.Building{}, err
	}
	return views.Building{
		Store: store, Name: filepath.Base(folder),
		Drop: func() error { return errors.Join(store.Close(), removeViews(folder)) },
		// Of the loop, like everything that looks at s.views while an engine runs.
		Adopt: func(forget bool) (string, error) {
			former := s.folder
			if err := store.Sync(); err != nil {
				return "", err
			}
			if err := exchangePointer(s.dir, former, folder, forget); err != nil {
				return "", err
			}
			s.views, s.folder = store, folder
			return former, nil
		},
		Forget: removeViews,
	}, nil
}

// exchangePointer puts next in use in the place of former. With forget a process that
// is killed leaves former marked, so that the next start removes it.
func exchangePointer(dir *datadir.Dir, former, next string, forget bool) error {
	if forget {
		if err := datadir.WriteFile(unfinished(former), nil); err != nil {
			return err
		}
	}
	if err := useViews(dir, next); err != nil {
		// It may have been written all the same.
		return errors.Join(err, useViews(dir, former), os.RemoveAll(unfinished(former)))
	}
	_ = os.Remove(unfinished(next)) // next is in use; what is left of this the next start removes
	return nil
}

// lookAgain is how often a command looks how far a rebuild is.
const lookAgain = 200 * time.Millisecond

// errEnded says that the engine was there when it was asked for a rebuild, and is not now.
var errEnded = fmt.Errorf("%w: it ended while it rebuilt the views, and those that it had before are in use "+
	"unless it had exchanged them; start it with gatebook serve and ask again", errUnreachable)

// rebuildRunning has the engine that runs rebuild, and waits for the end.
func (a *App) rebuildRunning(ctx context.Context) (r rebuilt, err error) {
	err = a.asActing(func(p *acting) error {
		c, err := p.actor(ctx, false)
		if err != nil {
			return err
		}
		var done engine.Done
		if err := c.ask(ctx, "rebuild", people.ActRequest{}, &done); err != nil {
			return err
		}
		r, err = a.watchRebuild(ctx, p.as(c, "view"))
		return err
	})
	return r, err
}

func (a *App) watchRebuild(ctx context.Context, c *client) (rebuilt, error) {
	for {
		var s views.Status
		if err := c.ask(ctx, "rebuild", struct{}{}, &s); errors.Is(err, errUnreachable) {
			return rebuilt{}, fmt.Errorf("%w (%w)", errEnded, err)
		} else if err != nil {
			return rebuilt{}, err
		}
		switch {
		case s.Working():
			a.progress(s.State, min(s.At, max(s.Of, 1)-1), s.Of) // the end comes once
		case s.Damage:
			return rebuilt{}, &integrity.Damage{Seq: s.InDoubt, Reason: s.Failure}
		case s.Result == nil:
			return rebuilt{}, errors.New("the old views stay in use: " + events.Escape(s.Failure))
		default:
			a.progress("fold", s.Result.Events, s.Result.Events)
			return *s.Result, nil
		}
		if err := pauseFor(ctx, lookAgain); err != nil {
			return rebuilt{}, err
		}
	}
}
